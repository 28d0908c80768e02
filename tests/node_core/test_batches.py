"""Batches of a node, against the vectors."""

from msgspec import structs

from moothall.identity import PrivateKey
from moothall.market.node_books import LogRow
from moothall.node.batches import BatchCount
from moothall.wire.mesh import merkle
from moothall.wire.mesh.envelope import encode
from moothall.wire.mesh.epochs import BehaviorBatch
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import Judgement, NotarizeAssign, Verdict
from moothall.wire.mesh.offers import encode_amount
from moothall.wire.mesh.outcomes import Feedback, Outcome
from tests.identity.vectors import ALICE, BOB, CAROL
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
    """The vector has all envelopes as received, and 2 senders: its log has 3 (mesh wire 12)."""
    count = BatchCount(AGENTS["B"], VECTOR["epoch_number"])
    for row in rows(13):
        count.receive(row)
    batch = count.finished()
    assert batch.unique_counterparties == 3
    whole = structs.replace(batch, unique_counterparties=VECTOR["unique_counterparties"])
    for name, expected in VECTOR.items():
        assert name.startswith("overflow") or shown(getattr(whole, name)) == expected, name
    assert whole.hash().hex() == VECTORS["behavior_batch"]["batch_hash"]


def test_the_root_is_that_of_the_log() -> None:
    for number in (1, 2, 3, 5, 13):
        count = BatchCount(AGENTS["B"], 1)
        for row in rows(number):
            count.add(row)
        leaves = [bytes.fromhex(vector["merkle_leaf_hex"]) for vector in VECTORS["envelopes"][:number]]
        assert count.finished().log_merkle_root == merkle.root(leaves)


def said(sender: PrivateKey, to: PrivateKey, number: int = 1) -> list[LogRow]:
    """One message of each type that a batch looks into."""
    about = to.public.raw
    payloads = {
        MsgType.PROPOSE: encode_amount(5),
        MsgType.ACCEPT: encode_amount(5),
        MsgType.NOTARIZE_ASSIGN: NotarizeAssign(CAROL.public.raw).encode(),
        MsgType.VERDICT: Verdict(Judgement.APPROVE, bytes(32), about).encode(),
        MsgType.DISPUTE: b"",
        MsgType.FEEDBACK: Feedback(
            conversation_id=CONVERSATION, target_agent=ALICE.public.raw, score=80, outcome=Outcome.POSITIVE
        ).encode(),
    }
    made = (
        envelope(
            sender,
            msg_type,
            payload,
            to=to if msg_type in BILATERAL else None,
            conversation_id=CONVERSATION,
        )
        for msg_type, payload in payloads.items()
    )
    return [LogRow(place, 1, 86_400_000, encode(each)) for place, each in enumerate(made, number)]


def batch_of(agent: PrivateKey, *log: LogRow) -> BehaviorBatch:
    count = BatchCount(agent.public.raw, 1)
    for row in log:
        count.add(row)
    return count.finished()


def lists(batch: BehaviorBatch) -> tuple[int, ...]:
    return (
        batch.tasks_completed,
        batch.disputes,
        len(batch.bid_values),
        len(batch.task_selections),
        len(batch.verifier_ids),
        len(batch.feedback_events),
    )


def test_what_came_is_looked_into_and_what_was_sent_is_only_counted() -> None:
    """As the reference does. It never counts notarizations."""
    sent = batch_of(ALICE, *said(ALICE, BOB))
    assert (sent.message_count, sent.unique_counterparties, sent.notarizations) == (6, 1, 0)
    assert lists(sent) == (0, 0, 0, 0, 0, 0)
    both = batch_of(ALICE, *said(ALICE, BOB), *said(BOB, ALICE, 7))
    assert (both.message_count, both.unique_counterparties, both.notarizations) == (12, 2, 0)
    assert lists(both) == (1, 1, 1, 1, 1, 1)


def test_assignments_count_each_and_so_does_that_of_the_node_itself() -> None:
    propose, accept, assign, *_ = said(BOB, ALICE)
    notary = CAROL.public.raw
    theirs = batch_of(ALICE, structs.replace(accept, notary=notary), assign, assign)
    assert [each.verifier_id for each in theirs.verifier_ids] == [notary, notary]
    ours = batch_of(BOB, propose, structs.replace(accept, notary=notary))
    assert [each.verifier_id for each in ours.verifier_ids] == [notary]
