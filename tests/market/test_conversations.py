"""Conversations of the mesh: each row of the specification's tables, each edge of its diagram, and every other
pair."""

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.market.conversation_rules import decide
from moothall.market.conversations import ORDERS, TRANSITIONS, Conversation, Event, State, Step
from moothall.market.credits import MAX_AMOUNT
from moothall.wire.mesh.msg_types import BILATERAL, MsgType

A, B, N, STRANGER = (letter * 32 for letter in (b"A", b"B", b"N", b"S"))
TALK: Final = b"conversation-id!"
STATES: Final[tuple[State, ...]] = get_args(State)
EVENTS: Final[tuple[Event, ...]] = get_args(Event)

# Each message as the specification has it: A proposes, B counters, accepts and delivers, N is the notary.
STEPS: Final[dict[Event, dict[str, Any]]] = {
    "PROPOSE": {"sender": A, "recipient": B, "amount": 100},
    "COUNTER": {"sender": B, "recipient": A, "amount": 120},
    "ACCEPT": {"sender": B, "recipient": A, "amount": 100},
    "REJECT": {"sender": B, "recipient": A},
    "DELIVER": {"sender": B, "recipient": A},
    "NOTARIZE_ASSIGN": {"sender": A, "recipient": N, "about": N},
    "APPROVE": {"sender": N, "recipient": A, "parties": (A, B)},
    "DISAPPROVE": {"sender": N, "recipient": A, "parties": (A, B)},
    "DISPUTE": {"sender": A, "recipient": N},
    "FEEDBACK": {"sender": A, "about": B},
    "CANCEL": {"sender": A},
    "CONSENT": {"sender": B},
    "CLAIM": {"sender": B},
    "COURT_CASE": {"sender": A, "case": "disp_1"},
    "COURT_FALLBACK": {"sender": A, "case": "disp_1"},
    "COURT_REFUND": {"sender": A, "case": "disp_1"},
    "COURT_AWARD": {"sender": B, "case": "disp_1"},
}


def step(event: Event, **others: Any) -> Step:
    return Step(event=event, conversation_id=TALK, **{**STEPS[event], **others})


def after(*events: Event | Step, start: Conversation | None = None) -> Conversation:
    conversation = start
    for event in events:
        conversation = decide(conversation, event if isinstance(event, Step) else step(event))
    assert conversation is not None
    return conversation


PROPOSED = after("PROPOSE")
COMMITTED = after("ACCEPT", start=PROPOSED)
NOTARISED = after("NOTARIZE_ASSIGN", start=COMMITTED)
IN_STATE: Final[dict[State, Conversation | None]] = {
    "IDLE": None,
    "NEGOTIATING": PROPOSED,
    "COMMITTED": NOTARISED,
    "DELIVERED": after("DELIVER", start=NOTARISED),
    "RESOLVED": after("DELIVER", "APPROVE", start=NOTARISED),
    "CLOSED": after("REJECT", start=PROPOSED),
}


def out_of_order(conversation: Conversation | None, one: Step) -> str:
    with pytest.raises(OutOfOrder) as caught:
        decide(conversation, one)
    return str(caught.value)


# -- the diagram of the specification ----------------------------------------------------------------------

