"""How a case begins, over the wire with a made-up clock (seed 000, file intent and reveal)."""

from hashlib import sha256

import pytest

from moothall.identity import PrivateKey
from moothall.market.proposals import LAST_MOMENT
from tests.court.support import Courtroom, draw_panel, kinds, rated
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cases import ARBITERS, COMMITMENT, NONCE, signed_step
from tests.support.deals import signed
from tests.support.world import ABSENT, assert_refused, assert_sent, assert_silent

WRONG = "another nonce"


def intent(court: Courtroom, **changed: str) -> dict[str, str]:
    return {
        "proposal_id": court.deal_id,
        "reason": "nothing came",
        "commitment": COMMITMENT,
        **changed,
    }


# -- file intent -----------------------------------------------------------------------------------------


def test_file_intent_1_5_and_6_the_disputant_is_answered_and_the_respondent_hears_of_it() -> None:
    court = Courtroom()
    court.agree()
    (answer,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court), ref="r")
    assert answer["type"] == "DISPUTE_INTENT_ACK"
    assert answer["ref"] == "r"
    assert answer["proposal_id"] == court.deal_id
    assert answer["dispute_id"].startswith("disp_")
    assert len(bytes.fromhex(answer["server_nonce"])) == 16
    assert answer["reveal_deadline"] == court.world.now_ms + 300_000
    told = assert_sent(court.bob, "MSG", from_="@server", to=court.bob.id)
    assert court.deal_id in told["content"]
    assert court.alice.id in told["content"]
    assert_silent(*court.world.guests)


def test_file_intent_2_needs_a_proven_key() -> None:
    """Seed 000, file intent 2: the disputant has a persistent identity."""
    court = Courtroom()
    court.agree()
    anonymous = court.world.agent("nobody")
    court.world.send(anonymous, "DISPUTE_INTENT", **intent(court), sig="s")
    assert_refused(anonymous, "VERIFICATION_REQUIRED")


def test_file_intent_2_needs_a_deal_that_exists() -> None:
    court = Courtroom()
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court, proposal_id="prop_none"))
    assert error["code"] == "PROPOSAL_NOT_FOUND"


def test_file_intent_2_needs_a_deal_that_is_accepted() -> None:
    court = Courtroom()
    offer = signed(ALICE, "PROPOSAL", to=court.bob.id, task="review")
    court.world.send(court.alice, "PROPOSAL", **offer)
    court.deal_id = court.alice.next()["id"]
    court.world.hush()
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    assert (error["code"], error["message"]) == ("INVALID_PROPOSAL", "PROPOSAL_NOT_ACCEPTED")


def test_file_intent_2_and_the_error_for_strangers() -> None:
    """Seed 000, agentcourt errors: non-party attempts dispute operation."""
    court = Courtroom()
    court.agree()
    court.arrive(CAROL)
    (error,) = court.act(CAROL, "DISPUTE_INTENT", **intent(court))
    assert error["code"] == "DISPUTE_NOT_PARTY"


@pytest.mark.parametrize("by", [ALICE, BOB], ids=["again", "by the other"])
def test_file_intent_2_and_the_error_for_a_second_dispute(by: PrivateKey) -> None:
    """Seed 000, agentcourt errors: dispute already exists for proposal; also after one that fell back."""
    court = Courtroom(judges=2)
    court.file()
    (error,) = court.act(by, "DISPUTE_INTENT", **intent(court))
    assert error["code"] == "DISPUTE_ALREADY_EXISTS"
    court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert court.case.phase == "fallback"
    court.world.hush()
    (error,) = court.act(by, "DISPUTE_INTENT", **intent(court))
    assert error["code"] == "DISPUTE_ALREADY_EXISTS"
    court.world.send(court.guests[by], "DISPUTE", **signed(by, "DISPUTE", **plain(court)))
    assert court.deal.status == "disputed", "either party may dispute the plain way"


# -- a nonce that is not revealed ------------------------------------------------------------------------


def plain(court: Courtroom) -> dict[str, str]:
    return {"proposal_id": court.deal_id, "reason": "nothing came"}


def abandoned(**settings: object) -> Courtroom:
    """Alice, who is at fault, has gone to court and let the time for her nonce pass."""
    court = Courtroom(judges=4, **settings)  # type: ignore[arg-type]
    court.file(stakes=(10, 20))
    court.world.advance(601)
    assert court.case.is_unrevealed
    court.world.hush()
    return court


@pytest.mark.parametrize("profile", ["seeds", "agentchat-0.36"])
def test_whoever_does_not_reveal_has_used_up_its_right(profile: str) -> None:
    court = abandoned(profile=profile, auto_join=False)
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    assert error["code"] == "DISPUTE_ALREADY_EXISTS"
    court.world.send(court.alice, "DISPUTE", **signed(ALICE, "DISPUTE", **plain(court)))
    assert_refused(court.alice, "DISPUTE_ALREADY_EXISTS", "did not reveal")
    assert court.deal.status == "accepted"


