"""The inbox of an agent: what came for it, with a cursor. The log has the envelopes, and keeps them."""

from typing import Final

from moothall.hall.outside import Store
from moothall.node.desk import Books
from moothall.node.reports import Received
from moothall.node.units import done
from moothall.wire.mesh.envelope import decode

MAX_PAGE: Final = 500
MAX_AGE: Final = 30 * 24 * 60 * 60 * 1000  # ms for which an inbox has an envelope


async def read_inbox(store: Store[Books], agent: bytes, after: int, limit: int) -> list[Received]:
    most = max(1, min(limit, MAX_PAGE))
    rows = await done(store, lambda books: books.arrived(agent, max(0, after), most))
    return [Received(row.number, decode(row.envelope), row.at, row.note) for row in rows]
