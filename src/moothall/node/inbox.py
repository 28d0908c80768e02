"""What came for an agent, and which of its deliveries failed: both with a cursor. The log keeps the envelopes."""

from typing import Final

from moothall.hall.outside import Store
from moothall.node.desk import Books
from moothall.node.reports import DeliveryFailed, Received
from moothall.node.units import done
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.msg_types import MsgType

MAX_PAGE: Final = 500
MAX_AGE: Final = 30 * 24 * 60 * 60 * 1000  # ms for which an inbox has an envelope


async def read_inbox(store: Store[Books], agent: bytes, after: int, limit: int) -> list[Received]:
    rows = await done(store, lambda books: books.arrived(agent, max(0, after), _most(limit)))
    return [Received(row.number, decode(row.envelope), row.at, row.note) for row in rows]


async def read_failures(store: Store[Books], after: int, limit: int) -> list[DeliveryFailed]:
    rows = await done(store, lambda books: books.failures(max(0, after), _most(limit)))
    return [
        DeliveryFailed(
            row.number,
            row.sender,
            row.recipient,
            MsgType(row.msg_type),
            row.conversation_id,
            row.nonce,
            row.reason,
            row.at,
        )
        for row in rows
    ]


def _most(limit: int) -> int:
    return max(1, min(limit, MAX_PAGE))
