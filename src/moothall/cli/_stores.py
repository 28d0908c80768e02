"""Commands that work on what a hall keeps, beside the hall: where it is, and one unit of work on it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from moothall.cli._options import choose
from moothall.errors import OutcomeUnknown, UsageError
from moothall.store.opening import connect
from moothall.store.units import StoreFailed

if TYPE_CHECKING:
    from moothall.store.books import StoreBooks
    from moothall.store.dialect import Connection

DataDir = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Folder with the hall's `hall.db`.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="PostgreSQL database instead of a file.")
]

Result = TypeVar("Result")


@contextmanager
def opened_store(data_dir: Path | None, url: str | None, config: Path | None) -> "Iterator[Connection]":
    settings = choose(config, None, data_dir=data_dir, store=url).settings
    with _opened(settings.data_dir, settings.store) as connection:
        yield connection


@contextmanager
def opened_file(data_dir: Path) -> "Iterator[Connection]":
    """That of SQLite, whatever the settings say."""
    with _opened(data_dir, "") as connection:
        yield connection


@contextmanager
def _opened(data_dir: Path, url: str) -> "Iterator[Connection]":
    connection = connect(data_dir, url)
    try:
        yield connection
    except connection.errors as error:
        raise UsageError(f"the store: {' '.join(str(error).split())}") from error
    finally:
        connection.close()


def look_into(
    data_dir: Path | None, url: str | None, config: Path | None, look: "Callable[[StoreBooks], Result]"
) -> Result:
    """Return what `look` finds in one snapshot of the store. No hall waits for it."""
    from moothall.store.migrations import require_current
    from moothall.store.once import look_once

    with opened_store(data_dir, url, config) as connection:
        require_current(connection)
        return look_once(connection, look)


def run_unit(
    data_dir: Path | None, url: str | None, config: Path | None, work: "Callable[[StoreBooks], Result]"
) -> Result:
    """Run one unit of work, on the thread that calls. Halls may be using the store."""
    from moothall.store.migrations import require_current
    from moothall.store.once import run_once

    settings = choose(config, None, data_dir=data_dir, store=url).settings
    with opened_store(data_dir, url, config) as connection:
        require_current(connection)
        try:
            return run_once(connection, settings.store, work)
        except OutcomeUnknown:
            raise
        except StoreFailed as error:
            raise UsageError(f"the store: {error}") from error