DIAGRAM: Final[list[tuple[State, Event, State]]] = [
    ("IDLE", "PROPOSE", "NEGOTIATING"),
    ("NEGOTIATING", "COUNTER", "NEGOTIATING"),
    ("NEGOTIATING", "ACCEPT", "COMMITTED"),
    ("NEGOTIATING", "REJECT", "CLOSED"),
    ("COMMITTED", "DELIVER", "DELIVERED"),
    ("DELIVERED", "APPROVE", "RESOLVED"),
    ("DELIVERED", "DISPUTE", "NEGOTIATING"),
    ("RESOLVED", "FEEDBACK", "CLOSED"),
]
STAYS: Final[set[tuple[State, Event]]] = {
    ("COMMITTED", "NOTARIZE_ASSIGN"),
    ("DELIVERED", "DISAPPROVE"),
    ("DELIVERED", "DELIVER"),
    ("RESOLVED", "APPROVE"),
}
# What is no message, and not in the specification's diagram.
ORDERED: Final[dict[tuple[State, Event], State]] = {
    ("NEGOTIATING", "CANCEL"): "CLOSED",
    ("COMMITTED", "CANCEL"): "CLOSED",
    ("DELIVERED", "CANCEL"): "CLOSED",
    ("CLOSED", "CANCEL"): "CLOSED",
    ("NEGOTIATING", "CONSENT"): "NEGOTIATING",
    ("COMMITTED", "CONSENT"): "COMMITTED",
    ("DELIVERED", "CONSENT"): "DELIVERED",
    ("NEGOTIATING", "CLAIM"): "RESOLVED",
    ("COMMITTED", "CLAIM"): "RESOLVED",
    ("DELIVERED", "CLAIM"): "RESOLVED",
    ("CLOSED", "CLAIM"): "CLOSED",
    ("NEGOTIATING", "COURT_CASE"): "NEGOTIATING",
    ("NEGOTIATING", "COURT_FALLBACK"): "NEGOTIATING",
    ("NEGOTIATING", "COURT_REFUND"): "CLOSED",
    ("NEGOTIATING", "COURT_AWARD"): "RESOLVED",
}


@pytest.mark.parametrize(("start", "event", "end"), DIAGRAM)
def test_an_edge_of_the_diagram(start: State, event: Event, end: State) -> None:
    assert decide(IN_STATE[start], step(event)).state_of(STEPS[event]["sender"]) == end


def test_the_table_is_the_diagram_and_what_stays_and_orders() -> None:
    edges = {(start, event): end for start, event, end in DIAGRAM}
    assert edges | {(state, event): state for state, event in STAYS} | ORDERED == TRANSITIONS
    assert {event for _, event in ORDERED} == ORDERS


def test_the_diagram_in_the_docs_is_the_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "wire-mesh.md").read_text()
    (diagram,) = re.findall(r"```mermaid\nstateDiagram-v2\n(.*?)```", page, re.DOTALL)
    drawn = re.findall(r"^    (\w+) --> (\w+): (\w+)$", diagram, re.MULTILINE)
    assert [((start, event), end) for start, end, event in drawn] == list(TRANSITIONS.items())


OTHER_PAIRS: Final = [pair for pair in product(STATES, EVENTS) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("state", "event"), OTHER_PAIRS)
def test_a_pair_that_is_not_in_the_table_is_out_of_order(state: State, event: Event) -> None:
    """From whichever participant to whichever other."""
    conversation = IN_STATE[state]
    for sender, recipient in product((A, B, N), repeat=2):
        out_of_order(conversation, step(event, sender=sender, recipient=recipient))


def test_every_pair_is_looked_at() -> None:
    listed = len(DIAGRAM) + len(STAYS) + len(ORDERED)
    assert len(OTHER_PAIRS) == len(STATES) * len(EVENTS) - listed == 75


def test_the_text_says_what_the_state_allows() -> None:
    said = out_of_order(NOTARISED, step("COUNTER"))
    assert (
        said == "COUNTER is out of order: the conversation is COMMITTED. It allows DELIVER, NOTARIZE_ASSIGN"
    )
    assert "Start a new conversation" in out_of_order(IN_STATE["CLOSED"], step("DELIVER"))
    assert out_of_order(IN_STATE["RESOLVED"], step("DELIVER")).endswith("It allows FEEDBACK")


@pytest.mark.parametrize("event", EVENTS)
def test_a_closed_conversation_is_never_used_again(event: Event) -> None:
    out_of_order(IN_STATE["CLOSED"], step(event))


# -- the rows of its tables ------------------------------------------------------------------------------------


