"""`moothall store`: bring the store up to date, check it, write it out."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import time
from typing import Annotated

import typer

from moothall.cli.exits import FAILED, group
from moothall.cli.options import Config, choose
from moothall.errors import UsageError
from moothall.store import migrations
from moothall.store.dialect import Connection
from moothall.store.opening import connect
from moothall.store.schema import VERSION

app = group("store", "What a hall keeps: deals, ratings, the ledger, receipts.")

DataDir = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder with the hall's `hall.db`.")]
Url = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="PostgreSQL database instead of a file.")
]


@app.command()
def upgrade(data_dir: DataDir = None, store: Url = None, config: Config = None) -> None:
    """Bring the tables up to this version. Stop the halls that use them first."""
    with _opened(data_dir, store, config) as connection:
        connection.execute(connection.dialect.begin)
        migrations.lock(connection)
        if migrations.version_of(connection) == 0:
            raise UsageError("there is no store of a hall there; `moothall serve` makes one")
        found = migrations.upgrade(connection, int(time() * 1000))
        connection.execute("COMMIT")
    if found == VERSION:
        typer.echo(f"the store has version {VERSION} already")
    else:
        typer.echo(f"upgraded the store from version {found} to {VERSION}")


@app.command()
def check(data_dir: DataDir = None, store: Url = None, config: Config = None) -> None:
    """Compare deals, standings, ledger, audit trail and receipts. The exit code is 1 if they do not fit.

    It may be used while a hall is running.
    """
    from moothall.store.checks import problems

    found = 0
    with _opened(data_dir, store, config) as connection:
        migrations.require_current(connection)
        for problem in problems(connection):
            typer.echo(problem)
            found += 1
    if found:
        raise typer.Exit(FAILED)
    typer.echo("no problems found")


@app.command()
def export(
    data_dir: DataDir = None,
    store: Url = None,
    config: Config = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; else standard output."),
    ] = None,
) -> None:
    """Write everything out, one JSON object per line."""
    from moothall.store.export import exported
    from moothall.store.files import replace

    with _opened(data_dir, store, config) as connection:
        migrations.require_current(connection)
        if output is None:
            sys.stdout.buffer.writelines(exported(connection))
            return
        try:
            replace(output, exported(connection))
        except OSError as error:
            raise UsageError(f"{output}: {error.strerror}") from None


@contextmanager
def _opened(data_dir: Path | None, url: str | None, config: Path | None) -> Iterator[Connection]:
    settings = choose(config, None, data_dir=data_dir, store=url).settings
    connection = connect(settings.data_dir, settings.store)
    try:
        yield connection
    except connection.errors as error:
        raise UsageError(f"the store: {' '.join(str(error).split())}") from error
    finally:
        connection.close()
