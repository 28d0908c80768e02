"""Behaviour: the batch of the vectors, what a batch counts, and the risk of agents that follow a script."""

from typing import Any

import pytest

from moothall.identity import PrivateKey
from moothall.market.behaviour import ANOMALY_BOUNDS, Batch, Risk, RiskCount, cluster_coefficients, concerns
from moothall.market.entropy import Entropy
from moothall.market.epoch_log import Act
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, NotarizeAssign, Verdict
from moothall.wire.mesh.offers import encode_amount
from moothall.wire.mesh.outcomes import Feedback, Outcome, Role
from tests.identity.vectors import ALICE, BOB, CAROL, DAVE
from tests.support.envelopes import CONVERSATION, envelope
from tests.support.mesh import AGENTS, VECTORS, vector_envelope

VECTOR = VECTORS["behavior_batch"]["fields"]
EPOCH = VECTOR["epoch_number"]
ROOT = bytes(32)


def test_the_batch_of_the_vectors() -> None:
    """All but the number of senders, and a VERDICT to another agent: the vector counts them over another log."""
    batch = Batch(AGENTS["B"], EPOCH)
    for vector in VECTORS["envelopes"][:13]:
        made = vector_envelope(vector["name"])
        batch.add(made, made.block_ref)
    finished = batch.finished(bytes.fromhex(VECTOR["log_merkle_root"]))
    for name, expected in VECTOR.items():
        if not name.startswith(("overflow", "unique", "tasks")):
            assert shown(getattr(finished, name)) == expected, name


def shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int):
        return value
    return [
        each if isinstance(each, int) else [shown(getattr(each, name)) for name in each.__struct_fields__]
        for each in value
    ]


def bilateral(sender: PrivateKey, to: PrivateKey, msg_type: MsgType, payload: bytes = b"") -> Envelope:
    return envelope(sender, msg_type, payload, to=to, conversation_id=CONVERSATION)


def feedback(sender: PrivateKey, about: PrivateKey) -> Envelope:
    said = Feedback(
        conversation_id=CONVERSATION,
        target_agent=about.public.raw,
        score=80,
        outcome=Outcome.POSITIVE,
        is_dispute=False,
        role=Role.PARTICIPANT,
    )
    return envelope(sender, MsgType.FEEDBACK, said.encode())


def test_a_batch_counts_what_the_agent_sent_and_got() -> None:
    bob = BOB.public.raw
    assert concerns(bob, bilateral(ALICE, BOB, MsgType.REJECT))
    assert concerns(bob, bilateral(BOB, ALICE, MsgType.REJECT))
    assert concerns(bob, feedback(ALICE, BOB))
    assert concerns(bob, envelope(BOB, MsgType.DISCOVER, b"{}"))
    assert not concerns(bob, bilateral(ALICE, CAROL, MsgType.REJECT))
    assert not concerns(bob, feedback(ALICE, CAROL))
    assert not concerns(bob, envelope(ALICE, MsgType.FEEDBACK, b"not feedback"))
    assert not concerns(bob, envelope(ALICE, MsgType.DISCOVER, b"{}"))


def verdict(sender: PrivateKey, to: PrivateKey) -> Envelope:
    said = Verdict(Judgement.APPROVE, requester=ALICE.public.raw, provider=BOB.public.raw)
    return bilateral(sender, to, MsgType.VERDICT, said.encode())


@pytest.mark.parametrize(
    ("agent", "sender", "to", "tasks", "notarizations"),
    [(BOB, CAROL, BOB, 1, 0), (CAROL, CAROL, BOB, 0, 1), (ALICE, ALICE, BOB, 0, 0), (BOB, ALICE, BOB, 1, 0)],
    ids=["received", "sent by the notary", "sent by the requester", "approved by the requester"],
)
def test_verdicts(
    agent: PrivateKey, sender: PrivateKey, to: PrivateKey, tasks: int, notarizations: int
) -> None:
    batch = Batch(agent.public.raw, EPOCH)
    batch.add(verdict(sender, to), 1)
    finished = batch.finished(ROOT)
    assert (finished.tasks_completed, finished.notarizations) == (tasks, notarizations)


def test_a_notary_counts_once_for_a_conversation() -> None:
    notary = CAROL.public.raw
    batch = Batch(ALICE.public.raw, EPOCH)
    batch.add(bilateral(ALICE, BOB, MsgType.ACCEPT, encode_amount(5)), 1, notary)
    batch.add(bilateral(ALICE, CAROL, MsgType.NOTARIZE_ASSIGN, NotarizeAssign(notary).encode()), 2)
    (counted,) = batch.finished(ROOT).verifier_ids
    assert (counted.verifier_id, counted.slot) == (notary, 1)