def test_every_bilateral_message_is_an_event() -> None:
    messages = set(EVENTS) - ORDERS
    names = {"VERDICT" if event in ("APPROVE", "DISAPPROVE") else event for event in messages}
    assert names == {each.name for each in BILATERAL} | {MsgType.FEEDBACK.name}


def test_propose_goes_from_a_to_b_and_a_is_the_requester() -> None:
    assert (PROPOSED.requester, PROPOSED.provider, PROPOSED.amount) == (A, B, 100)


def test_propose_may_offer_the_work_of_its_sender() -> None:
    offer = after(step("PROPOSE", offers_work=True))
    assert (offer.requester, offer.provider, offer.offered_by) == (B, A, A)
    assert after("ACCEPT", step("DELIVER", sender=A, recipient=B), start=offer).state == "DELIVERED"


def test_propose_has_an_id_and_another_agent() -> None:
    assert "another agent" in out_of_order(None, step("PROPOSE", recipient=A))
    assert "another agent" in out_of_order(None, step("PROPOSE", recipient=None))
    assert "never used" in out_of_order(None, structs.replace(step("PROPOSE"), conversation_id=bytes(16)))


def test_counter_may_come_from_either_side() -> None:
    talk = after("COUNTER", step("COUNTER", sender=A, recipient=B, amount=110), start=PROPOSED)
    assert (talk.amount, talk.offered_by) == (110, A)
    assert after(step("COUNTER", sender=A, recipient=B), start=PROPOSED).offered_by == A


def test_each_side_counters_max_rounds_times() -> None:
    talk = after("COUNTER", "COUNTER", start=PROPOSED)
    assert "at most 2 times" in out_of_order(talk, step("COUNTER"))
    mine = step("COUNTER", sender=A, recipient=B, round=2)
    talk = after(mine, mine, start=talk)
    out_of_order(talk, mine)
    assert after(step("PROPOSE", max_rounds=3), *[step("COUNTER")] * 3).provider_rounds == 3


@pytest.mark.parametrize("number", [0, 3])
def test_a_round_is_from_one_to_max_rounds(number: int) -> None:
    out_of_order(PROPOSED, step("COUNTER", round=number))


@pytest.mark.parametrize("event", ["PROPOSE", "COUNTER"])
@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1])
def test_an_offer_is_in_range(event: Event, amount: int) -> None:
    before = None if event == "PROPOSE" else PROPOSED
    out_of_order(before, step(event, amount=amount))
    for edge in (0, MAX_AMOUNT):
        assert decide(before, step(event, amount=edge)).amount == edge


@pytest.mark.parametrize("event", ["ACCEPT", "REJECT"])
def test_an_answer_comes_from_the_party_that_did_not_make_the_last_offer(event: Event) -> None:
    countered = after("COUNTER", start=PROPOSED)
    by_a = step(event, sender=A, recipient=B, amount=120)
    assert decide(countered, by_a).state in ("COMMITTED", "CLOSED")
    assert "Wait" in out_of_order(PROPOSED, by_a)
    assert "Wait" in out_of_order(countered, step(event, amount=120))


@pytest.mark.parametrize("amount", [0, 99, 101, -100])
def test_accept_names_the_amount_of_the_last_offer(amount: int) -> None:
    assert "last offer was 100" in out_of_order(PROPOSED, step("ACCEPT", amount=amount))


def test_deliver_comes_from_the_provider() -> None:
    assert "provider" in out_of_order(COMMITTED, step("DELIVER", sender=A, recipient=B))


def test_notarize_assign_names_its_recipient_and_no_party() -> None:
    assert NOTARISED.notary == N
    assert after(step("NOTARIZE_ASSIGN", sender=B), start=COMMITTED).notary == N
    out_of_order(COMMITTED, step("NOTARIZE_ASSIGN", recipient=STRANGER))
    out_of_order(COMMITTED, step("NOTARIZE_ASSIGN", about=None, recipient=None))
    out_of_order(COMMITTED, step("NOTARIZE_ASSIGN", about=B, recipient=B))
    assert "has a notary" in out_of_order(
        NOTARISED, step("NOTARIZE_ASSIGN", about=STRANGER, recipient=STRANGER)
    )


