"""Cases about conversations of the mesh, on both engines: what is filed, what waits, and what a verdict settles."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator

import msgspec
import pytest
from msgspec import structs

from moothall.court import casefile
from moothall.court.records import SignedFile
from moothall.court.verify import verify_case
from moothall.errors import (
    DisputeAlreadyExists,
    InvalidProposal,
    OutOfOrder,
    ProposalExpired,
    ProposalNotFound,
    Refusal,
)
from moothall.identity import PrivateKey
from moothall.market import clerk
from moothall.market.commands import Complete
from moothall.market.commands import Dispute as Plain
from moothall.market.conversations import Conversation
from moothall.market.credits import TREASURY, protocol_fee
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.store.conftest import place, postgres, server, sqlite  # noqa: F401
from tests.store.support import Place
from tests.support.cases import COMMITMENT
from tests.support.court_talks import DEAL, JUDGES, CourtTalks
from tests.support.seals import HALL, HALL_ID, SEAL
from tests.support.talks import CREDIT, TALK, TIMEOUT

A, B = ALICE.public.raw, BOB.public.raw
FEE = protocol_fee(CREDIT)
HALVES = ("disputant", "disputant", "mutual")


@pytest.fixture
def talks(place: Place) -> Iterator[CourtTalks]:  # noqa: F811
    talks = CourtTalks(place)
    yield talks
    talks.close()
    assert place.problems() == []


def balances(talks: CourtTalks) -> tuple[int, int, int]:
    return talks.balance(A), talks.balance(B), talks.account(TREASURY)


# -- filing ------------------------------------------------------------------------------------------------


def test_a_disputed_conversation_becomes_a_frozen_deal(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    deal, talk = talks.deal(), talks.talk()
    assert (deal.status, deal.frozen_by, deal.proposer, deal.recipient) == ("accepted", case, A, B)
    assert (deal.amount, deal.currency, deal.proposer_stake, deal.acceptor_stake) == ("1", "credits", 0, 0)
    assert deal.task == f"{deal.from_} is the requester, {deal.to} the provider: work"
    assert (talk.state, talk.case, talk.case_from, talk.deadline) == ("NEGOTIATING", case, talks.now, None)


def test_the_proposer_is_the_party_whose_offer_was_accepted(talks: CourtTalks) -> None:
    talks.offer()
    talks.counter(BOB, 2 * CREDIT)
    talks.agree(ALICE, 2 * CREDIT)
    talks.hand_over()
    talks.challenge()
    talks.counter(BOB, 3 * CREDIT)  # not accepted: it is not what they agreed on
    talks.file(BOB)
    deal = talks.deal()
    assert (deal.proposer, deal.recipient, deal.amount) == (B, A, "2")
    assert deal.task.endswith("the provider: work / more")
    assert deal.task.startswith(f"{deal.to} is the requester")


@pytest.mark.parametrize("by", [ALICE, BOB])
def test_an_agreement_that_was_renewed_after_a_dispute_is_found(talks: CourtTalks, by: PrivateKey) -> None:
    """After a DISPUTE of Bob, Alice accepts her own last amount: both signed it before."""
    talks.quarrel(by=by)
    talks.agree(BOB if by is ALICE else ALICE)
    talks.hand_over()
    talks.challenge()
    talks.file()
    assert (talks.deal().proposer, talks.deal().recipient) == (A, B)


def test_a_case_needs_a_delivery_that_was_disputed(talks: CourtTalks) -> None:
    talks.offer()
    refused(talks, "Send a DISPUTE first")
    talks.agree()
    refused(talks, "COURT_CASE is out of order: the conversation is COMMITTED")
    talks.hand_over()
    refused(talks, "COURT_CASE is out of order: the conversation is DELIVERED")


def test_a_conversation_with_a_notary_does_not_go_to_court(talks: CourtTalks) -> None:
    talks.offer()
    talks.ask(A)
    talks.bid(CAROL.public.raw)
    talks.agree()
    talks.hand_over()
    talks.challenge()
    refused(talks, "The notary judges this conversation")


def test_only_parties_file_and_only_about_what_exists(talks: CourtTalks) -> None:
    with pytest.raises(ProposalNotFound):
        talks.file()
    talks.quarrel()
    with pytest.raises(ProposalNotFound):
        talks.file(CAROL)
    for name in ("mesh:", f"{DEAL}0", DEAL.upper(), "mesh:zz"):
        with pytest.raises(ProposalNotFound):
            talks.step(ALICE, "DISPUTE_INTENT", proposal_id=name, reason="x", commitment=COMMITMENT)


def test_without_the_envelopes_there_is_no_case(place: Place) -> None:  # noqa: F811
    talks = CourtTalks(place, logs=False)
    talks.quarrel()
    refused(talks, "`mesh_log`")
    talks.close()


def test_there_is_one_case_at_a_time_and_one_at_all(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    for party in (ALICE, BOB):
        with pytest.raises(DisputeAlreadyExists):
            talks.file(party)
    talks.reveal()
    talks.judge(case, *HALVES)
    for party in (ALICE, BOB):
        with pytest.raises(DisputeAlreadyExists):
            talks.file(party)


def test_a_timeout_that_has_passed_is_not_undone(talks: CourtTalks) -> None:
    talks.quarrel()
    talks.now += TIMEOUT
    refused(talks, "timeout")


def refused(talks: CourtTalks, reason: str) -> None:
    """Nothing changes."""
    before = talks.facts()
    with pytest.raises(InvalidProposal) as refusal:
        talks.file()
    assert reason in str(refusal.value)
    assert talks.facts() == before
    assert talks.select("SELECT id FROM proposals") == []


# -- while the case is open --------------------------------------------------------------------------------


def test_nothing_happens_in_a_conversation_that_is_in_court(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    before = talks.facts()
    acts: tuple[Callable[[], object], ...] = (
        lambda: talks.counter(BOB, CREDIT),
        lambda: talks.agree(BOB),
        lambda: talks.send(BOB, MsgType.REJECT, b""),
        lambda: talks.cancel(A),
        lambda: talks.consent(B),
    )
    for act in acts:
        with pytest.raises(OutOfOrder) as refusal:
            act()
        assert case in str(refusal.value)
    talks.now += 2 * TIMEOUT
    assert talks.act() == []
    assert talks.lapse() is None
    assert talks.facts() == before


def test_complete_and_the_plain_dispute_do_not_end_the_copy(talks: CourtTalks) -> None:
    """Nor does one that fell back, or that was judged."""
    talks.quarrel()

    def refuses(error: type[Refusal], reason: str) -> None:
        now, rules = talks.now, MarketRules()
        completed: Signed[Complete] = Signed(Complete(deal=DEAL), A, "sig")
        with pytest.raises(error, match=reason):
            talks.unit(lambda books: clerk.complete(books, completed, now=now, rules=rules, seal=SEAL))
        disputed: Signed[Plain] = Signed(Plain(deal=DEAL, reason="no"), B, "sig")
        with pytest.raises(error, match=reason):
            talks.unit(lambda books: clerk.dispute(books, disputed, now=now, rules=rules))

    case = talks.file()
    refuses(InvalidProposal, "PROPOSAL_FROZEN")
    talks.lapse_case(case)
    refuses(ProposalExpired, "deadline")
    case = talks.file(BOB)
    talks.reveal(BOB)
    talks.judge(case, *HALVES)
    refuses(InvalidProposal, "PROPOSAL_NOT_ACCEPTED")


# -- verdicts ----------------------------------------------------------------------------------------------


def test_a_requester_that_wins_gets_its_credits_back(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, *HALVES)
    talk = talks.talk()
    assert (talk.state, talk.case, talk.judged, talk.held, talk.deadline) == ("CLOSED", None, True, 0, None)
    assert balances(talks) == (10 * CREDIT, 0, 0)
    assert talks.deal().status == "disputed"
    assert talks.standing(A).rating > 1200 > talks.standing(B).rating


def test_a_provider_that_wins_is_paid(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, "respondent", "respondent", "disputant")
    assert (talks.state(), talks.talk().judged) == ("RESOLVED", True)
    assert balances(talks) == (9 * CREDIT, CREDIT - FEE, FEE)
    assert talks.standing(A).rating < 1200 < talks.standing(B).rating


def test_the_provider_may_file_and_win(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file(BOB)
    talks.reveal(BOB)
    talks.judge(case, *HALVES)
    assert (talks.state(), talks.balance(B)) == ("RESOLVED", CREDIT - FEE)


def test_if_both_are_at_fault_the_credits_go_back(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, "mutual", "disputant", "respondent")
    assert talks.state() == "CLOSED"
    assert balances(talks) == (10 * CREDIT, 0, 0)
    assert talks.standing(A).rating < 1200 > talks.standing(B).rating


def test_work_for_nothing_can_be_judged_too(talks: CourtTalks) -> None:
    talks.quarrel(amount=0)
    case = talks.file()
    assert (talks.deal().amount, talks.deal().currency) == (None, None)
    talks.reveal()
    talks.judge(case, "respondent", "respondent", "respondent")
    assert (talks.state(), talks.escrow()) == ("RESOLVED", None)


def test_votes_that_are_missing_do_not_hold_up_the_verdict(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    for judge in JUDGES:
        talks.step(judge, "ARBITER_ACCEPT", dispute_id=case)
    for party in (ALICE, BOB):
        talks.step(party, "EVIDENCE", dispute_id=case, items=[], statement="")
    talks.step(JUDGES[0], "ARBITER_VOTE", dispute_id=case, verdict="disputant", reasoning="")
    talks.lapse_case(case)
    assert talks.state() == "CLOSED"
    assert talks.balance(A) == 10 * CREDIT


def test_a_verdict_comes_also_after_the_timeout_of_the_escrow(talks: CourtTalks) -> None:
    """Its time stood still."""
    talks.quarrel()
    talks.now += TIMEOUT - 1
    case = talks.file()
    talks.reveal()
    talks.now += 10_000
    talks.judge(case, *HALVES)
    assert (talks.state(), talks.balance(A)) == ("CLOSED", 10 * CREDIT)


def test_feedback_after_a_verdict_does_not_settle_ratings_again(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, "respondent", "respondent", "respondent")
    before = talks.standing(A).rating, talks.standing(B).rating
    talks.feedback(A, B, 100, positive=True)
    assert (talks.standing(A).rating, talks.standing(B).rating) == before
    assert talks.vector(B).total_tasks == 1
    assert talks.talk().completed_at is None


def test_the_entry_of_a_verdict_names_what_the_hall_signed(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    outcome = talks.judge(case, *HALVES)
    assert any(isinstance(change, Conversation) for change in outcome.changes)
    ((body,),) = talks.select("SELECT body FROM case_files")
    text = casefile.signed_text(SignedFile(dispute_id=case, body=body))
    assert HALL.public.verifies(text.decode(), msgspec.json.decode(body)["hall_sig"])
    rows = talks.select("SELECT envelope, sender, nonce FROM authorisations WHERE operation = 'cancel'")
    assert rows == [(keccak256(text), HALL.public.raw, "0")]


# -- without a verdict -------------------------------------------------------------------------------------


def test_a_case_without_a_verdict_gives_the_conversation_back(talks: CourtTalks) -> None:
    talks.quarrel()
    deadline = talks.talk().deadline
    filed = talks.now
    case = talks.file()
    talks.reveal()
    talks.lapse_case(case)  # no arbiter answered
    talk = talks.talk()
    assert (talk.state, talk.case, talk.judged) == ("NEGOTIATING", None, False)
    assert deadline is not None
    assert talk.deadline == deadline + talks.now - filed
    assert talks.deal().status == "expired"
    assert talks.agree().conversation.state == "COMMITTED"


def test_the_other_party_may_file_if_the_nonce_was_not_revealed(talks: CourtTalks) -> None:
    talks.quarrel()
    talks.lapse_case(talks.file())
    talks.counter(BOB, 2 * CREDIT)
    talks.agree(ALICE, 2 * CREDIT)
    talks.hand_over()
    talks.challenge()
    with pytest.raises(DisputeAlreadyExists):
        talks.file(ALICE)
    case = talks.file(BOB)
    assert (talks.deal().status, talks.deal().amount, talks.deal().frozen_by) == ("accepted", "2", case)
    talks.reveal(BOB)
    talks.judge(case, *HALVES)
    assert (talks.state(), talks.balance(A)) == ("RESOLVED", 8 * CREDIT)


def test_a_notary_may_be_asked_for_after_a_case_without_a_verdict(talks: CourtTalks) -> None:
    talks.quarrel()
    talks.lapse_case(talks.file())
    talks.ask(A)
    talks.bid(CAROL.public.raw)
    assert talks.agree().assigned == CAROL.public.raw


# -- what a check finds ------------------------------------------------------------------------------------


def test_a_check_finds_a_conversation_that_no_case_holds(sqlite: Place) -> None:  # noqa: F811
    talks = CourtTalks(sqlite)
    talks.quarrel()
    talks.file()
    free = structs.replace(talks.talk(), case=None)
    talks.unit(lambda books: books.save_conversation(free))
    talks.close()
    assert any("not its open court case" in problem for problem in sqlite.problems())


# -- what the file proves ----------------------------------------------------------------------------------


def test_the_file_says_what_the_envelopes_prove(talks: CourtTalks) -> None:
    talks.quarrel()
    case = talks.file()
    talks.reveal()
    talks.judge(case, *HALVES)
    proof = verify_case(talks.file_of(case), [HALL_ID])
    assert proof.problems == []
    assert any(f"agreed on 1 credits in conversation {TALK.hex()}" in said for said in proof.proven)
    assert any("no later ACCEPT" in said for said in proof.hall_word)


@pytest.mark.parametrize("part", ["proposal", "accept"])
def test_a_file_with_other_bytes_contradicts_itself(sqlite: Place, part: str) -> None:  # noqa: F811
    talks = CourtTalks(sqlite)
    talks.quarrel()
    file = talks.file_of(talks.file())
    talks.close()
    signed = bytearray(b64decode(file["deal"][part]["signed"]))
    for position in (0, 2, 40, 100, 120, 140, -1):
        changed = bytearray(signed)
        changed[position] ^= 1
        file["deal"][part]["signed"] = b64encode(changed).decode()
        assert any(f"deal.{part}" in said for said in verify_case(file, [HALL_ID]).contradictions)
    file["deal"][part]["signed"] = b64encode(signed[:50]).decode()
    assert any(f"deal.{part}" in said for said in verify_case(file, [HALL_ID]).contradictions)


def test_a_file_about_another_conversation_or_amount_contradicts_itself(sqlite: Place) -> None:  # noqa: F811
    talks = CourtTalks(sqlite)
    talks.quarrel()
    file = talks.file_of(talks.file())
    talks.close()
    file["deal"]["proposal"]["amount"] = "2"
    assert any("deal.proposal.amount" in said for said in verify_case(file).contradictions)
    file["proposal_id"] = f"mesh:{bytes(16).hex()}"
    assert any("`proposal_id`" in said for said in verify_case(file).contradictions)
