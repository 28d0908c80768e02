"""Steps of conversations as units of work: what they do to the state, to credits, deadlines and notaries.

On the real store; `tests/store/test_conversations.py` has both engines.
"""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final, Literal, get_args

import pytest
from msgspec import structs

from moothall.errors import CreditsRefused, NoCover, OutOfOrder, RateLimited
from moothall.market.conversations import ORDERS, TRANSITIONS, Event, State, Step
from moothall.market.conversing import MAX_RECENT, MAX_RECENT_FOR_RESENDS, REPLAY_WINDOW, MeshRules
from moothall.market.credits import TREASURY
from moothall.market.rules import Quotas
from moothall.store.files import DataDirectory
from moothall.wire.mesh.envelope import NO_CONVERSATION
from tests.store.support import Place
from tests.support.talks import CREDIT, REVIEW, STRANGER, TALK, TIMEOUT, A, B, N, Talks, envelope

FEE = CREDIT // 10
PROTOCOL_FEE = CREDIT * 50 // 10_000
PAID = CREDIT - PROTOCOL_FEE
OTHER_TALK = b"another one     "


@pytest.fixture
def talks(tmp_path: Path) -> Iterator[Talks]:
    place = Place(DataDirectory(tmp_path / "data"), "")
    talks = Talks(place)
    talks.deposit(A, 10 * CREDIT)
    yield talks
    talks.close()
    assert place.problems() == []


def spent(talks: Talks) -> int:
    """What A has less than in the beginning."""
    return 10 * CREDIT - talks.balance(A)


# -- credits -----------------------------------------------------------------------------------------------


def test_accept_puts_the_amount_aside(talks: Talks) -> None:
    dealt = talks.commit()
    assert (dealt.conversation.state, dealt.changed, dealt.conversation.held) == ("COMMITTED", True, CREDIT)
    assert (spent(talks), dealt.assigned) == (CREDIT, None)
    escrow = talks.escrow()
    assert escrow is not None
    assert talks.account(escrow.account) == CREDIT
    assert dealt.conversation.deadline == talks.now + TIMEOUT


def test_accept_of_nothing_puts_nothing_aside(talks: Talks) -> None:
    dealt = talks.commit(0)
    assert (dealt.conversation.state, dealt.conversation.deadline, talks.escrow()) == (
        "COMMITTED",
        None,
        None,
    )


@pytest.mark.parametrize("accepting", [A, B])
def test_the_requester_pays_if_either_party_accepts(talks: Talks, accepting: bytes) -> None:
    talks.propose()
    if accepting == A:
        talks.say("COUNTER", B, A, amount=2 * CREDIT)
    talks.say(
        "ACCEPT", accepting, B if accepting == A else A, amount=2 * CREDIT if accepting == A else CREDIT
    )
    assert talks.balance(B) == 0
    assert spent(talks) == (2 * CREDIT if accepting == A else CREDIT)


def test_the_requester_pays_also_for_work_that_was_offered_to_it(talks: Talks) -> None:
    talks.say("PROPOSE", B, A, amount=CREDIT, offers_work=True)
    talks.say("ACCEPT", A, B, amount=CREDIT)
    assert (spent(talks), talks.balance(B)) == (CREDIT, 0)


def test_the_lock_names_the_requesters_own_envelope(talks: Talks) -> None:
    """B's ACCEPT proves nothing about what A agreed to."""
    offer = envelope(A)
    step = Step(event="PROPOSE", conversation_id=TALK, sender=A, recipient=B, amount=CREDIT)
    conversation = talks.take(step, offer).conversation
    assert conversation.offer == offer
    talks.say("ACCEPT", B, A, amount=CREDIT)
    rows = talks.select("SELECT operation, envelope, sender FROM authorisations")
    assert rows == [("lock", offer.envelope, A)]


def test_accept_without_cover_is_refused_and_changes_nothing(talks: Talks) -> None:
    talks.propose(10 * CREDIT + 1)
    before = talks.facts()
    with pytest.raises(NoCover):
        talks.say("ACCEPT", B, A, amount=10 * CREDIT + 1)
    assert talks.facts() == before
    assert talks.state() == "NEGOTIATING"


def test_the_fee_of_a_notary_needs_cover_too(talks: Talks) -> None:
    talks.propose(10 * CREDIT)
    talks.ask(A)
    talks.bid(N)
    before = talks.facts()
    with pytest.raises(NoCover):
        talks.say("ACCEPT", B, A, amount=10 * CREDIT)
    assert talks.facts() == before