DELIVERED: Final = after("DELIVER", start=NOTARISED)
ALONE: Final = after("DELIVER", start=COMMITTED)  # without a notary


@pytest.mark.parametrize("event", ["APPROVE", "DISAPPROVE"])
def test_verdict_goes_from_the_notary_to_both_parties_once(event: Event) -> None:
    first = decide(DELIVERED, step(event))
    second = decide(first, step(event, recipient=B))
    assert second.state == first.state
    assert second.told == (A, B)
    for party in (A, B):
        assert "has the verdict" in out_of_order(second, step(event, recipient=party))
    out_of_order(first, step(event, recipient=N))


@pytest.mark.parametrize("event", ["APPROVE", "DISAPPROVE"])
def test_verdict_comes_from_the_assigned_notary_alone(event: Event) -> None:
    for sender in (B, STRANGER):
        out_of_order(DELIVERED, step(event, sender=sender, recipient=A))
    out_of_order(ALONE, step(event))


@pytest.mark.parametrize("event", ["APPROVE", "DISAPPROVE"])
@pytest.mark.parametrize("parties", [None, (B, A), (A, STRANGER)])
def test_verdict_names_the_parties(event: Event, parties: tuple[bytes, bytes] | None) -> None:
    assert "other parties" in out_of_order(DELIVERED, step(event, parties=parties))


DIRECT: Final = step("APPROVE", sender=A, recipient=B)


@pytest.mark.parametrize("conversation", [DELIVERED, ALONE], ids=["with a notary", "without"])
def test_the_requester_may_approve_itself_once(conversation: Conversation) -> None:
    resolved = decide(conversation, DIRECT)
    assert resolved.state == "RESOLVED"
    assert "once" in out_of_order(resolved, DIRECT)
    out_of_order(conversation, structs.replace(DIRECT, parties=(B, A)))
    out_of_order(conversation, structs.replace(DIRECT, recipient=N))


def test_a_verdict_comes_too_late_after_the_requester_has_approved() -> None:
    for before in ((), ("DISAPPROVE",)):
        resolved = after(*before, DIRECT, start=DELIVERED)
        assert "itself" in out_of_order(resolved, step("APPROVE"))


def test_the_requester_cannot_reject_by_verdict() -> None:
    assert "DISPUTE" in out_of_order(ALONE, step("DISAPPROVE", sender=A, recipient=B))


def test_after_a_rejecting_verdict_the_provider_may_deliver_again() -> None:
    assert "Wait for the verdict" in out_of_order(DELIVERED, step("DELIVER"))
    again = after("DISAPPROVE", "DELIVER", start=DELIVERED)
    assert (again.state, again.verdict, again.told) == ("DELIVERED", None, ())
    out_of_order(again, step("DELIVER"))
    assert decide(again, step("APPROVE")).state == "RESOLVED"


def test_a_notary_may_change_a_rejecting_verdict() -> None:
    changed = after("DISAPPROVE", "APPROVE", start=DELIVERED)
    assert (changed.state, changed.told) == ("RESOLVED", (A,))


@pytest.mark.parametrize(("sender", "other"), [(A, B), (B, A)])
def test_dispute_goes_from_a_or_b_to_the_notary(sender: bytes, other: bytes) -> None:
    for recipient in (N, other):
        assert decide(DELIVERED, step("DISPUTE", sender=sender, recipient=recipient)).state == "NEGOTIATING"
    for wrong in (sender, STRANGER, None):
        out_of_order(DELIVERED, step("DISPUTE", sender=sender, recipient=wrong))
    assert decide(ALONE, step("DISPUTE", sender=sender, recipient=other)).state == "NEGOTIATING"
    out_of_order(ALONE, step("DISPUTE", sender=sender, recipient=None))


