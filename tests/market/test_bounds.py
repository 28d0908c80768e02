"""Fields that are too long are refused before a signature is checked and before the store is asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage, InvalidStake
from moothall.market import agentchat, bounds, skills, storable
from moothall.market.agentchat import MAX_QUERY
from moothall.market.bounds import MAX_TASK, MAX_TERMS
from moothall.wire.agentchat import client
from moothall.wire.agentchat.jstext import utf16_length
from tests.identity.vectors import ALICE, BOB
from tests.support.world import World, assert_refused

WIDE = "\U0001f980"  # two code units


def deep(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


TOO_MUCH: list[tuple[str, dict[str, Any]]] = [
    ("PROPOSAL", {"task": "x" * 4097}),
    ("PROPOSAL", {"task": WIDE * 2049}),
    ("PROPOSAL", {"terms": "x" * (16 * 1024)}),
    ("PROPOSAL", {"terms": [1e15] * 1000}),
    ("PROPOSAL", {"terms": [[]] * (storable.MAX_VALUES + 1)}),
    ("PROPOSAL", {"terms": deep(200)}),
    ("PROPOSAL", {"amount": "9" * 257}),
    ("PROPOSAL", {"currency": "x" * 65}),
    ("PROPOSAL", {"payment_code": "x" * 1025}),
    ("PROPOSAL", {"capability": "x" * 257}),
    ("PROPOSAL", {"sig": "x" * 1025}),
    ("ACCEPT", {"payment_code": "x" * 1025}),
    ("ACCEPT", {"sig": "x" * 1025}),
    ("REJECT", {"reason": "x" * 4097}),
    ("REJECT", {"sig": "x" * 1025}),
    ("COMPLETE", {"proof": "x" * 4097}),
    ("COMPLETE", {"sig": "x" * 1025}),
    ("DISPUTE", {"reason": "x" * 4097}),
    ("DISPUTE", {"sig": "x" * 1025}),
    ("REGISTER_SKILLS", {"skills": [{"capability": "c"}] * (skills.MAX_SKILLS + 1)}),
    ("REGISTER_SKILLS", {"skills": [{"capability": "c", "about": "x" * skills.MAX_SKILL_SIZE}]}),
    ("REGISTER_SKILLS", {"skills": [{"capability": "c", "about": "x" * (skills.MAX_SIZE // 20)}] * 20}),
    ("REGISTER_SKILLS", {"skills": [{"capability": "x" * 257}]}),
    ("REGISTER_SKILLS", {"skills": [{"capability": "c", "deep": deep(200)}]}),
    ("REGISTER_SKILLS", {"sig": "x" * 1025}),
    ("SEARCH_SKILLS", {"query": {"capability": "x" * 5000}}),
    ("SEARCH_SKILLS", {"query": {"limit": -1}}),
    ("SEARCH_SKILLS", {"query_id": "x" * 257}),
]
PLAIN: dict[str, dict[str, Any]] = {
    "PROPOSAL": {"task": "review", "sig": "wrong"},
    "ACCEPT": {"proposal_id": "prop_1", "sig": "wrong"},
    "REJECT": {"proposal_id": "prop_1", "sig": "wrong"},
    "COMPLETE": {"proposal_id": "prop_1", "sig": "wrong"},
    "DISPUTE": {"proposal_id": "prop_1", "reason": "late", "sig": "wrong"},
    "REGISTER_SKILLS": {"skills": [{"capability": "c"}], "sig": "wrong"},
    "SEARCH_SKILLS": {"query": {}},
}


@pytest.mark.parametrize(("kind", "fields"), TOO_MUCH)
def test_what_is_too_long_costs_neither_a_signature_nor_the_store(
    kind: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with `--no-limits`, which turns no size off."""
    world = World(no_limits=True)
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)

    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError("this is work for a stranger's bytes")

    monkeypatch.setattr("moothall.market.desk.check_signature", unexpected)
    monkeypatch.setattr(world.hall.durable, "wait_for", unexpected)
    to = {"to": bob.id} if kind == "PROPOSAL" else {}
    world.send(alice, kind, **{**to, **PLAIN[kind], **fields}, ref="r")
    assert_refused(alice, "INVALID_MSG", ref="r")


def proposal(**fields: Any) -> client.Proposal:
    return client.Proposal(**{"to": "@bob", "task": "t", "sig": "s", **fields})


check_proposal = agentchat.check(agentchat.propose, bounds.check_propose)
check_accept = agentchat.check(agentchat.accept, bounds.check_accept)


@given(st.text(alphabet=st.sampled_from(["x", "é", WIDE]), min_size=MAX_TASK // 2 - 3, max_size=MAX_TASK + 3))
def test_a_task_is_counted_as_a_message_is(task: str) -> None:
    if utf16_length(task) > MAX_TASK:
        with pytest.raises(InvalidMessage, match="task"):
            check_proposal(proposal(task=task))
    else:
        check_proposal(proposal(task=task))


def test_terms_are_counted_as_they_are_kept() -> None:
    check_proposal(proposal(terms="x" * (MAX_TERMS - 2)))
    with pytest.raises(InvalidMessage, match="terms"):
        check_proposal(proposal(terms="x" * (MAX_TERMS - 1)))


def test_a_stake_that_no_rating_has_is_refused_as_early() -> None:
    with pytest.raises(InvalidStake):
        check_proposal(proposal(elo_stake=2**40))
    with pytest.raises(InvalidStake):
        check_accept(client.Accept(proposal_id="p", sig="s", elo_stake=2**40))


def test_numbers_and_truth_values_are_short() -> None:
    check_proposal(proposal(amount=10**40, currency=True, payment_code=1.5))


def test_a_query_is_repeated_in_the_answer_and_so_is_short() -> None:
    agentchat.check_search(client.SearchSkills(query={"capability": "x" * (MAX_QUERY - 30)}))
