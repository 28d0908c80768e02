"""Opens the store of a hall: connect, bring the tables up to date, import what the reference left, begin."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Final

from moothall import __version__
from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.hall.common import LISTS, ListName
from moothall.hall.outside import Entropy, Log
from moothall.identity import PrivateKey
from moothall.market.hooks import Subscription
from moothall.store import access_files, common, former, halls, migrations, reference, sqlite
from moothall.store.books import StoreBooks
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory
from moothall.store.hall_key import hall_key
from moothall.store.mirror import Mirror
from moothall.store.rows import Draft
from moothall.store.schema import VERSION
from moothall.store.units import Engine, Result, Statistics

if TYPE_CHECKING:
    from moothall.store.network_claim import NetworkClaim
    from moothall.store.signals import Signals
    from moothall.store.supervised import Hearing, Supervised

SCHEMES: Final = ("postgresql://", "postgres://")


class Store:
    """A store whose ratings and receipts can be read in files beside it. If the process is supervised, the
    supervising process writes these."""

    def __init__(self, engine: Engine, mirror: Mirror | None) -> None:
        self._engine = engine
        self._mirror = mirror

    def submit(
        self,
        work: Callable[[StoreBooks], Result],
        done: Callable[[Result], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._engine.submit(work, done, failed)

    def statistics(self) -> Statistics:
        return self._engine.statistics()

    def close(self) -> None:
        self._engine.close()
        if self._mirror is not None:
            self._mirror.close()


class KeptStore:
    """What the supervising process has of a store: it is ready for the nodes, and the files beside it follow."""

    def __init__(self, connection: Connection | None, mirror: Mirror) -> None:
        """`connection` is to a file. SQLite removes the log beside it when its last connection is closed."""
        self._connection = connection
        self._mirror = mirror

    def changed(self) -> None:
        """The files are out of date."""
        self._mirror.look()

    def close(self) -> None:
        """After the last node."""
        self._mirror.close()
        if self._connection is not None:
            self._connection.close()


def open_store(
    directory: DataDirectory,
    url: str,
    log: Log,
    subscriptions: Sequence[Subscription] = (),
    on_events: Callable[[], None] = lambda: None,
    hall: str = "",
    supervised: "Supervised | None" = None,
) -> Store:
    """`url` is a PostgreSQL database; "" is a file in the data directory. Call it on the running loop, where
    `on_events` is called after commits that left events for the subscribers. `hall` names this hall to others on
    the same database. A process that is `supervised` finds a store that is ready, and shares it."""
    loop = asyncio.get_running_loop()
    mirror: Mirror | None = None
    if supervised is None:
        connection = _made_ready(directory, url, log)
        mirror = _mirror(directory, url, log)
        notice = mirror.notice
    else:
        connection = connect(directory.path, url)
        notice = supervised.tell if url else supervised.note

    def committed(changes: Draft) -> None:
        notice(changes)
        if changes.has_events:
            loop.call_soon_threadsafe(on_events)

    if isinstance(connection, sqlite.SqliteConnection):
        migrations.require_current(connection)
        engine = sqlite.SqliteStore(connection, committed, subscriptions, hall=hall, turn=supervised)
        return Store(engine, mirror)
    connection.close()
    from moothall.store.postgres import PostgresStore

    return Store(PostgresStore(url, committed, subscriptions, hall=hall), mirror)


def keep_store(directory: DataDirectory, url: str, log: Log) -> KeptStore:
    """For the process that supervises others, which open the store with `open_store`."""
    connection = _made_ready(directory, url, log)
    mirror = _mirror(directory, url, log)
    if not url:
        return KeptStore(connection, mirror)
    connection.close()
    return KeptStore(None, mirror)


def _made_ready(directory: DataDirectory, url: str, log: Log) -> Connection:
    connection = connect(directory.path, url, create=True)
    broken: tuple[type[Exception], ...] = (*connection.errors, UnicodeDecodeError)
    try:
        prepare(connection, directory, log)
        if not url:
            halls.forget_all(connection)
            directory.sync()  # the file's name must survive a power cut too
    except broken as error:
        connection.close()
        place, remedy = "", ""
        if not url:
            place, remedy = f"{directory.path / sqlite.FILE}: ", f"; {sqlite.REMEDY}"
        what = " ".join(str(error).split())
        raise UsageError(f"{place}the store cannot be made ready: {what}{remedy}") from error
    except BaseException:
        connection.close()
        raise
    return connection


def _mirror(directory: DataDirectory, url: str, log: Log) -> Mirror:
    return Mirror(directory.path, lambda: connect(directory.path, url), log, is_shared=bool(url))


def open_node_store(directory: DataDirectory) -> sqlite.SqliteStore:
    """The store of a node of the mesh: a file with the same tables, without the files of a hall beside it. So the
    commands for credits and for the log of the mesh work on it. Call it on the running loop."""
    path = directory.path / sqlite.FILE
    connection = sqlite.connect(path, create=True)
    broken: tuple[type[Exception], ...] = (*connection.errors, UnicodeDecodeError)
    try:
        connection.execute(connection.dialect.begin)
        found = migrations.upgrade(connection, int(time() * 1000))
        if found == 0:
            _sign(connection)
        connection.execute("COMMIT")
    except broken as error:
        connection.close()
        what = " ".join(str(error).split())
        raise UsageError(f"{path}: the store cannot be made ready: {what}; {sqlite.REMEDY}") from error
    except BaseException:
        connection.close()
        raise
    directory.sync()  # the file's name must survive a power cut too
    return sqlite.SqliteStore(connection, lambda changes: None)


def bound_ids(directory: DataDirectory) -> Iterator[str]:
    """Of a store in a file, which no other hall uses: all ids that have a key."""
    with closing(connect(directory.path, "")) as connection:
        for row in connection.stream("SELECT id FROM bindings"):
            yield row[0]


def revoked_keys(directory: DataDirectory, url: str) -> list[tuple[int, bytes]]:
    """(number, key) of all that were revoked, in their order."""
    with closing(connect(directory.path, url)) as connection:
        rows = connection.execute("SELECT number, key FROM revocations ORDER BY number").fetchall()
    return [(number, key) for number, key in rows]


def open_signals(
    url: str, hall: str, heard: Callable[[str], None], supervised: "Supervised | None" = None
) -> "Signals | Hearing":
    """What other halls than this one signal through their common PostgreSQL, and other nodes through the process
    that supervises them."""
    if supervised is not None and not url:
        return supervised.hear(heard)
    from moothall.store.signals import Signals

    return Signals(url, hall, heard)


def claim_network(url: str) -> "NetworkClaim":
    """For one hall of those on this PostgreSQL. Raises SettingsError if another one has it."""
    from moothall.store.network_claim import NetworkClaim

    return NetworkClaim(url)


def common_lists(
    directory: DataDirectory, url: str
) -> tuple[dict[ListName, list[bytes]], dict[ListName, int]]:
    """The records of all lists that halls have in common, and the versions of the lists."""
    with closing(connect(directory.path, url)) as connection:
        versions = common.versions(connection)  # first: what changes meanwhile is read again
        return {of: common.listed(connection, of) for of in LISTS}, versions


def database_time(directory: DataDirectory, url: str) -> float:
    """Seconds since the epoch, by the clock of the machine that the database is on."""
    with closing(connect(directory.path, url)) as connection:
        ((milliseconds,),) = connection.execute(f"SELECT {connection.dialect.now}").fetchall()
    return int(milliseconds) / 1000


def pinned(directory: DataDirectory, url: str) -> list[tuple[int, str, bytes]]:
    """(number, hash of the identity, key) of all keep identities that are pinned, in their order."""
    with closing(connect(directory.path, url)) as connection:
        return common.pinned(connection)


def read_hall_key(directory: DataDirectory, url: str, secret: str, entropy: Entropy, log: Log) -> PrivateKey:
    """The key that halls on this store sign with, and agents know them by."""
    with closing(connect(directory.path, url)) as connection:
        return hall_key(connection, directory, secret, entropy, log)


def connect(directory: Path, url: str, *, create: bool = False) -> Connection:
    if not url:
        return sqlite.connect(directory / sqlite.FILE, create=create)
    if not url.startswith(SCHEMES):
        raise UsageError("the store is a URL that begins with postgresql://, or nothing for a file")
    try:
        from moothall.store import postgres
    except ImportError:
        raise UsageError(
            f"PostgreSQL needs psycopg, which is not installed; run: {install_command('postgres')}"
        ) from None
    return postgres.connect_first(url)


def prepare(connection: Connection, directory: DataDirectory, log: Log) -> None:
    """All of it in one transaction: a hall that dies meanwhile starts anew."""
    connection.execute(connection.dialect.begin)
    migrations.lock(connection)
    found = migrations.version_of(connection)
    migrations.refuse_newer(found)
    if 0 < found < VERSION and connection.dialect.locks_rows:
        raise UsageError(
            f"the store has version {found}, this program needs {VERSION}. Other halls may be using it:"
            " stop them, then run `moothall store upgrade`"
        )
    if found == 0 and connection.dialect.locks_rows and (directory.path / sqlite.FILE).exists():
        raise UsageError(
            f"the database is empty, and {directory.path / sqlite.FILE} has a hall, with its key and deals:"
            " `moothall store move` copies them; for a new hall choose another --data-dir"
        )
    now = int(time() * 1000)
    migrations.upgrade(connection, now)
    if found == 0:
        _sign(connection)
        reference.bring_in(connection, directory, log)
    else:
        reference.keep_unknown(connection, directory, log)
    former.bring_in(connection, directory, log)
    access_files.bring_in(connection, directory, log, is_new=found == 0)
    connection.execute("COMMIT")
    former.finish(directory)
    access_files.AccessMirror(directory.path).follow(connection)
    if 0 < found < VERSION:
        log.info("store_upgraded", engine=connection.dialect.name, found=found, version=VERSION)


def _sign(connection: Connection) -> None:
    connection.execute(
        "INSERT INTO meta (name, value) VALUES ('created_by', ?)", (f"moothall {__version__}",)
    )