def test_a_notary_does_not_dispute() -> None:
    out_of_order(DELIVERED, step("DISPUTE", sender=N, recipient=A))


def test_after_a_dispute_the_same_terms_are_on_the_table() -> None:
    countered = after("COUNTER", "COUNTER", step("ACCEPT", sender=A, recipient=B, amount=120), start=PROPOSED)
    disputed = after("NOTARIZE_ASSIGN", "DELIVER", "DISAPPROVE", "DISPUTE", start=countered)
    assert (disputed.amount, disputed.offered_by, disputed.notary) == (120, A, N)
    assert (disputed.provider_rounds, disputed.verdict, disputed.told) == (0, None, ())
    out_of_order(disputed, step("ACCEPT", sender=A, recipient=B, amount=120))
    assert after(step("ACCEPT", amount=120), "DELIVER", "APPROVE", start=disputed).state == "RESOLVED"
    assert after("COUNTER", start=disputed).provider_rounds == 1


@pytest.mark.parametrize("event", ["COUNTER", "ACCEPT", "REJECT", "DELIVER"])
@pytest.mark.parametrize("recipient", [None, B, STRANGER])
def test_these_go_from_one_party_to_the_other(event: Event, recipient: bytes | None) -> None:
    start = COMMITTED if event == "DELIVER" else PROPOSED
    out_of_order(start, step(event, recipient=recipient))


@pytest.mark.parametrize("state", STATES[1:])
@pytest.mark.parametrize("event", EVENTS)
def test_strangers_are_not_heard_and_learn_nothing(state: State, event: Event) -> None:
    conversation = IN_STATE[state]
    said = out_of_order(conversation, step(event, sender=STRANGER))
    assert state not in said


# -- FEEDBACK ------------------------------------------------------------------------------------------------

RESOLVED: Final = after("APPROVE", start=DELIVERED)


def test_feedback_ends_the_conversation_for_its_sender() -> None:
    rated = decide(RESOLVED, step("FEEDBACK"))
    assert (rated.state_of(A), rated.state_of(B), rated.state) == ("CLOSED", "RESOLVED", "RESOLVED")
    ended = decide(rated, step("FEEDBACK", sender=B, about=A))
    assert (ended.state_of(A), ended.state_of(B), ended.state) == ("CLOSED", "CLOSED", "CLOSED")


def test_feedback_is_given_once_for_each_target() -> None:
    rated = decide(RESOLVED, step("FEEDBACK"))
    assert "have rated" in out_of_order(rated, step("FEEDBACK"))
    both = decide(rated, step("FEEDBACK", about=N, about_notary=True))
    assert both.ratings == ((A, B), (A, N))
    out_of_order(both, step("FEEDBACK", about=N, about_notary=True))


def test_the_notary_rates_the_parties_and_ends_nothing_for_them() -> None:
    rated = decide(RESOLVED, step("FEEDBACK", sender=N, about=A))
    assert (rated.state_of(N), rated.state_of(A), rated.state) == ("CLOSED", "RESOLVED", "RESOLVED")
    ended = after("FEEDBACK", step("FEEDBACK", sender=B, about=A), start=rated)
    assert decide(ended, step("FEEDBACK", sender=N, about=B)).state == "CLOSED"


@pytest.mark.parametrize("about", [A, STRANGER, None])
def test_feedback_is_about_another_participant(about: bytes | None) -> None:
    assert "another participant" in out_of_order(RESOLVED, step("FEEDBACK", about=about))


def test_feedback_names_the_role_of_its_target() -> None:
    assert "role" in out_of_order(RESOLVED, step("FEEDBACK", about_notary=True))
    assert "role" in out_of_order(RESOLVED, step("FEEDBACK", about=N))


# -- orders ------------------------------------------------------------------------------------------------------