def test_the_other_party_may_still_dispute_the_plain_way() -> None:
    court = abandoned()
    court.world.send(court.bob, "DISPUTE", **signed(BOB, "DISPUTE", **plain(court)))
    assert_sent(court.bob, "DISPUTE", proposal_id=court.deal_id)
    assert court.deal.status == "disputed"
    assert court.deal.disputed_by == court.bob.id


def test_the_other_party_may_still_go_to_court() -> None:
    court = abandoned()
    first = court.dispute_id
    (answer,) = court.act(BOB, "DISPUTE_INTENT", **intent(court))
    assert answer["type"] == "DISPUTE_INTENT_ACK"
    court.dispute_id = answer["dispute_id"]
    assert (court.case.disputant, court.case.respondent) == (BOB.public.raw, ALICE.public.raw)
    court.world.hush()
    (error,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert error["code"] == "DISPUTE_INVALID_PHASE", "her own case is over"
    (formed, _) = court.act(BOB, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert (formed["type"], formed["dispute_id"]) == ("PANEL_FORMED", court.dispute_id)
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for key in (ALICE, BOB):
        court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    for key in court.panel:
        court.vote(key, "disputant")
    assert (court.case.phase, court.deal.status) == ("resolved", "disputed")
    assert court.report(BOB).problems == []
    # Both cases are found, and the deal's case is the newer one.
    court.world.hush()
    court.world.send(court.alice, "LIST_CASES")
    listed = assert_sent(court.alice, "CASES")["list"]
    assert [entry["dispute_id"] for entry in listed] == [court.dispute_id, first]
    assert [entry["role"] for entry in listed] == ["respondent", "disputant"]
    court.world.send(court.alice, "GET_CASE", proposal_id=court.deal_id)
    assert assert_sent(court.alice, "CASE")["case"]["dispute_id"] == court.dispute_id


def test_both_parties_can_use_up_their_rights() -> None:
    court = abandoned()
    court.act(BOB, "DISPUTE_INTENT", **intent(court))
    court.world.advance(601)
    court.world.hush()
    for key in (ALICE, BOB):
        (error,) = court.act(key, "DISPUTE_INTENT", **intent(court))
        assert error["code"] == "DISPUTE_ALREADY_EXISTS"
        court.world.send(court.guests[key], "DISPUTE", **signed(key, "DISPUTE", **plain(court)))
        assert_refused(court.guests[key], "DISPUTE_ALREADY_EXISTS")
    court.world.send(court.bob, "COMPLETE", **signed(BOB, "COMPLETE", proposal_id=court.deal_id))
    assert court.deal.status == "completed"


def test_file_intent_3_the_case_is_kept_and_the_deal_frozen() -> None:
    court = Courtroom()
    court.file()
    assert court.case.phase == "reveal_pending"
    assert (court.case.disputant, court.case.respondent) == (ALICE.public.raw, BOB.public.raw)
    assert (court.deal.status, court.deal.frozen_by) == ("accepted", court.dispute_id)


def test_the_recipient_can_be_the_disputant() -> None:
    court = Courtroom()
    court.agree()
    (answer,) = court.act(BOB, "DISPUTE_INTENT", **intent(court))
    case = court.world.books.case(answer["dispute_id"])
    assert case is not None
    assert (case.disputant_address, case.respondent_address) == (court.bob.id, court.alice.id)


def test_file_intent_4_a_nonce_that_is_not_revealed_in_five_minutes_is_a_fallback() -> None:
    court = Courtroom()
    court.file()
    court.world.advance(299)
    assert_silent(*court.world.guests)
    court.world.advance(1)
    for guest in (court.alice, court.bob):
        assert_sent(guest, "DISPUTE_FALLBACK", dispute_id=court.dispute_id, proposal_id=court.deal_id)
    assert (court.case.phase, court.case.deadline) == ("fallback", None)
    assert (court.deal.status, court.deal.frozen_by) == ("accepted", None)


def test_a_wrong_signature_files_nothing() -> None:
    court = Courtroom()
    court.agree()
    step = signed_step(ALICE, "DISPUTE_INTENT", **intent(court))
    court.world.send(court.alice, "DISPUTE_INTENT", **{**step, "reason": "something else"}, ref="r")
    assert_refused(court.alice, "INVALID_SIGNATURE", ref="r")
    assert court.world.books.cases == []
    assert court.deal.frozen_by is None


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"reason": "x" * 4097}, "reason"), ({"commitment": "x" * 257}, "commitment")],
)
def test_what_is_too_long_files_nothing(changed: dict[str, str], field: str) -> None:
    court = Courtroom()
    court.agree()
    court.world.send(court.alice, "DISPUTE_INTENT", **intent(court, **changed), sig="wrong")
    assert_refused(court.alice, "INVALID_MSG", f"`{field}`")
    court.act(ALICE, "DISPUTE_INTENT", **intent(court, reason="x" * 4096))
    assert court.deal.frozen_by is not None


