"""The batch of an epoch: what the node did, as the reference sums it up (mesh wire 12).

The hall makes batches of its agents with the same code. A node counts all envelopes of its log, and no
notarizations: the reference never does.
"""

from collections import OrderedDict
from typing import Final

from msgspec import structs

from moothall.hall.outside import Store
from moothall.market.behaviour import Batch
from moothall.market.node_books import LogRow
from moothall.node.desk import Books
from moothall.node.reports import BatchSummary
from moothall.node.units import done
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import decode
from moothall.wire.mesh.epochs import BehaviorBatch

AT_ONCE: Final = 500  # envelopes in one piece
MAX_KEPT: Final = 64  # summaries of epochs that have ended


class BatchCount:
    """Takes the log of an epoch in its order."""

    def __init__(self, agent: bytes, epoch: int) -> None:
        self._batch = Batch(agent, epoch)
        self._tree = merkle.Tree()

    def add(self, row: LogRow) -> None:
        self._tree.add(merkle.leaf(row.envelope))
        self._batch.add(decode(row.envelope), row.at // 1000, row.notary)

    def finished(self) -> BehaviorBatch:
        return structs.replace(self._batch.finished(self._tree.root()), notarizations=0)


class Batches:
    def __init__(self, store: Store[Books], agent: bytes) -> None:
        self._store = store
        self._agent = agent
        self._closed: OrderedDict[int, BatchSummary] = OrderedDict()

    async def summary(self, epoch: int) -> BatchSummary | None:
        """None if the log has no envelope of this epoch."""
        if epoch in self._closed:
            return self._closed[epoch]
        is_closed = await done(self._store, lambda books: books.closed_epoch(epoch) is not None)
        count, number = BatchCount(self._agent, epoch), 0
        while rows := await self._rows(epoch, number):
            for row in rows:
                count.add(row)
            number = rows[-1].number
        if not number:
            return None
        batch = count.finished()
        summary = BatchSummary(self._agent, epoch, batch.message_count, batch.log_merkle_root, batch.hash())
        if is_closed:
            self._closed[epoch] = summary
            if len(self._closed) > MAX_KEPT:
                self._closed.popitem(last=False)
        return summary

    async def _rows(self, epoch: int, after: int) -> list[LogRow]:
        return await done(self._store, lambda books: books.log_after(after, AT_ONCE, epoch=epoch))