DISPUTED: Final = after(step("DISPUTE", recipient=N), start=DELIVERED)
WAITING: Final = after(  # CLOSED by the requester, with credits that wait for the timeout
    step("DISPUTE", sender=B, recipient=N), step("REJECT", sender=A, recipient=B), start=DELIVERED
)
CANCEL, CONSENT, CLAIM = step("CANCEL"), step("CONSENT"), step("CLAIM")


@pytest.mark.parametrize("start", [PROPOSED, COMMITTED, after("DISAPPROVE", start=DELIVERED)])
def test_the_requester_cancels_what_brought_it_nothing(start: Conversation) -> None:
    ended = decide(start, CANCEL)
    assert (ended.state, ended.held) == ("CLOSED", 0)


@pytest.mark.parametrize(
    "start", [DELIVERED, ALONE, DISPUTED, after("DISAPPROVE", "DELIVER", start=DELIVERED)]
)
def test_and_what_was_delivered_with_consent_alone(start: Conversation) -> None:
    assert "consent" in out_of_order(start, CANCEL)
    agreed = decide(start, CONSENT)
    assert (agreed.state, agreed.consented) == (start.state, True)
    assert decide(agreed, CANCEL).state == "CLOSED"


def test_consent_ends_with_a_new_accept_or_delivery() -> None:
    assert not after(CONSENT, step("ACCEPT", amount=100), start=DISPUTED).consented
    assert not after(CONSENT, "DELIVER", start=COMMITTED).consented


@pytest.mark.parametrize("start", [DELIVERED, DISPUTED, after(step("ACCEPT", amount=100), start=DISPUTED)])
def test_at_the_timeout_the_provider_claims_what_it_delivered(start: Conversation) -> None:
    claimed = decide(start, CLAIM)
    assert (claimed.state, claimed.held) == ("RESOLVED", 0)
    out_of_order(start, step("CANCEL", timed_out=True))


def test_a_claim_needs_credits_and_work_that_was_not_rejected() -> None:
    rejected = after("DISAPPROVE", start=DELIVERED)
    for start in (COMMITTED, rejected, after("DELIVER", start=rejected), structs.replace(DELIVERED, held=0)):
        assert "nothing to claim" in out_of_order(start, CLAIM)
    for start in (COMMITTED, rejected, after("DELIVER", start=rejected)):
        assert decide(start, step("CANCEL", timed_out=True)).state == "CLOSED"


def test_credits_of_a_closed_conversation_are_settled_and_it_stays_closed() -> None:
    assert (WAITING.state, WAITING.held) == ("CLOSED", 100)
    assert WAITING.is_open
    claimed = decide(WAITING, CLAIM)
    assert (claimed.state, claimed.held, claimed.is_open) == ("CLOSED", 0, False)
    rejected = after(
        "DISAPPROVE",
        "DELIVER",
        step("DISPUTE", sender=B, recipient=N),
        step("REJECT", sender=A, recipient=B),
        start=DELIVERED,
    )
    assert rejected.held
    assert decide(rejected, step("CANCEL", timed_out=True)).held == 0
    for one in (CANCEL, CLAIM):
        out_of_order(claimed, one)


@pytest.mark.parametrize(
    ("event", "sender"),
    [("CANCEL", B), ("CANCEL", N), ("CONSENT", A), ("CONSENT", N), ("CLAIM", A), ("CLAIM", N)],
)
def test_each_order_is_for_one_party(event: Event, sender: bytes) -> None:
    assert "Only the" in out_of_order(DELIVERED, step(event, sender=sender))


# -- the court -------------------------------------------------------------------------------------------------

IN_DISPUTE = after("DELIVER", step("DISPUTE", recipient=B), start=COMMITTED)
IN_COURT = after("COURT_CASE", start=IN_DISPUTE)


@pytest.mark.parametrize("party", [A, B])
def test_a_party_takes_a_disputed_delivery_to_court(party: bytes) -> None:
    held = decide(IN_DISPUTE, step("COURT_CASE", sender=party))
    assert (held.state, held.case, held.held) == ("NEGOTIATING", "disp_1", 100)