def test_the_profile_has_the_references_code_and_ten_minutes() -> None:
    """Agentchat wire 20, rows 26 and 37."""
    court = Courtroom(profile="agentchat-0.36", auto_join=False)
    court.agree()
    court.world.send(court.alice, "DISPUTE_INTENT", **intent(court), sig=ALICE.sign("something else"))
    assert_refused(court.alice, "VERIFICATION_FAILED")
    (answer,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    assert answer["reveal_deadline"] == court.world.now_ms + 600_000


# -- the deal while it is frozen ---------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "fields"), [("COMPLETE", {}), ("DISPUTE", {"reason": "late"})])
def test_a_frozen_deal_cannot_be_ended_and_a_thawed_one_can(kind: str, fields: dict[str, str]) -> None:
    """Seed 000, fallback 1: it falls back to the legacy dispute mechanism."""
    court = Courtroom()
    court.file(stakes=(10, 10))
    court.world.send(court.bob, kind, **signed(BOB, kind, proposal_id=court.deal_id, **fields))
    assert_refused(court.bob, "INVALID_PROPOSAL", "PROPOSAL_FROZEN")
    court.world.advance(301)
    court.world.hush()
    court.world.send(court.bob, kind, **signed(BOB, kind, proposal_id=court.deal_id, **fields))
    assert_sent(court.bob, kind, proposal_id=court.deal_id)


def test_expiry_waits_for_the_court_and_a_fallback_gives_back_the_time_that_was_left() -> None:
    court = Courtroom()
    court.agree(expires=60)
    court.world.advance(20)
    court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    court.world.advance(301)
    assert kinds(court.alice.read()) == ["DISPUTE_FALLBACK"]
    court.world.advance(38)
    assert_silent(court.alice)
    court.world.advance(2)
    assert kinds(court.alice.read()) == ["EXPIRED"]
    assert court.deal.status == "expired"


def test_a_case_that_falls_back_cannot_save_a_party_from_the_plain_dispute() -> None:
    """Seed 000, fallback 1: the dispute falls back to the legacy mechanism."""
    court = Courtroom()
    court.file(expires=60)
    court.world.advance(301)
    fields = signed(BOB, "DISPUTE", proposal_id=court.deal_id, reason="she filed, and never revealed")
    court.world.send(court.bob, "DISPUTE", **fields)
    assert court.deal.status == "disputed"


def test_no_expiry_is_put_off_past_the_last_moment_that_can_be_named() -> None:
    court = Courtroom()
    last = LAST_MOMENT // 1000 - int(court.world.clock.time()) - 10
    court.file(expires=last)
    court.world.advance(301)
    assert court.deal.expires == LAST_MOMENT


def test_a_deal_whose_deadline_has_passed_cannot_be_disputed() -> None:
    """Seed 000, proposal errors: operate on expired proposal."""
    court = Courtroom()
    court.agree(expires=60)
    court.world.advance(61)
    court.world.hush()
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    assert error["code"] == "PROPOSAL_EXPIRED"


def test_the_reference_calls_such_a_deal_not_accepted() -> None:
    """Agentchat wire 7: INVALID_PROPOSAL says why in one of its words, here as for ACCEPT and COMPLETE."""
    court = Courtroom(profile="agentchat-0.36")
    court.agree(expires=60)
    court.world.advance(61)
    court.world.hush()
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **intent(court))
    assert (error["code"], error["message"]) == ("INVALID_PROPOSAL", "PROPOSAL_NOT_ACCEPTED")


# -- reveal ----------------------------------------------------------------------------------------------


def test_reveal_the_whole_of_it_in_order() -> None:
    """Seed 000, reveal 5 and 9 to 14."""
    court = Courtroom(judges=6)
    court.file()
    messages = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE, ref="r")
    formed, revealed = messages
    case = court.case
    assert formed["type"] == "PANEL_FORMED"
    assert "ref" not in formed
    assert (revealed["type"], revealed["ref"], revealed["panel_size"]) == ("DISPUTE_REVEALED", "r", 3)
    seed = sha256((court.deal_id + NONCE + case.server_nonce).encode()).hexdigest()
    assert revealed["seed"] == formed["seed"] == seed
    assert formed["server_nonce"] == case.server_nonce
    assert (formed["evidence_deadline"], formed["vote_deadline"]) == (None, None)
    assert formed["pool"] == sorted(court.guests[key].id for key in court.judges)
    assert formed["arbiters"] == draw_panel(seed, formed["pool"])
    assert_sent(court.bob, "PANEL_FORMED", arbiters=formed["arbiters"], pool=formed["pool"])
    for key in court.judges:
        guest = court.guests[key]
        if guest.id in formed["arbiters"]:
            assert_sent(
                guest,
                "ARBITER_ASSIGNED",
                dispute_id=court.dispute_id,
                proposal_id=court.deal_id,
                disputant=court.alice.id,
                respondent=court.bob.id,
                reason="nothing came",
                response_deadline=court.world.now_ms + 1_800_000,
                is_replacement=ABSENT,
            )
    assert_silent(*court.world.guests)
    assert case.phase == "arbiter_response"


