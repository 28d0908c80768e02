"""The batch of an epoch: what the node did, as the reference sums it up (mesh wire 12).

All envelopes of the log are counted, by type and by sender. The rest of a batch is about what the agent of the node
got from others: bids, acceptances, assignments, VERDICTs, DISPUTEs, FEEDBACK about it. Of what it sent, only the
notary counts that its node assigned. Agents that the node hosts are others. The reference counts no notarizations.
"""

from collections import OrderedDict
from typing import Final

from msgspec import structs

from moothall.hall.outside import Store
from moothall.market.behaviour import Batch
from moothall.market.mesh import assigned_notary
from moothall.market.node_books import LogRow
from moothall.node.desk import Books
from moothall.node.reports import BatchSummary
from moothall.node.units import done
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import Envelope, decode, sender_of
from moothall.wire.mesh.epochs import BehaviorBatch, VerifierId
from moothall.wire.mesh.msg_types import MsgType

AT_ONCE: Final = 500  # envelopes in one piece
MAX_KEPT: Final = 64  # summaries of epochs that have ended


class BatchCount:
    """Takes the log of an epoch in its order."""

    def __init__(self, agent: bytes, epoch: int) -> None:
        self._agent = agent
        self._batch = Batch(agent, epoch)
        self._tree = merkle.Tree()
        self._verdicts = 0
        self._disputes = 0
        self._verifiers: list[VerifierId] = []

    def add(self, row: LogRow) -> None:
        if sender_of(row.envelope) == self._agent:
            self._send(row)
        else:
            self.receive(row)

    def receive(self, row: LogRow) -> None:
        envelope = self._logged(row)
        self._batch.add(envelope, row.slot)
        self._verdicts += envelope.msg_type is MsgType.VERDICT
        self._disputes += envelope.msg_type is MsgType.DISPUTE
        self._add_verifier(envelope, assigned_notary(envelope), row.slot)

    def _send(self, row: LogRow) -> None:
        envelope = self._logged(row)
        self._batch.count(envelope)
        self._add_verifier(envelope, row.notary, row.slot)

    def _logged(self, row: LogRow) -> Envelope:
        self._tree.add(merkle.leaf(row.envelope))
        return decode(row.envelope)

    def finished(self) -> BehaviorBatch:
        return structs.replace(
            self._batch.finished(self._tree.root()),
            tasks_completed=self._verdicts,
            notarizations=0,
            disputes=self._disputes,
            verifier_ids=self._verifiers,
        )

    def _add_verifier(self, envelope: Envelope, notary: bytes | None, slot: int) -> None:
        if notary is not None:
            self._verifiers.append(VerifierId(envelope.conversation_id, notary, slot))


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
