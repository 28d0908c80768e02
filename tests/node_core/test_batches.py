"""Batches of a node, against the vectors."""

from moothall.market.node_books import LogRow
from moothall.node.batches import BatchCount
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, Verdict
from tests.identity.vectors import ALICE, BOB
from tests.market.test_behaviour import shown
from tests.support.envelopes import CONVERSATION, envelope
from tests.support.mesh import AGENTS, VECTORS, vector_envelope

VECTOR = VECTORS["behavior_batch"]["fields"]


def rows(count: int) -> list[LogRow]:
    made = [vector_envelope(vector["name"]) for vector in VECTORS["envelopes"][:count]]
    return [
        LogRow(number, VECTOR["epoch_number"], each.block_ref * 1000, encode(each))
        for number, each in enumerate(made, 1)
    ]


def test_the_batch_of_the_vectors() -> None:
    """All but the number of senders, and a VERDICT to another agent: the vector counts them over another log."""
    count = BatchCount(AGENTS["B"], VECTOR["epoch_number"])
    for row in rows(13):
        count.add(row)
    batch = count.finished()
    for name, expected in VECTOR.items():
        if not name.startswith(("overflow", "unique", "tasks", "log_merkle_root")):
            assert shown(getattr(batch, name)) == expected, name
    assert batch.unique_counterparties == len(
        {vector_envelope(v["name"]).sender for v in VECTORS["envelopes"][:13]}
    )


def test_the_root_is_that_of_the_log() -> None:
    for number in (1, 2, 3, 5, 13):
        count = BatchCount(AGENTS["B"], 1)
        for row in rows(number):
            count.add(row)
        leaves = [bytes.fromhex(vector["merkle_leaf_hex"]) for vector in VECTORS["envelopes"][:number]]
        assert count.finished().log_merkle_root == merkle.root(leaves)


def test_verdicts_that_came_are_tasks_and_those_that_were_sent_are_not_counted() -> None:
    """The reference never counts notarizations."""
    alice, bob = ALICE.public.raw, BOB.public.raw
    verdict = Verdict(Judgement.APPROVE, bytes(32), bob).encode()
    count = BatchCount(alice, 1)
    for number, (sender, to) in enumerate(((ALICE, BOB), (BOB, ALICE)), 1):
        made = envelope(sender, MsgType.VERDICT, verdict, to=to, conversation_id=CONVERSATION)
        count.add(LogRow(number, 1, 86_400_000, encode(made)))
    batch = count.finished()
    assert (batch.tasks_completed, batch.notarizations, batch.unique_counterparties) == (1, 0, 2)
    assert batch.message_count == batch.msg_type_counts[MsgType.VERDICT] == 2
