"""The steps of a migration, as each engine takes them.

A step is SQL with the names of types in braces (see `dialect`), or begins with one of the words below.
"""

from typing import Final

from moothall.store.dialect import SQLITE, Dialect

FILL: Final = "fill: "
APPENDED: Final = "append only: "
REPLACED: Final = "replaced: "
SHARED: Final = "shared: "  # for an engine that halls on several machines can use at once
IN_FILE: Final = "in a file: "  # for the other one, whose processes are on one machine


def statements(migration: tuple[str, ...], dialect: Dialect) -> list[str]:
    """As the engine takes them. A step that says `fill: ` is not SQL (see `migrations`)."""
    written: list[str] = []
    for statement in migration:
        if statement.startswith(APPENDED):
            written += _append_only(statement.removeprefix(APPENDED), dialect)
        elif statement.startswith(REPLACED):
            written += _replaced(statement.removeprefix(REPLACED), dialect)
        elif statement.startswith(SHARED):
            if dialect.locks_rows:
                written.append(statement.removeprefix(SHARED).format_map(dialect.types))
        elif statement.startswith(IN_FILE):
            if not dialect.locks_rows:
                written.append(statement.removeprefix(IN_FILE).format_map(dialect.types))
        elif not statement.startswith(FILL):
            written.append(statement.format_map(dialect.types))
    return written


def fills(migration: tuple[str, ...]) -> list[str]:
    """The tables that are filled from what is there, after the statements."""
    return [step.removeprefix(FILL) for step in migration if step.startswith(FILL)]


def _replaced(table: str, dialect: Dialect) -> list[str]:
    """Rename an append-only table to `old_...`, so that a new one can have its name and its rows."""
    if dialect is SQLITE:
        lifted = [f"DROP TRIGGER {table}_no_{verb}" for verb in ("update", "delete")]
    else:
        lifted = [f"DROP TRIGGER {table}_append_only ON {table}", f"DROP FUNCTION {table}_refuse()"]
    return [*lifted, f"ALTER TABLE {table} RENAME TO old_{table}"]


def _append_only(table: str, dialect: Dialect) -> list[str]:
    """The database itself refuses to change or remove what is there."""
    if dialect is SQLITE:
        return [
            f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table}"
            f" BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
            for verb in ("UPDATE", "DELETE")
        ]
    refuse = (
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
    )
    whenever = (
        f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    )
    return [refuse, whenever]
