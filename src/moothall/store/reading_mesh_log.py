"""The log of the mesh outside of a unit of work, for commands: of one moment, and row by row.

A log of any length can be read: no function here holds more of it than it returns.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from moothall.market.epoch_log import Act, ClosedEpoch
from moothall.store.dialect import Connection
from moothall.store.mesh_log import ACTS
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import HASH_BYTES
from moothall.wire.mesh.msg_types import BILATERAL, MsgType

_OPEN: Final = (
    "SELECT epoch, count(*) FROM mesh_log WHERE epoch > (SELECT coalesce(max(epoch), -1) FROM mesh_epochs)"
    " GROUP BY epoch ORDER BY epoch"
)
_CLOSED: Final = "SELECT epoch, envelopes, root, record FROM mesh_epochs"
# What may concern an agent besides its own messages.
_DIRECTED: Final = ", ".join(str(int(each)) for each in sorted(BILATERAL | {MsgType.FEEDBACK}))


class Found(Struct, frozen=True):
    """An envelope of the log, and its place in the epoch's tree."""

    epoch: int
    index: int
    envelope: bytes


@contextmanager
def one_moment(connection: Connection) -> Iterator[None]:
    """All that is read within is of one moment of the store, which may be in use."""
    connection.execute(connection.dialect.snapshot)
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


def closed_epochs(connection: Connection) -> Iterator[ClosedEpoch]:
    for row in connection.stream(f"{_CLOSED} ORDER BY epoch"):
        yield ClosedEpoch(*row)


def closed_epoch(connection: Connection, epoch: int) -> ClosedEpoch | None:
    row = connection.execute(f"{_CLOSED} WHERE epoch = ?", (epoch,)).fetchone()
    return None if row is None else ClosedEpoch(*row)


def open_epochs(connection: Connection) -> list[tuple[int, int]]:
    """Epochs that have not ended, and how many envelopes they have so far."""
    return [(epoch, count) for epoch, count in connection.execute(_OPEN).fetchall()]


def envelopes(connection: Connection, epoch: int) -> Iterator[bytes]:
    for (envelope,) in connection.stream(
        f"SELECT envelope FROM mesh_log WHERE epoch = {epoch:d} ORDER BY number"  # noqa: S608  # a number
    ):
        yield envelope


def leaves(connection: Connection, epoch: int) -> Iterator[bytes]:
    for (leaf,) in connection.stream(
        f"SELECT leaf FROM mesh_log WHERE epoch = {epoch:d} ORDER BY number"  # noqa: S608  # a number
    ):
        yield leaf


def tree(connection: Connection, epoch: int) -> merkle.Tree:
    grown = merkle.Tree()
    for leaf in leaves(connection, epoch):
        grown.add(leaf)
    return grown


def find(connection: Connection, digits: str) -> list[Found]:
    """The envelopes whose hash begins with these hex digits; at most two, since one is meant."""
    first, last = (bytes.fromhex(digits.ljust(2 * HASH_BYTES, digit)) for digit in "0f")
    rows = connection.execute(
        "SELECT number, epoch, envelope FROM mesh_log WHERE hash >= ? AND hash <= ? ORDER BY hash LIMIT 2",
        (first, last),
    ).fetchall()
    return [Found(epoch, _index(connection, epoch, number), envelope) for number, epoch, envelope in rows]


def _index(connection: Connection, epoch: int, number: int) -> int:
    row = connection.execute(
        "SELECT count(*) FROM mesh_log WHERE epoch = ? AND number < ?", (epoch, number)
    ).fetchone()
    return 0 if row is None else int(row[0])


def acts(connection: Connection, epoch: int) -> Iterator[Act]:
    """The messages of an epoch, in order."""
    for row in connection.stream(f"{ACTS} WHERE epoch = {epoch:d} ORDER BY number"):
        yield Act(*row)


def around(connection: Connection, agent: bytes, epoch: int) -> Iterator[tuple[bytes, int, bytes | None]]:
    """What may concern an agent, in order: envelopes, the ms in which they came, the notary after an ACCEPT."""
    sender = f"x'{agent.hex()}'" if not connection.dialect.locks_rows else f"'\\x{agent.hex()}'::bytea"
    for row in connection.stream(
        f"SELECT envelope, at, notary FROM mesh_log LEFT JOIN conversations ON msg_type = {MsgType.ACCEPT:d}"  # noqa: S608
        f" AND conversations.id = conversation_id WHERE epoch = {epoch:d}"
        f" AND (sender = {sender} OR msg_type IN ({_DIRECTED})) ORDER BY number"
    ):
        yield row[0], row[1], row[2]
