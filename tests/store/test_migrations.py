"""From nothing to the newest tables, from an older version to it, and never from a newer one."""

import asyncio
from typing import Any

import pytest

from moothall.errors import UsageError
from moothall.store import migrations, opening, schema
from moothall.store.migrations import version_of
from tests.store.server import USER, Server
from tests.store.support import Place, propose, run

NEXT: Any = (*schema.MIGRATIONS, ("ALTER TABLE meta ADD COLUMN note {text}", "UPDATE meta SET note = 'kept'"))
BROKEN: Any = (*schema.MIGRATIONS, ("ALTER TABLE meta ADD COLUMN note {text}", "UPDATE nowhere SET a = 1"))


def release(monkeypatch: pytest.MonkeyPatch, migrations_of_a_later_version: Any) -> None:
    monkeypatch.setattr(migrations, "MIGRATIONS", migrations_of_a_later_version)
    for module in (migrations, opening):
        monkeypatch.setattr(module, "VERSION", len(migrations_of_a_later_version))


async def test_an_empty_place_becomes_a_store(place: Place) -> None:
    async with place.opened() as store:
        await run(store, propose("prop_1"))
    with place.connected() as connection:
        assert version_of(connection) == schema.VERSION
    assert place.log.events == []
    assert len(place.select("SELECT value FROM meta WHERE name = 'created_by'")) == 1


async def test_two_halls_that_start_at_once_make_one_store(place: Place) -> None:
    def prepare() -> None:
        with place.connected() as connection:
            opening.prepare(connection, place.directory, place.log)

    await asyncio.gather(*(asyncio.to_thread(prepare) for _ in range(6)))
    versions = [(version + 1,) for version in range(schema.VERSION)]
    assert place.select("SELECT version FROM migrations ORDER BY version") == versions


def test_a_newer_store_is_refused_in_one_line(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        release(patch, NEXT)
        with place.books():
            pass
    with pytest.raises(UsageError, match=r"newer moothall .*upgrade moothall") as raised, place.books():
        pass
    assert "\n" not in str(raised.value)
    assert place.select("SELECT max(version) FROM migrations") == [(len(NEXT),)]


def test_an_older_file_is_upgraded_when_the_hall_starts(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with sqlite.books() as books:
        propose("prop_1")(books)
    release(monkeypatch, NEXT)
    with sqlite.books() as books:
        assert books.proposal("prop_1")
    assert sqlite.select("SELECT DISTINCT note FROM meta") == [("kept",)]
    assert sqlite.log.events[-1][1]["found"] == len(schema.MIGRATIONS)


def test_an_older_database_is_not_upgraded_under_other_halls(
    postgres: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.books():
        pass
    release(monkeypatch, NEXT)
    with pytest.raises(UsageError, match="moothall store upgrade"), postgres.books():
        pass
    assert postgres.select("SELECT max(version) FROM migrations") == [(len(schema.MIGRATIONS),)]


def test_a_migration_that_fails_changes_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.books() as books:
        propose("prop_1")(books)
    release(monkeypatch, BROKEN)
    with place.connected() as connection:
        connection.execute(connection.dialect.begin)
        with pytest.raises(connection.errors, match="nowhere"):
            migrations.upgrade(connection, 0)
    assert place.select("SELECT max(version) FROM migrations") == [(len(schema.MIGRATIONS),)]
    with pytest.raises(Exception, match="note"):
        place.select("SELECT note FROM meta")
    assert place.select("SELECT count(*) FROM proposals") == [(1,)]


def test_a_reader_says_what_is_wrong_with_the_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.connected() as connection, pytest.raises(UsageError, match="no store of a hall"):
        migrations.require_current(connection)
    with place.books():
        pass
    with place.connected() as connection:
        migrations.require_current(connection)
        release(monkeypatch, NEXT)
        with pytest.raises(UsageError, match="run `moothall store upgrade`"):
            migrations.require_current(connection)


def test_the_ledger_of_a_store_without_books_is_the_book_of_ratings(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 5 to 6."""
    with monkeypatch.context() as former, place.connected() as connection:
        release(former, schema.MIGRATIONS[:5])
        connection.execute(connection.dialect.begin)
        migrations.upgrade(connection, 0)
        connection.execute(
            "INSERT INTO postings (deal, operation, account, amount, at)"
            " VALUES ('prop_1', 'lock', 'agent:a', -5, 9), ('prop_1', 'lock', 'escrow:prop_1', 5, 9)"
        )
        connection.execute("COMMIT")
    with place.connected() as connection:
        connection.execute(connection.dialect.begin)
        assert migrations.upgrade(connection, 0) == 5
        connection.execute("COMMIT")
    assert place.select(
        "SELECT book, deal, operation, account, amount, at FROM postings ORDER BY amount"
    ) == [
        ("elo", "prop_1", "lock", "agent:a", -5, 9),
        ("elo", "prop_1", "lock", "escrow:prop_1", 5, 9),
    ]
    with place.connected() as connection, pytest.raises(connection.errors, match="append-only"):
        connection.execute("DELETE FROM postings")
    with place.connected() as connection, pytest.raises(connection.errors, match=r"(?i)check"):
        connection.execute("INSERT INTO postings VALUES ('gold', 'd', 'o', 'a', 1, 0)")


async def test_a_database_where_we_may_make_nothing_is_one_line(postgres: Place, server: Server) -> None:
    user = postgres.url.removeprefix("postgresql://").partition("@")[0]
    server.execute(f"ALTER ROLE {user} NOSUPERUSER")
    server.execute(f"ALTER SCHEMA {user} OWNER TO {USER}")
    with pytest.raises(UsageError, match="the store cannot be made ready: "):
        async with postgres.opened():
            pass