def test_what_was_not_disputed_does_not_go_to_court() -> None:
    assert "Send a DISPUTE first" in out_of_order(PROPOSED, step("COURT_CASE"))
    assert "Send a DISPUTE first" in out_of_order(IN_DISPUTE, step("COURT_CASE", case=None))


def test_a_notary_keeps_a_conversation_out_of_court() -> None:
    disputed = after("DELIVER", "DISPUTE", start=NOTARISED)
    for sender in (A, B, N):
        assert "notary judges" in out_of_order(disputed, step("COURT_CASE", sender=sender))


@pytest.mark.parametrize("event", EVENTS)
def test_only_its_own_case_moves_a_conversation_in_court(event: Event) -> None:
    for sender, recipient in product((A, B), repeat=2):
        one = step(event, sender=sender, recipient=recipient, case="disp_2" if "COURT" in event else None)
        assert "disp_1 holds" in out_of_order(IN_COURT, one)
    assert "is open" in out_of_order(IN_COURT, step("COURT_CASE"))


@pytest.mark.parametrize(("event", "state"), [("COURT_REFUND", "CLOSED"), ("COURT_AWARD", "RESOLVED")])
def test_a_verdict_ends_the_conversation(event: Event, state: State) -> None:
    ended = decide(IN_COURT, step(event))
    assert (ended.state, ended.case, ended.judged, ended.held) == (state, None, True, 0)


def test_without_a_verdict_the_conversation_is_what_it_was() -> None:
    assert decide(IN_COURT, step("COURT_FALLBACK")) == IN_DISPUTE


def test_a_court_without_a_case_changes_nothing() -> None:
    for event in ("COURT_FALLBACK", "COURT_REFUND", "COURT_AWARD"):
        assert "no open court case" in out_of_order(IN_DISPUTE, step(event))


# -- any history -----------------------------------------------------------------------------------------------

AGENTS: Final = st.sampled_from((A, B, N, STRANGER))
any_step = st.builds(
    Step,
    event=st.sampled_from(EVENTS),
    conversation_id=st.just(TALK),
    sender=AGENTS,
    recipient=AGENTS,
    amount=st.sampled_from((100, 100, 120)),
    offers_work=st.booleans(),
    round=st.integers(1, 2),
    parties=st.sampled_from(((A, B), (B, A))),
    about=AGENTS,
    about_notary=st.booleans(),
)
usual_step = st.sampled_from(EVENTS).map(step)
histories = st.lists(usual_step | any_step, max_size=60)


def played(history: list[Step]) -> Iterator[tuple[Conversation | None, Step, Conversation]]:
    conversation: Conversation | None = None
    for one in history:
        try:
            following = decide(conversation, one)
        except OutOfOrder:
            continue
        yield conversation, one, following
        conversation = following


@given(histories)
def test_states_change_along_the_table_and_by_participants_alone(history: list[Step]) -> None:
    for before, one, now in played(history):
        assert one.sender in now.participants
        if one.event == "FEEDBACK":
            assert before is not None
            assert before.state in ("RESOLVED", "CLOSED")
            assert now.state in ("RESOLVED", "CLOSED")
            assert now.state_of(one.sender) == "CLOSED"
        else:
            assert now.state == TRANSITIONS[before.state if before else "IDLE", one.event]


@given(histories)
def test_what_holds_in_every_conversation(history: list[Step]) -> None:
    for before, one, now in played(history):
        assert now.requester != now.provider
        assert now.notary not in now.parties
        assert now.offered_by in now.parties
        assert max(now.requester_rounds, now.provider_rounds) <= now.max_rounds
        assert len(set(now.ratings)) == len(now.ratings)
        if before is not None:
            assert now.parties == before.parties
            assert before.notary in (None, now.notary)
            assert before.state != "CLOSED" or one.event == "FEEDBACK" or one.event in ORDERS
            if one.event == "ACCEPT":
                assert (now.amount, one.sender) == (before.amount, before.other(before.offered_by))
