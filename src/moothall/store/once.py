"""One unit of work without a hall: what commands do to a store, which halls may be using meanwhile."""

from collections.abc import Callable
from contextlib import suppress

from moothall.store.books import StoreBooks
from moothall.store.dialect import Connection
from moothall.store.row_cache import RowCache
from moothall.store.rows import Stale
from moothall.store.transaction import Transaction
from moothall.store.units import Result, StoreFailed, Unit


def run_once(connection: Connection, url: str, work: Callable[[StoreBooks], Result]) -> Result:
    """Run it on the thread that calls, and return what it returns. Raises what it raises, and StoreFailed.

    `connection` leads to the store that `url` names; "" is a file. A unit on PostgreSQL has a connection of its
    own, and is repeated when it collides with others.
    """
    return _in_file(connection, work) if not url else _in_database(url, work)


def look_once(connection: Connection, look: Callable[[StoreBooks], Result]) -> Result:
    """What `look` finds in one snapshot of the store. It saves nothing, and no hall waits for it."""
    connection.execute(connection.dialect.snapshot)
    try:
        return look(Transaction(connection, RowCache()).unit())
    finally:
        connection.execute("ROLLBACK")


def _in_file(connection: Connection, work: Callable[[StoreBooks], Result]) -> Result:
    """There is one writer: BEGIN waits for the others."""
    transaction = Transaction(connection, RowCache(), careful=True)
    transaction.begin()
    try:
        books = transaction.unit()
        result = work(books)
        books.keep()
        transaction.write()
        transaction.commit()
    except BaseException as error:
        with suppress(*connection.errors):  # after some failures the engine has rolled back itself
            connection.execute("ROLLBACK")
        if isinstance(error, Stale):
            raise StoreFailed("not saved: rows are not as the unit expected them") from error
        raise
    return result


def _in_database(url: str, work: Callable[[StoreBooks], Result]) -> Result:
    from moothall.store.postgres import PgWorker

    results: list[Result] = []
    failures: list[BaseException] = []
    worker = PgWorker(url)
    try:
        answer = worker.run(Unit(work, results.append, failures.append)).answer
        answer.tell(answer.what)
    finally:
        worker.close()
    if failures:
        raise failures[0]
    return results[0]