def test_payloads_that_cannot_be_read_are_only_counted() -> None:
    batch = Batch(BOB.public.raw, EPOCH)
    for msg_type in (MsgType.PROPOSE, MsgType.ACCEPT, MsgType.VERDICT, MsgType.NOTARIZE_ASSIGN):
        batch.add(bilateral(BOB, ALICE, msg_type, b"?"), 1)
    batch.add(envelope(BOB, MsgType.FEEDBACK, b"?"), 1)
    finished = batch.finished(ROOT)
    assert finished.message_count == 5
    assert [bid.bid_value for bid in finished.bid_values] == [0]
    assert (finished.verifier_ids, finished.feedback_events, finished.notarizations) == ([], [], 0)


# -- risk ------------------------------------------------------------------------------------------------


def acts(sender: PrivateKey, others: list[PrivateKey], amounts: list[int], gaps: list[int]) -> list[Act]:
    """An offer and an ACCEPT at each step."""
    at, number, done = 0, 0, []
    for other, amount, gap in zip(others, amounts, gaps, strict=True):
        at += gap * 1000
        for msg_type in (MsgType.PROPOSE, MsgType.ACCEPT):
            number += 1
            raw = encode(bilateral(sender, other, msg_type, encode_amount(amount)))
            notary = other.public.raw if msg_type is MsgType.ACCEPT else None
            done.append(Act(sender.public.raw, number, msg_type, at, raw, notary))
    return done


SCRIPTED = acts(ALICE, [BOB] * 8, [5] * 8, [10] * 8)
VARIED = acts(BOB, [ALICE, CAROL, DAVE, ALICE] * 2, [1, 4, 16, 64] * 2, [1, 3, 9, 30, 80, 200, 600, 2000])


def risk(*all_acts: list[Act], at_once: int = 3) -> tuple[Risk, dict[bytes, Entropy]]:
    scores: dict[bytes, Entropy] = {}
    count = RiskCount(EPOCH, DAVE.public.raw, scored=scores.__setitem__)
    together = sorted((act for each in all_acts for act in each), key=lambda act: act.number)
    for start in range(0, len(together), at_once):
        count.add(together[start : start + at_once])
    return count.finished(), scores


@pytest.mark.parametrize("at_once", [1, 3, 100])
def test_a_script_is_flagged_and_variety_is_not(at_once: int) -> None:
    found, scores = risk(SCRIPTED, VARIED, at_once=at_once)
    assert scores[ALICE.public.raw].is_flagged
    assert not scores[BOB.public.raw].is_flagged
    assert (found.agents, found.flagged, found.systemic) == (2, 1, 0.5)
    assert found.total == pytest.approx(sum(each.anomaly for each in scores.values()))
    assert found.buckets[-1] == 1  # the script is beyond the last bound
    assert len(found.buckets) == len(ANOMALY_BOUNDS)


def test_agents_that_did_too_little_and_the_hall_do_not_count() -> None:
    assert risk(SCRIPTED[:3])[0] == Risk(epoch=EPOCH)
    of_the_hall = acts(DAVE, [BOB] * 8, [5] * 8, [10] * 8)
    assert risk(of_the_hall)[0] == Risk(epoch=EPOCH)
    assert Risk(epoch=EPOCH).systemic == 0.0


def test_a_bounded_number_of_agents_is_counted() -> None:
    count = RiskCount(EPOCH, b"", most=1)
    count.add([*SCRIPTED, *VARIED])
    found = count.finished()
    assert (found.agents, found.flagged) == (1, 1)


def test_it_tells_who_accepted_whose_offer() -> None:
    pairs: list[tuple[bytes, bytes]] = []
    count = RiskCount(EPOCH, b"", accepted=lambda agent, other: pairs.append((agent, other)))
    count.add(VARIED[:4])
    assert pairs == [(BOB.public.raw, ALICE.public.raw), (BOB.public.raw, CAROL.public.raw)]


def test_cluster_coefficients() -> None:
    ring = {b"a": {b"b", b"c"}, b"b": {b"a", b"c"}, b"c": {b"a", b"b", b"d"}, b"d": {b"c"}}
    found = cluster_coefficients(ring, [b"a", b"c", b"d", b"e"])
    assert found == {b"a": 1.0, b"c": pytest.approx(1 / 3), b"d": 0.0, b"e": 0.0}