def test_reveal_2_only_by_whoever_filed() -> None:
    court = Courtroom()
    court.file()
    (error,) = court.act(BOB, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert error["code"] == "DISPUTE_NOT_PARTY"


def test_reveal_2_only_while_it_is_waited_for() -> None:
    """Seed 000, agentcourt errors: operation on wrong dispute phase."""
    court = Courtroom()
    court.reveal()
    (error,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert error["code"] == "DISPUTE_INVALID_PHASE"


def test_reveal_of_nothing() -> None:
    """Seed 000, agentcourt errors: dispute not found."""
    court = Courtroom()
    court.agree()
    (error,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert error["code"] == "DISPUTE_NOT_FOUND"


def test_reveal_3_a_wrong_nonce_is_refused_and_may_be_tried_again() -> None:
    """Seed 000, agentcourt errors: reveal with wrong nonce; the dispute stays in reveal_pending."""
    court = Courtroom()
    court.file()
    (error,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=WRONG)
    assert error["code"] == "DISPUTE_COMMITMENT_MISMATCH"
    assert court.case.phase == "reveal_pending"
    assert "DISPUTE_REVEALED" in kinds(
        court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    )


def test_a_nonce_has_an_end() -> None:
    court = Courtroom()
    court.file()
    court.world.send(court.alice, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce="x" * 1025, sig="wrong")
    assert_refused(court.alice, "INVALID_MSG", "`nonce`")


def test_reveal_6_its_timeout_is_over() -> None:
    court = Courtroom()
    court.reveal()
    court.world.advance(301)
    assert court.case.phase == "arbiter_response"


def test_reveal_7_who_is_not_eligible_is_not_in_the_pool() -> None:
    """Seed 000, reveal 7: no party, no agent without a key, none that is away, none below 1200, none below 10."""
    court = Courtroom(judges=4)
    newcomer, poor, anonymous = ARBITERS[10], ARBITERS[11], court.world.agent("nobody")
    rated(court.world.books, newcomer, transactions=9)
    rated(court.world.books, poor, rating=1199)
    for party in (ALICE, BOB):
        rated(court.world.books, party)
    court.arrive(newcomer)
    court.arrive(poor)
    court.world.send(court.guests[ARBITERS[0]], "SET_PRESENCE", status="away")
    court.reveal()
    assert list(court.case.pool) == sorted(court.guests[key].id for key in ARBITERS[1:4])
    assert anonymous.id not in court.case.pool


@pytest.mark.parametrize(("profile", "in_pool"), [("seeds", True), ("agentchat-0.36", False)])
def test_the_reference_passes_over_who_shows_itself_as_offline(profile: str, in_pool: bool) -> None:
    """Agentchat wire 20, row 38."""
    court = Courtroom(judges=4, profile=profile, auto_join=False)
    court.world.send(court.guests[ARBITERS[0]], "SET_PRESENCE", status="offline")
    court.reveal()
    assert (court.guests[ARBITERS[0]].id in court.case.pool) is in_pool


def test_reveal_8_fewer_than_three_are_a_fallback_and_both_are_told() -> None:
    court = Courtroom(judges=2)
    court.file()
    (answer,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE, ref="r")
    assert (answer["type"], answer["ref"], answer["dispute_id"]) == (
        "DISPUTE_FALLBACK",
        "r",
        court.dispute_id,
    )
    assert_sent(court.bob, "DISPUTE_FALLBACK", proposal_id=court.deal_id, reason=answer["reason"])
    assert court.case.phase == "fallback"
    assert (court.deal.status, court.deal.frozen_by) == ("accepted", None)
    assert court.report().problems == []


def test_who_is_not_here_is_not_drawn() -> None:
    court = Courtroom(judges=4)
    court.leave(ARBITERS[0])
    court.reveal()
    assert len(court.case.pool) == 3


def test_a_reveal_that_comes_in_the_last_moment_is_too_late() -> None:
    court = Courtroom()
    court.file()
    court.world.clock.move_to(court.world.clock.monotonic() + 300)  # the hall has not woken up yet
    (error,) = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    assert error["code"] == "DISPUTE_DEADLINE_PASSED"