def test_with_optional_cover_a_deal_goes_on_without_escrow(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    dealt = talks.resolve(10 * CREDIT + 1)
    assert (dealt.conversation.state, dealt.conversation.held, dealt.conversation.deadline) == (
        "RESOLVED",
        0,
        None,
    )
    assert (talks.escrow(), spent(talks), talks.balance(B)) == (None, 0, 0)


def test_with_optional_cover_feedback_of_the_requester_approves_what_costs_nothing(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    talks.deliver(10 * CREDIT + 1)
    with pytest.raises(OutOfOrder):  # the provider waits for the requester
        talks.feedback(B, A)
    rated = talks.feedback(A, B).conversation
    assert (rated.state, rated.held) == ("RESOLVED", 0)
    assert talks.feedback(B, A).conversation.state == "CLOSED"


@pytest.mark.parametrize("cover", ["optional", "required"])
def test_feedback_does_not_approve_what_is_paid_for(
    talks: Talks, cover: Literal["optional", "required"]
) -> None:
    talks.rules = MeshRules(cover=cover)
    talks.deliver(CREDIT)
    with pytest.raises(OutOfOrder):
        talks.feedback(A, B)


def test_with_required_cover_feedback_approves_nothing(talks: Talks) -> None:
    talks.deliver(0)
    with pytest.raises(OutOfOrder):
        talks.feedback(A, B)


def test_with_optional_cover_feedback_does_not_go_before_a_notary(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    talks.deliver(10 * CREDIT, notary=N)
    with pytest.raises(OutOfOrder):
        talks.feedback(A, B)


def test_with_optional_cover_a_deal_that_is_covered_is_locked(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    talks.resolve(10 * CREDIT)
    assert spent(talks) == 10 * CREDIT


def test_with_optional_cover_an_escrow_stays_if_the_new_amount_is_not_covered(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    talks.deliver()
    talks.say("DISPUTE", A, B)
    talks.say("COUNTER", B, A, amount=11 * CREDIT)
    accepted = talks.say("ACCEPT", A, B, amount=11 * CREDIT).conversation
    assert (accepted.state, accepted.held, spent(talks)) == ("COMMITTED", CREDIT, CREDIT)
    talks.say("DELIVER", B, A)
    talks.verdict("APPROVE", A)
    assert talks.balance(B) == PAID


def test_with_optional_cover_a_notary_is_assigned_all_the_same(talks: Talks) -> None:
    talks.rules = MeshRules(cover="optional")
    dealt = talks.resolve(10 * CREDIT, notary=N)  # the fee is not covered
    assert (dealt.conversation.notary, dealt.conversation.state, spent(talks)) == (N, "RESOLVED", 0)


def test_approval_of_the_requester_pays_the_provider(talks: Talks) -> None:
    dealt = talks.resolve()
    assert (dealt.conversation.state, dealt.conversation.deadline, dealt.conversation.held) == (
        "RESOLVED",
        None,
        0,
    )
    assert (spent(talks), talks.balance(B), talks.account(TREASURY)) == (CREDIT, PAID, PROTOCOL_FEE)


def test_approval_of_the_notary_pays_both(talks: Talks) -> None:
    talks.resolve(notary=N)
    assert (spent(talks), talks.balance(B), talks.balance(N)) == (CREDIT + FEE, PAID, FEE)
    again = talks.verdict("APPROVE", N, B)  # to the other party
    assert not again.changed
    assert talks.balance(B) == PAID


def test_the_requester_may_approve_before_the_notary_which_is_paid_all_the_same(talks: Talks) -> None:
    talks.deliver(notary=N)
    talks.verdict("APPROVE", A)
    assert (talks.balance(B), talks.balance(N)) == (PAID, FEE)


def test_a_rejecting_verdict_pays_no_agent(talks: Talks) -> None:
    talks.deliver(notary=N)
    dealt = talks.verdict("DISAPPROVE", N)
    assert (dealt.conversation.state, dealt.changed) == ("DELIVERED", False)
    assert (spent(talks), talks.balance(B), talks.balance(N)) == (CREDIT + FEE, 0, 0)


# -- after a dispute -----------------------------------------------------------------------------------------


def test_a_dispute_leaves_the_credits_and_the_notary(talks: Talks) -> None:
    talks.deliver(notary=N)
    disputed = talks.say("DISPUTE", A, N).conversation
    assert (disputed.state, disputed.held, disputed.notary) == ("NEGOTIATING", CREDIT, N)
    assert talks.say("ACCEPT", B, A, amount=CREDIT).assigned is None
    assert spent(talks) == CREDIT + FEE
    talks.say("DELIVER", B, A)
    talks.verdict("APPROVE", N)
    assert (talks.balance(B), talks.balance(N)) == (PAID, FEE)


@pytest.mark.parametrize("amount", [CREDIT // 2, 2 * CREDIT])
def test_another_amount_after_a_dispute_moves_the_difference(talks: Talks, amount: int) -> None:
    timeout = talks.deliver().conversation.timeout_at
    talks.say("DISPUTE", A, B)
    talks.now += 1000
    talks.say("COUNTER", B, A, amount=amount)
    accepted = talks.say("ACCEPT", A, B, amount=amount).conversation
    assert (accepted.held, spent(talks), accepted.timeout_at) == (amount, amount, timeout)


def test_no_other_amount_without_cover(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    talks.say("COUNTER", B, A, amount=11 * CREDIT)
    with pytest.raises(NoCover):
        talks.say("ACCEPT", A, B, amount=11 * CREDIT)
    assert spent(talks) == CREDIT


def test_credits_that_are_put_aside_are_not_accepted_away(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    talks.say("COUNTER", B, A, amount=0)
    with pytest.raises(OutOfOrder, match="put aside"):
        talks.say("ACCEPT", A, B, amount=0)


def test_a_provider_that_rejects_after_a_dispute_gives_the_credits_back(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    rejected = talks.say("REJECT", B, A).conversation
    assert (rejected.state, rejected.held, rejected.deadline, spent(talks)) == ("CLOSED", 0, None, 0)


def test_a_requester_cannot_take_the_credits_back_by_rejecting(talks: Talks) -> None:
    """The work was delivered: they wait for the timeout, and are the provider's then."""
    talks.deliver()
    talks.say("DISPUTE", B, A)
    rejected = talks.say("REJECT", A, B).conversation
    assert (rejected.state, rejected.held, rejected.is_open) == ("CLOSED", CREDIT, True)
    (claimed,) = talks.wait(TIMEOUT)
    assert (claimed.conversation.state, claimed.conversation.is_open) == ("CLOSED", False)
    assert talks.balance(B) == PAID


def test_a_requester_takes_them_back_so_after_a_rejecting_verdict(talks: Talks) -> None:
    talks.deliver(notary=N)
    talks.verdict("DISAPPROVE", N)
    talks.say("DISPUTE", B, N)
    assert talks.say("REJECT", A, B).conversation.held == 0
    assert spent(talks) == 0


# -- review ------------------------------------------------------------------------------------------------


def test_a_delivery_without_a_notary_is_approved_after_the_review_time(talks: Talks) -> None:
    delivered = talks.deliver().conversation
    assert delivered.deadline == talks.now + REVIEW
    assert talks.wait(REVIEW - 1) == []
    (approved,) = talks.wait(1)
    assert (approved.conversation.state, approved.changed) == ("RESOLVED", True)
    assert talks.balance(B) == PAID
    assert talks.act() == []
    rows = talks.select("SELECT operation, sender FROM authorisations ORDER BY operation")
    assert rows == [("approve", B), ("lock", A)]  # by the DELIVER


def test_work_for_nothing_is_approved_too(talks: Talks) -> None:
    talks.deliver(0)
    (approved,) = talks.wait(REVIEW)
    assert approved.conversation.state == "RESOLVED"


def test_a_dispute_ends_the_review(talks: Talks) -> None:
    talks.deliver()
    assert talks.say("DISPUTE", A, B).conversation.review_at is None
    assert talks.wait(REVIEW) == []
    talks.say("ACCEPT", B, A, amount=CREDIT)
    assert talks.say("DELIVER", B, A).conversation.review_at == talks.now + REVIEW


def test_a_notary_takes_its_time(talks: Talks) -> None:
    talks.deliver(notary=N)
    assert talks.wait(REVIEW) == []
    assert talks.state() == "DELIVERED"


def test_manual_approval_waits_for_the_requester(talks: Talks) -> None:
    talks.rules = structs.replace(talks.rules, approval="manual")
    talks.deliver()
    assert talks.wait(TIMEOUT - 1) == []
    assert talks.verdict("APPROVE", A).conversation.state == "RESOLVED"


def test_a_deadline_is_acted_upon_after_a_restart(talks: Talks) -> None:
    talks.deliver()
    talks.now += 2 * TIMEOUT
    talks.restart()
    (approved,) = talks.act()  # the review came first
    assert approved.conversation.state == "RESOLVED"
    assert talks.balance(B) == PAID


def test_a_deadline_that_no_longer_holds_does_nothing(talks: Talks) -> None:
    talks.resolve()
    talks.now += TIMEOUT
    assert talks.lapse() is None
    assert talks.lapse(OTHER_TALK) is None


# -- timeout -----------------------------------------------------------------------------------------------


def test_at_the_timeout_credits_go_back_if_nothing_was_delivered(talks: Talks) -> None:
    talks.commit(notary=N)
    assert talks.wait(TIMEOUT - 1) == []
    (ended,) = talks.wait(1)
    assert (ended.conversation.state, spent(talks), ended.conversation.is_open) == ("CLOSED", 0, False)


def test_at_the_timeout_the_provider_claims_what_it_delivered(talks: Talks) -> None:
    talks.deliver(notary=N)
    (ended,) = talks.wait(TIMEOUT)
    assert (ended.conversation.state, talks.balance(B), talks.balance(N)) == ("RESOLVED", PAID + FEE, 0)


@pytest.mark.parametrize("later", ["", "DISPUTE", "DELIVER"])
def test_a_rejecting_verdict_blocks_the_claim(talks: Talks, later: Event) -> None:
    """Neither a DISPUTE nor other work that no notary has seen lifts it."""
    talks.deliver(notary=N)
    talks.verdict("DISAPPROVE", N)
    if later:
        talks.say(later, B, N if later == "DISPUTE" else A)
    (ended,) = talks.wait(TIMEOUT)
    assert (ended.conversation.state, spent(talks), talks.balance(B)) == ("CLOSED", 0, 0)


def test_a_notary_that_approves_later_lifts_it(talks: Talks) -> None:
    talks.deliver(notary=N)
    talks.verdict("DISAPPROVE", N)
    talks.verdict("APPROVE", N)
    assert talks.balance(B) == PAID


def test_after_a_dispute_the_timeout_stays(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    (ended,) = talks.wait(TIMEOUT)
    assert (ended.conversation.state, talks.balance(B)) == ("RESOLVED", PAID)


# -- cancel ------------------------------------------------------------------------------------------------


def test_the_requester_cancels_before_delivery(talks: Talks) -> None:
    talks.commit(notary=N)
    dealt = talks.cancel(A)
    assert (dealt.conversation.state, dealt.changed, spent(talks)) == ("CLOSED", True, 0)
    with pytest.raises(OutOfOrder, match="CLOSED"):
        talks.cancel(A)
    assert talks.wait(TIMEOUT) == []


def test_an_offer_can_be_cancelled(talks: Talks) -> None:
    talks.propose()
    assert talks.cancel(A).conversation.state == "CLOSED"


def test_not_after_delivery(talks: Talks) -> None:
    talks.deliver(notary=N)
    with pytest.raises(OutOfOrder, match="consent"):
        talks.cancel(A)


def test_after_delivery_with_the_consent_of_the_provider(talks: Talks) -> None:
    talks.deliver(notary=N)
    assert not talks.consent(B).changed
    assert talks.cancel(A).conversation.state == "CLOSED"
    assert spent(talks) == 0


def test_consent_ends_with_the_next_delivery(talks: Talks) -> None:
    talks.commit()
    talks.consent(B)
    talks.say("DELIVER", B, A)
    with pytest.raises(OutOfOrder, match="consent"):
        talks.cancel(A)


def test_after_a_rejecting_verdict_until_the_next_delivery(talks: Talks) -> None:
    talks.deliver(notary=N)
    talks.verdict("DISAPPROVE", N)
    talks.say("DELIVER", B, A)
    with pytest.raises(OutOfOrder, match="consent"):
        talks.cancel(A)
    talks.verdict("DISAPPROVE", N)
    assert talks.cancel(A).conversation.state == "CLOSED"


def test_after_the_timeout_consent_comes_too_late(talks: Talks) -> None:
    talks.deliver(notary=N)
    talks.consent(B)
    talks.now += TIMEOUT
    with pytest.raises(CreditsRefused, match="timeout"):
        talks.cancel(A)


@pytest.mark.parametrize("key", [B, N, STRANGER])
def test_only_the_requester_cancels(talks: Talks, key: bytes) -> None:
    talks.commit(notary=N)
    with pytest.raises(OutOfOrder):
        talks.cancel(key)


@pytest.mark.parametrize("key", [A, N, STRANGER])
def test_only_the_provider_consents(talks: Talks, key: bytes) -> None:
    talks.commit(notary=N)
    with pytest.raises(OutOfOrder):
        talks.consent(key)


def test_what_is_not_there_is_not_cancelled(talks: Talks) -> None:
    with pytest.raises(OutOfOrder, match="no conversation"):
        talks.cancel(A)


# -- notaries ----------------------------------------------------------------------------------------------


def test_accept_assigns_a_notary_that_the_requester_asked_for(talks: Talks) -> None:
    dealt = talks.commit(notary=N)
    assert (dealt.assigned, dealt.fee, dealt.conversation.notary) == (N, FEE, N)
    assert spent(talks) == CREDIT + FEE
    assert talks.select("SELECT * FROM notary_bids") == []


def test_no_notary_without_the_word_of_the_requester(talks: Talks) -> None:
    """Else a provider could have a key of its own approve its work."""
    talks.propose()
    talks.ask(B)
    talks.bid(N)
    dealt = talks.say("ACCEPT", B, A, amount=CREDIT)
    assert (dealt.assigned, dealt.conversation.notary, spent(talks)) == (None, None, CREDIT)
    with pytest.raises(OutOfOrder, match="the requester agrees"):
        talks.verdict("APPROVE", N)


def test_a_requester_that_accepts_agrees_to_the_notary_that_was_asked_for(talks: Talks) -> None:
    talks.propose()
    talks.ask(B)
    talks.bid(N)
    talks.say("COUNTER", B, A, amount=CREDIT)
    assert talks.say("ACCEPT", A, B, amount=CREDIT).assigned == N


def test_no_notary_that_no_party_asked_for(talks: Talks) -> None:
    """It would have a fee."""
    talks.propose()
    talks.bid(N)
    talks.say("COUNTER", B, A, amount=CREDIT)
    assert talks.say("ACCEPT", A, B, amount=CREDIT).assigned is None


def test_no_notary_without_an_offer(talks: Talks) -> None:
    talks.propose()
    talks.ask(A)
    assert talks.say("ACCEPT", B, A, amount=CREDIT).assigned is None


def test_standing_offers_count_for_a_day(talks: Talks) -> None:
    talks.bid(N, NO_CONVERSATION)
    talks.propose()
    talks.ask(A)
    assert talks.say("ACCEPT", B, A, amount=CREDIT).assigned == N
    talks.now += 24 * 3600 * 1000
    talks.propose(talk=OTHER_TALK)
    talks.ask(A, OTHER_TALK)
    assert talks.say("ACCEPT", B, A, OTHER_TALK, amount=CREDIT).assigned is None


def test_a_standing_offer_can_be_renewed(talks: Talks) -> None:
    talks.bid(N, NO_CONVERSATION)
    talks.now += 24 * 3600 * 1000 - 1
    talks.bid(N, NO_CONVERSATION)
    talks.now += 1000
    talks.bid(STRANGER, NO_CONVERSATION)
    talks.propose()
    talks.ask(A)
    assert talks.say("ACCEPT", B, A, amount=CREDIT).assigned in (N, STRANGER)


def test_a_hundred_offers_are_kept(talks: Talks) -> None:
    talks.propose()
    for number in range(101):
        talks.bid(bytes([number]) + bytes(31))
    assert talks.select("SELECT count(*) FROM notary_bids") == [(100,)]
    talks.bid(bytes([7]) + bytes(31))  # again


def test_bids_that_concern_no_conversation_are_not_kept(talks: Talks) -> None:
    assert talks.bid(N) is None  # there is none
    talks.propose()
    assert talks.bid(A) is None  # a party offers itself
    assert talks.ask(STRANGER) is None
    assert talks.ask(A, NO_CONVERSATION) is None
    talks.say("ACCEPT", B, A, amount=CREDIT)
    talks.say("DELIVER", B, A)
    assert talks.bid(N) is None
    assert talks.select("SELECT * FROM notary_bids") == []


def test_bids_end_with_the_conversation(talks: Talks) -> None:
    talks.propose()
    talks.bid(N)
    talks.say("REJECT", B, A)
    assert talks.select("SELECT * FROM notary_bids") == []


def test_to_ask_twice_is_to_ask_once(talks: Talks) -> None:
    talks.propose()
    dealt = talks.ask(A)
    assert talks.ask(A) is None
    assert dealt is not None
    assert dealt.conversation.asked == (A,)


def test_a_party_may_assign_the_notary_that_the_rule_gives(talks: Talks) -> None:
    talks.commit()
    talks.bid(N)
    with pytest.raises(OutOfOrder, match="No party asked"):
        talks.say("NOTARIZE_ASSIGN", A, N, about=N)
    talks.ask(A)
    with pytest.raises(OutOfOrder, match=N.hex()):
        talks.say("NOTARIZE_ASSIGN", A, STRANGER, about=STRANGER)
    dealt = talks.say("NOTARIZE_ASSIGN", A, N, about=N)
    assert (dealt.conversation.notary, dealt.assigned, spent(talks)) == (N, None, CREDIT)
    talks.say("DELIVER", B, A)
    talks.verdict("APPROVE", N)
    assert (talks.balance(B), talks.balance(N)) == (PAID, 0)  # no fee was put aside


def test_no_assignment_without_an_offer(talks: Talks) -> None:
    talks.commit()
    talks.ask(A)
    with pytest.raises(OutOfOrder, match="No agent"):
        talks.say("NOTARIZE_ASSIGN", A, N, about=N)


def test_a_notary_that_comes_with_a_second_accept_has_no_fee(talks: Talks) -> None:
    talks.deliver()
    talks.say("DISPUTE", A, B)
    talks.ask(A)
    talks.bid(N)
    dealt = talks.say("ACCEPT", B, A, amount=CREDIT)
    assert (dealt.assigned, dealt.fee, spent(talks)) == (N, 0, CREDIT)
    talks.say("DELIVER", B, A)
    talks.verdict("APPROVE", N)
    assert talks.balance(B) == PAID


# -- what the state does not allow -------------------------------------------------------------------------

STATES: Final[tuple[State, ...]] = get_args(State)
MESSAGES: Final[list[Event]] = [event for event in get_args(Event) if event not in ORDERS]


def reach(talks: Talks, state: State) -> None:
    if state == "NEGOTIATING":
        talks.propose()
    elif state == "COMMITTED":
        talks.commit(notary=N)
    elif state == "DELIVERED":
        talks.deliver(notary=N)
    elif state == "RESOLVED":
        talks.resolve(notary=N)
    elif state == "CLOSED":
        talks.propose()
        talks.say("REJECT", B, A)


@pytest.mark.parametrize("state", STATES)
def test_a_pair_of_state_and_message_that_is_not_in_the_table_changes_nothing(
    talks: Talks, state: State
) -> None:
    reach(talks, state)
    assert talks.state() == state
    before = talks.facts()
    for event in MESSAGES:
        if (state, event) not in TRANSITIONS:
            for sender, recipient in product((A, B, N), repeat=2):
                with pytest.raises(OutOfOrder):
                    talks.say(event, sender, recipient, amount=CREDIT, parties=(A, B), about=recipient)
    assert talks.facts() == before


@pytest.mark.parametrize("state", STATES[1:])
def test_a_stranger_changes_nothing_in_any_state(talks: Talks, state: State) -> None:
    reach(talks, state)
    before = talks.facts()
    for event in MESSAGES:
        for recipient in (A, B, N):
            with pytest.raises(OutOfOrder):
                talks.say(event, STRANGER, recipient, amount=CREDIT, parties=(A, B), about=recipient)
    assert talks.facts() == before


@pytest.mark.parametrize("state", STATES)
def test_every_state_survives_a_restart(talks: Talks, state: State) -> None:
    reach(talks, state)
    before = talks.conversation()
    talks.restart()
    assert talks.conversation() == before


# -- replays -----------------------------------------------------------------------------------------------


def test_an_envelope_is_taken_once_also_after_a_restart(talks: Talks) -> None:
    """B keeps a generous COUNTER of A, which made another one since, and brings it again."""
    talks.propose()
    generous = Step(event="COUNTER", conversation_id=TALK, sender=A, recipient=B, amount=2 * CREDIT)
    shown = envelope(A)
    talks.take(generous, shown)
    talks.say("COUNTER", A, B, amount=CREDIT, round=2)
    talks.restart()
    before = talks.facts()
    with pytest.raises(OutOfOrder, match="taken before"):
        talks.take(generous, shown)
    assert talks.facts() == before


def test_envelopes_that_their_time_refuses_are_forgotten(talks: Talks) -> None:
    talks.propose()
    talks.now += REPLAY_WINDOW
    assert len(talks.say("COUNTER", B, A, amount=CREDIT).conversation.recent) == 1


def test_a_conversation_takes_a_bounded_number_of_envelopes_at_once(talks: Talks) -> None:
    talks.propose(max_rounds=1000)
    for number in range(1, MAX_RECENT):
        talks.say("COUNTER", B, A, amount=number)
    with pytest.raises(RateLimited, match="Wait a minute"):
        talks.say("COUNTER", B, A, amount=1)
    talks.say("ACCEPT", A, B, amount=MAX_RECENT - 1)
    with pytest.raises(RateLimited, match="Wait a minute"):
        talks.say("DELIVER", B, A)
    talks.now += REPLAY_WINDOW
    talks.say("DELIVER", B, A)


def test_offers_without_end_do_not_keep_a_party_from_its_dispute(talks: Talks) -> None:
    talks.propose(max_rounds=1000)
    for number in range(1, MAX_RECENT - 2):
        talks.say("COUNTER", B, A, amount=number)
    talks.say("ACCEPT", A, B, amount=MAX_RECENT - 3)
    delivered = talks.say("DELIVER", B, A).conversation
    assert len(delivered.recent) == MAX_RECENT
    assert talks.say("DISPUTE", A, B).conversation.state == "NEGOTIATING"


# -- ids and quotas ----------------------------------------------------------------------------------------


def test_a_closed_id_is_never_used_again_also_after_a_restart(talks: Talks) -> None:
    talks.propose()
    talks.say("REJECT", B, A)
    talks.restart()
    with pytest.raises(OutOfOrder, match="CLOSED"):
        talks.propose()
    with pytest.raises(OutOfOrder):
        talks.say("PROPOSE", STRANGER, N, amount=1)


def test_open_conversations_of_a_proposer_are_limited(talks: Talks) -> None:
    talks.rules = MeshRules(quotas=Quotas(open_proposals=2, open_per_pair=1))
    talks.propose(talk=b"1" * 16)
    with pytest.raises(RateLimited, match="to this agent"):
        talks.propose(talk=b"2" * 16)
    talks.say("PROPOSE", A, N, b"3" * 16)
    with pytest.raises(RateLimited, match="2 open conversations, which"):
        talks.say("PROPOSE", A, STRANGER, b"4" * 16)
    talks.say("PROPOSE", B, A, b"5" * 16)  # what others offer A does not count for it
    talks.say("REJECT", B, A, b"1" * 16)
    talks.propose(talk=b"6" * 16)


def test_an_offer_of_work_counts_for_the_agent_that_made_it(talks: Talks) -> None:
    talks.rules = MeshRules(quotas=Quotas(open_proposals=1))
    talks.say("PROPOSE", B, A, offers_work=True)
    talks.propose(talk=OTHER_TALK)
    with pytest.raises(RateLimited):
        talks.say("PROPOSE", B, N, b"3" * 16)


# -- resends -------------------------------------------------------------------------------------------------


def test_a_resend_changes_nothing_but_is_remembered(talks: Talks) -> None:
    talks.propose()
    talks.say("COUNTER", B, A, amount=2 * CREDIT, mark=b"counter")
    first = talks.conversation()
    talks.now += 1000
    again = envelope(B)
    step = Step(
        event="COUNTER", conversation_id=TALK, sender=B, recipient=A, amount=2 * CREDIT, mark=b"counter"
    )
    dealt = talks.take(step, again)
    assert first is not None
    assert (dealt.resent, dealt.changed, dealt.assigned) == (True, False, None)
    assert structs.replace(dealt.conversation, recent=first.recent) == first
    talks.restart()
    talks.say("COUNTER", A, B, amount=CREDIT, mark=b"another")
    with pytest.raises(OutOfOrder, match="taken before"):
        talks.take(step, again)  # a replay of the resend


def test_only_the_last_message_is_sent_again(talks: Talks) -> None:
    talks.propose(mark=b"propose")
    talks.say("ACCEPT", B, A, amount=CREDIT, mark=b"accept")
    with pytest.raises(OutOfOrder):
        talks.propose(mark=b"propose")
    assert talks.say("ACCEPT", B, A, amount=CREDIT, mark=b"accept").resent
    assert spent(talks) == CREDIT


def test_a_resend_does_not_put_off_the_review(talks: Talks) -> None:
    talks.commit()
    talks.say("DELIVER", B, A, mark=b"work")
    talks.now += REVIEW - 1
    assert talks.say("DELIVER", B, A, mark=b"work").resent
    talks.wait(1)
    assert (talks.state(), talks.balance(B)) == ("RESOLVED", PAID)
    assert talks.say("DELIVER", B, A, mark=b"work").conversation.state == "RESOLVED"


def test_resends_leave_room_for_the_other_party(talks: Talks) -> None:
    """A party that sends its ACCEPT again and again does not keep the other one from delivering."""
    talks.propose()
    talks.say("COUNTER", B, A, amount=CREDIT)
    for _ in range(MAX_RECENT_FOR_RESENDS - 2):
        talks.say("ACCEPT", A, B, amount=CREDIT, mark=b"accept")
    with pytest.raises(RateLimited, match="Wait a minute"):
        talks.say("ACCEPT", A, B, amount=CREDIT, mark=b"accept")
    assert talks.say("DELIVER", B, A).conversation.state == "DELIVERED"


# -- credits that are elsewhere --------------------------------------------------------------------------------


def test_a_conversation_of_a_requester_abroad_moves_no_credits(talks: Talks) -> None:
    talks.deposit(B, 10 * CREDIT)
    talks.abroad = A
    opened = talks.propose().conversation
    talks.abroad = None
    assert opened.elsewhere
    accepted = talks.say("ACCEPT", B, A, amount=CREDIT).conversation
    assert (accepted.state, accepted.held, accepted.deadline, accepted.elsewhere) == (
        "COMMITTED",
        0,
        None,
        True,
    )
    talks.say("DELIVER", B, A)
    talks.verdict("APPROVE", A)
    assert (talks.state(), spent(talks), talks.balance(B), talks.escrow()) == (
        "RESOLVED",
        0,
        10 * CREDIT,
        None,
    )


def test_a_requester_here_pays_a_provider_abroad(talks: Talks) -> None:
    talks.abroad = B
    talks.resolve()
    assert (spent(talks), talks.balance(B)) == (CREDIT, PAID)


def test_work_that_is_offered_from_abroad_is_paid_here(talks: Talks) -> None:
    talks.abroad = B
    talks.say("PROPOSE", B, A, amount=CREDIT, offers_work=True)
    talks.say("ACCEPT", A, B, amount=CREDIT)
    assert spent(talks) == CREDIT


def test_work_that_is_offered_to_a_requester_abroad_is_paid_there(talks: Talks) -> None:
    talks.abroad = A
    talks.say("PROPOSE", B, A, amount=CREDIT, offers_work=True)
    accepted = talks.say("ACCEPT", A, B, amount=CREDIT).conversation
    assert (accepted.elsewhere, accepted.held, spent(talks)) == (True, 0, 0)


def test_a_message_in_between_does_not_change_where_the_credits_are(talks: Talks) -> None:
    talks.propose()
    talks.abroad = A
    assert not talks.say("COUNTER", B, A, amount=2 * CREDIT).conversation.elsewhere


def test_no_notary_is_assigned_for_credits_elsewhere(talks: Talks) -> None:
    talks.abroad = A
    talks.propose()
    assert talks.ask(A) is None
    assert talks.bid(N) is None
    accepted = talks.say("ACCEPT", B, A, amount=CREDIT)
    assert (accepted.assigned, accepted.conversation.notary) == (None, None)
    with pytest.raises(OutOfOrder, match="No party asked for a notary"):
        talks.say("NOTARIZE_ASSIGN", B, N, about=N)


def test_a_delivery_elsewhere_counts_as_approved_when_the_other_hall_must_have_settled_it(
    talks: Talks,
) -> None:
    talks.abroad = A
    delivered = talks.deliver().conversation
    assert delivered.deadline == talks.now + TIMEOUT
    talks.wait(REVIEW)
    assert talks.state() == "DELIVERED"  # the other hall may have a longer review: a DISPUTE may come
    talks.wait(TIMEOUT - REVIEW)
    assert (talks.state(), spent(talks)) == ("RESOLVED", 0)


def test_feedback_of_the_requester_says_that_the_other_hall_has_resolved_it(talks: Talks) -> None:
    talks.abroad = A
    talks.deliver()
    with pytest.raises(OutOfOrder):
        talks.feedback(B, A)
    assert talks.feedback(A, B).conversation.state == "RESOLVED"
    assert talks.feedback(B, A).conversation.state == "CLOSED"


def test_feedback_before_the_approval_is_refused_where_the_credits_are(talks: Talks) -> None:
    talks.deliver()
    with pytest.raises(OutOfOrder):
        talks.feedback(A, B)
