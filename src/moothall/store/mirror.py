"""`ratings.json` and `receipts.jsonl`, kept in step with the database in the reference's format (agentchat wire
12.7, 12.9), for programs that read them. The database wins: what is in the files is never read back while a
hall has its database, and they are made anew when they do not fit it. The access lists are kept in step with it
too (`access_files`).

The mirror has a thread and a connection of its own, so that no command waits for it, and takes at most a small
share of the machine however many agents there are. Its files are replaced without waiting for the disk: after a
power cut the next start makes them anew.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any, Final

import msgspec

from moothall.errors import UsageError
from moothall.hall.outside import Log
from moothall.identity import PublicKey
from moothall.identity.certificates import timestamp_text
from moothall.market.records import SkillStanding, Standing
from moothall.store.access_files import AccessMirror
from moothall.store.dialect import Connection
from moothall.store.files import replace
from moothall.store.rows import Draft
from moothall.store.units import step_back

RATINGS_FILE: Final = "ratings.json"
RECEIPTS_FILE: Final = "receipts.jsonl"

LEAST_INTERVAL: Final = 1.0  # seconds from one snapshot to the next
SHARE: Final = 100  # a snapshot that takes a second is followed by a hundred without one
LOOK_SECONDS: Final = 60.0  # between looks at a shared database: other halls do not tell what they change
RETRY_SECONDS: Final = 10.0  # after one that failed: a full disk is not worth a line in the log each second

# Where several write at once, receipts may be committed in another order than they were numbered: so many numbers
# back, one may still appear.
LATE: Final = 1000

_decode: Final = msgspec.json.Decoder(Standing).decode


class Mirror:
    def __init__(
        self, directory: Path, connect: Callable[[], Connection], log: Log, *, is_shared: bool = False
    ) -> None:
        """`is_shared`: others may change the database, or a connection to it be lost before it could say that a
        change was committed."""
        self._directory = directory
        self._patience = LOOK_SECONDS if is_shared else None
        self._connect = connect
        self._log = log
        self._receipts = ReceiptsFile(directory / RECEIPTS_FILE)
        self._lists = AccessMirror(directory)
        self._changed = threading.Event()
        self._changed.set()  # the files may be older than the database, or missing
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="mirror", daemon=True)
        self._thread.start()

    def notice(self, committed: Draft) -> None:
        if committed.is_mirrored:
            self.look()

    def look(self) -> None:
        """Something was changed that the files show."""
        self._changed.set()

    def close(self) -> None:
        """The files are up to date afterwards. Nothing may be committed after this."""
        self._closing.set()
        self._changed.set()
        self._thread.join()

    def _serve(self) -> None:
        step_back()
        while not self._closing.is_set():
            self._changed.wait(self._patience)
            self._closing.wait(self._update())
        self._update()

    def _update(self) -> float:
        """Write what has changed. Return the seconds to pause afterwards."""
        began = monotonic()
        self._changed.clear()
        try:
            connection = self._connect()
            try:
                self._copy(connection)
            except connection.errors as error:
                return self._failed(" ".join(str(error).split()))
            finally:
                connection.close()
        except (OSError, UsageError) as error:
            return self._failed(str(error))
        return max(LEAST_INTERVAL, SHARE * (monotonic() - began))

    def _failed(self, error: str) -> float:
        self._log.warning("mirror_failed", error=error)
        self._changed.set()  # there is still something to write
        return RETRY_SECONDS

    def _copy(self, connection: Connection) -> None:
        connection.execute(connection.dialect.snapshot)
        replace(self._directory / RATINGS_FILE, ratings_text(connection))
        self._receipts.follow(connection)
        self._lists.follow(connection)
        connection.execute("COMMIT")


class ReceiptsFile:
    """Grows line by line: there are too many to write them all each time. If the file is not as the hall left it
    (it was moved away, or the disk was full in the middle of a line), it is written anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written: set[int] = set()  # the latest numbers
        self._left_at: int | None = None  # its size; None: the file was not looked at yet

    def follow(self, connection: Connection) -> None:
        if self._size() == self._left_at:
            self._append(connection, self._written)
        else:
            self._begin(connection)
        self._left_at = self._size()

    def _begin(self, connection: Connection) -> None:
        row = connection.execute(
            "SELECT count(*), coalesce(sum(length(body)), 0), coalesce(max(number), 0) FROM receipts"
        ).fetchone()
        count, size, last = row or (0, 0, 0)
        if self._size() != size + count:
            receipts = connection.stream("SELECT body FROM receipts ORDER BY number")
            replace(self._path, (body + b"\n" for (body,) in receipts))
        self._written = set(self._numbers(connection, last - LATE))

    def _append(self, connection: Connection, written: set[int]) -> None:
        late = LATE if connection.dialect.locks_rows else 0
        new = set(self._numbers(connection, max(written, default=0) - late)) - written
        if not new:
            return
        rows = connection.execute(
            "SELECT number, body FROM receipts WHERE number >= ? ORDER BY number", (min(new),)
        ).fetchall()
        with self._path.open("ab") as file:
            file.writelines(body + b"\n" for number, body in rows if number in new)
        horizon = max(new) - late
        self._written = {number for number in written if number > horizon} | new

    def _numbers(self, connection: Connection, after: int) -> list[int]:
        rows = connection.execute("SELECT number FROM receipts WHERE number > ?", (after,)).fetchall()
        return [row[0] for row in rows]

    def _size(self) -> int:
        """-1: there is no such file."""
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return -1


def ratings_text(connection: Connection) -> Iterator[bytes]:
    """JSON with an indentation of two, row by row: a hundred thousand agents are not held in memory at once."""
    separator = b"{\n"
    for agent_id, standing in _everybody(connection):
        fields = msgspec.json.format(msgspec.json.encode(_rating(standing)), indent=2)
        yield separator + f'  "@{agent_id}": '.encode() + fields.replace(b"\n", b"\n  ")
        separator = b",\n"
    yield b"{}" if separator == b"{\n" else b"\n}"


def _everybody(connection: Connection) -> Iterator[tuple[str, Standing]]:
    for (record,) in connection.stream("SELECT record FROM standings ORDER BY key"):
        standing = _decode(record)
        yield PublicKey(standing.key).fingerprint, standing
    waiting = (
        "SELECT fingerprint, standing FROM imported"
        " WHERE bound_to IS NULL AND standing IS NOT NULL ORDER BY fingerprint"
    )
    for fingerprint, record in connection.stream(waiting):
        yield fingerprint, _decode(record)


def _rating(standing: Standing | SkillStanding) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "rating": standing.rating,
        "transactions": standing.transactions,
        "updated": None if standing.updated is None else timestamp_text(standing.updated),
    }
    if isinstance(standing, Standing) and standing.skills:
        fields["skills"] = {name: _rating(skill) for name, skill in standing.skills.items()}
    return fields
