"""Arbiters and evidence, over the wire with a made-up clock (seed 000, arbiter accept to evidence deadline)."""

from typing import Any

import pytest

from moothall.court.evidence import item_hash
from moothall.court.panel import shuffled
from moothall.identity import PrivateKey
from tests.court.support import ITEM, Courtroom, kinds
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cases import signed_step
from tests.support.world import ABSENT, assert_refused, assert_sent, assert_silent


def outsider(court: Courtroom) -> PrivateKey:
    """An eligible agent that was not drawn."""
    return next(key for key in court.judges if key not in court.panel)


# -- accept ----------------------------------------------------------------------------------------------


def test_arbiter_accept_1_and_3_the_slot_is_accepted_and_with_ref_acknowledged() -> None:
    court = Courtroom()
    court.reveal()
    court.world.hush()
    assert kinds(court.act(court.panel[0], "ARBITER_ACCEPT", dispute_id=court.dispute_id, ref="r")) == ["ACK"]
    assert kinds(court.act(court.panel[1], "ARBITER_ACCEPT", dispute_id=court.dispute_id)) == []
    assert [slot.status for slot in court.case.slots] == ["accepted", "accepted", "pending"]
    assert court.case.phase == "arbiter_response"
    assert_silent(*court.world.guests)


def test_arbiter_accept_2_only_by_an_arbiter() -> None:
    """Seed 000, agentcourt errors: non-arbiter attempts arbiter operation."""
    court = Courtroom(judges=4)
    court.reveal()
    for key in (outsider(court), ALICE):
        court.guests[key].read()
        (error,) = court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
        assert error["code"] == "DISPUTE_NOT_ARBITER"


def test_arbiter_accept_2_only_while_the_slot_is_pending() -> None:
    court = Courtroom()
    court.reveal()
    court.world.hush()
    court.act(court.panel[0], "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for kind in ("ARBITER_ACCEPT", "ARBITER_DECLINE"):
        (error,) = court.act(court.panel[0], kind, dispute_id=court.dispute_id)
        assert error["code"] == "DISPUTE_NOT_ARBITER"


def test_arbiter_accept_4_three_that_accepted_open_the_evidence() -> None:
    """Seed 000, arbiter accept 4a to 4e."""
    court = Courtroom()
    court.reveal()
    court.world.hush()
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    assert (court.case.phase, court.case.deadline) == ("evidence", court.world.now_ms + 3_600_000)
    for guest in (court.alice, court.bob):
        told = assert_sent(guest, "MSG", from_="@server", to=guest.id)
        assert "2025-10-09T09:53:20.000Z" in told["content"]
    court.world.advance(1801)
    assert court.case.phase == "evidence", "the response timeout was cleared"


@pytest.mark.parametrize("kind", ["ARBITER_ACCEPT", "ARBITER_DECLINE"])
def test_answers_come_too_late_when_the_panel_sits(kind: str) -> None:
    court = Courtroom()
    court.seat()
    (error,) = court.act(court.panel[0], kind, dispute_id=court.dispute_id)
    assert error["code"] == "DISPUTE_INVALID_PHASE"


@pytest.mark.parametrize("kind", ["ARBITER_ACCEPT", "ARBITER_DECLINE"])
def test_nobody_answers_for_another_or_about_nothing(kind: str) -> None:
    court = Courtroom()
    court.reveal()
    court.world.hush()
    one, other, _ = court.panel
    stolen = signed_step(other, kind, dispute_id=court.dispute_id)
    court.world.send(court.guests[one], kind, **stolen)
    assert_refused(court.guests[one], "INVALID_SIGNATURE")
    (error,) = court.act(one, kind, dispute_id="disp_none")
    assert error["code"] == "DISPUTE_NOT_FOUND"


# -- decline ---------------------------------------------------------------------------------------------


def test_arbiter_decline_1_3_4_and_5_another_is_asked() -> None:
    court = Courtroom(judges=6)
    court.reveal()
    court.world.hush()
    first = court.panel[0]
    order = shuffled(court.case.seed or "", court.case.pool)
    answer = court.act(first, "ARBITER_DECLINE", dispute_id=court.dispute_id, reason="a friend", ref="r")
    assert kinds(answer) == ["ACK"]
    assert court.case.slots[0].status == "declined"
    assert court.case.slots[0].decline_reason == "a friend"
    new = court.case.slots[3]
    assert new.address == order[3]
    asked = next(guest for guest in court.guests.values() if guest.id == new.address)
    assert_sent(asked, "ARBITER_ASSIGNED", dispute_id=court.dispute_id, is_replacement=True)
    assert_silent(*court.world.guests)


def test_a_decline_needs_no_signature_but_a_wrong_one_is_refused() -> None:
    court = Courtroom(judges=4)
    court.reveal()
    court.world.hush()
    guest = court.guests[court.panel[0]]
    court.world.send(guest, "ARBITER_DECLINE", dispute_id=court.dispute_id, sig="wrong")
    assert_refused(guest, "INVALID_SIGNATURE")
    court.world.send(guest, "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert_silent(guest)
    assert court.case.slots[0].status == "declined"


def test_there_is_no_limit_to_replacements_and_whoever_declined_is_not_asked_again() -> None:
    """Agentchat wire 20, row 41."""
    court = Courtroom(judges=9)
    court.reveal()
    for _ in range(6):
        court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert len({slot.arbiter for slot in court.case.slots}) == 9
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    assert court.case.phase == "evidence", "replaced slots do not count"
    assert court.report().contradictions == []


def test_a_reason_to_decline_is_short_because_it_stays_in_the_file() -> None:
    court = Courtroom(judges=6)
    court.reveal()
    court.world.hush()
    first = court.panel[0]
    (error,) = court.act(first, "ARBITER_DECLINE", dispute_id=court.dispute_id, reason="x" * 501)
    assert (error["code"], "`reason`" in error["message"]) == ("INVALID_MSG", True)
    assert first in court.panel
    court.act(first, "ARBITER_DECLINE", dispute_id=court.dispute_id, reason="x" * 500)
    assert first not in court.panel


def test_arbiter_decline_6_nobody_left_is_a_fallback_and_both_are_told() -> None:
    court = Courtroom(judges=3)
    court.reveal(stakes=(10, 20))
    court.world.hush()
    court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    for guest in (court.alice, court.bob):
        assert_sent(guest, "DISPUTE_FALLBACK", dispute_id=court.dispute_id)
    assert court.case.phase == "fallback"
    assert court.deal.frozen_by is None
    assert court.report().problems == []


def test_a_replacement_must_be_here_and_eligible_when_it_is_drawn() -> None:
    court = Courtroom(judges=5)
    court.reveal()
    gone, here = (key for key in court.judges if key not in court.panel)
    court.leave(gone)
    court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert court.case.slots[3].arbiter == here.public.raw


# -- the response timeout --------------------------------------------------------------------------------


def test_arbiter_response_timeout_1_2_and_4_who_does_not_answer_forfeits_and_the_case_falls_back() -> None:
    court = Courtroom()
    court.reveal()
    court.world.hush()
    court.act(court.panel[0], "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    court.world.advance(1799)
    assert_silent(*court.world.guests)
    court.world.advance(1)
    assert [slot.status for slot in court.case.slots] == ["accepted", "forfeited", "forfeited"]
    for guest in (court.alice, court.bob):
        assert_sent(guest, "DISPUTE_FALLBACK")
    for key in court.judges:
        assert court.world.books.standing(key.public.raw).rating == 1300, "without a verdict nobody pays"
    assert court.report().problems == []


def test_arbiter_response_timeout_3_three_that_accepted_go_on() -> None:
    court = Courtroom()
    court.seat()
    court.world.advance(1800)
    assert court.case.phase == "evidence"


# -- evidence --------------------------------------------------------------------------------------------


def test_submit_evidence_1_3_4_and_5() -> None:
    court = Courtroom()
    court.seat()
    item = {"kind": "file", "value": {"nested": 1, "kind": 2}, "hash": "mine"}
    (answer,) = court.act(
        ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[item], statement="look", ref="r"
    )
    assert (answer["type"], answer["ref"]) == ("EVIDENCE_RECEIVED", "r")
    for guest in (court.bob, *(court.guests[key] for key in court.panel)):
        assert_sent(guest, "EVIDENCE_RECEIVED", from_=court.alice.id, items_count=1, ref=ABSENT)
    kept = court.case.disputant_evidence
    assert kept is not None
    assert kept.items == (item,)
    assert kept.hashes == (item_hash(item),)
    assert court.case.phase == "evidence"


def test_submit_evidence_2_only_by_the_parties() -> None:
    court = Courtroom()
    court.seat()
    court.arrive(CAROL)
    for key in (CAROL, court.panel[0]):
        (error,) = court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
        assert error["code"] == "DISPUTE_NOT_PARTY"


def test_submit_evidence_2_only_in_its_phase() -> None:
    """Seed 000, agentcourt errors: operation on wrong dispute phase."""
    court = Courtroom()
    court.reveal()
    court.world.hush()
    (error,) = court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    assert error["code"] == "DISPUTE_INVALID_PHASE"
    court.world.advance(1801)
    court.world.hush()
    (error,) = court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    assert (court.case.phase, error["code"]) == ("fallback", "DISPUTE_INVALID_PHASE")


@pytest.mark.parametrize(
    ("fields", "field"),
    [({"items": [{}] * 11, "statement": ""}, "items"), ({"items": [], "statement": "x" * 2001}, "statement")],
)
def test_submit_evidence_2_only_so_much(fields: dict[str, Any], field: str) -> None:
    court = Courtroom()
    court.seat()
    (error,) = court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, **fields)
    assert error["code"] == "INVALID_MSG"
    assert f"`{field}`" in error["message"]


def test_evidence_after_its_deadline() -> None:
    """Seed 000, agentcourt errors: evidence deadline passed."""
    court = Courtroom()
    court.seat()
    court.world.advance(3600)
    court.world.hush()
    (error,) = court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    assert error["code"] == "DISPUTE_DEADLINE_PASSED"


def test_evidence_is_brought_once() -> None:
    court = Courtroom()
    court.seat()
    for expected in ("EVIDENCE_RECEIVED", "ERROR"):
        (answer,) = court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
        assert answer["type"] == expected
    assert answer["code"] == "DISPUTE_DEADLINE_PASSED"


def test_evidence_with_a_wrong_signature_is_refused() -> None:
    court = Courtroom()
    court.seat()
    step = signed_step(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="")
    court.world.send(court.alice, "EVIDENCE", **{**step, "items": []})
    assert_refused(court.alice, "INVALID_SIGNATURE")
    assert court.case.disputant_evidence is None


def test_evidence_that_no_store_can_keep_is_refused() -> None:
    court = Courtroom()
    court.seat()
    for text in ("\0", "\ud800"):
        (error,) = court.act(
            ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[{"value": text}], statement=""
        )
        assert error["code"] == "INVALID_MSG"


# -- the end of the evidence -----------------------------------------------------------------------------


def test_evidence_deadline_1_both_parties_end_it_at_once() -> None:
    court = Courtroom()
    court.seat()
    court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="a")
    court.world.hush()
    court.act(BOB, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="b")
    assert court.case.phase == "deliberation"
    for key in court.panel:
        assert kinds(court.guests[key].read()) == ["EVIDENCE_RECEIVED", "CASE_READY"]


def test_the_reference_waits_for_the_hour() -> None:
    """Agentchat wire 20, row 39."""
    court = Courtroom(profile="agentchat-0.36", auto_join=False)
    court.plead()
    court.world.advance(3599)
    assert_silent(*court.world.guests)
    court.world.advance(1)
    assert court.case.phase == "deliberation"


def test_evidence_deadline_1_to_4_after_an_hour_the_arbiters_get_what_there_is() -> None:
    court = Courtroom()
    court.seat()
    court.act(ALICE, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="look")
    court.world.hush()
    court.world.advance(3599)
    assert_silent(*court.world.guests)
    court.world.advance(1)
    assert court.case.phase == "deliberation"
    evidence = court.case.disputant_evidence
    assert evidence is not None
    for key in court.panel:
        assert_sent(
            court.guests[key],
            "CASE_READY",
            dispute_id=court.dispute_id,
            proposal={
                "id": court.deal_id,
                "from": court.alice.id,
                "to": court.bob.id,
                "task": "review",
                "amount": None,
                "currency": None,
            },
            disputant=court.alice.id,
            respondent=court.bob.id,
            disputant_evidence={
                "items": [{**ITEM, "hash": evidence.hashes[0]}],
                "statement": "look",
                "sig": evidence.sig,
            },
            respondent_evidence=None,
            vote_deadline=court.world.now_ms + 3_600_000,
        )
    assert_silent(*court.world.guests)


# -- fallback --------------------------------------------------------------------------------------------


def test_fallback_1_2_and_3_no_panel_no_evidence_no_vote() -> None:
    """Seed 000, fallback: both are told why, and the case is over."""
    court = Courtroom()
    court.reveal()
    court.world.hush()
    court.world.advance(1800)
    for guest in (court.alice, court.bob):
        assert assert_sent(guest, "DISPUTE_FALLBACK", proposal_id=court.deal_id)["reason"]
    arbiter, dispute = court.panel[0], {"dispute_id": court.dispute_id}
    for key, kind, fields in (
        (ALICE, "EVIDENCE", {"items": [], "statement": ""}),
        (arbiter, "ARBITER_ACCEPT", {}),
        (arbiter, "ARBITER_DECLINE", {}),
        (arbiter, "ARBITER_VOTE", {"verdict": "mutual", "reasoning": ""}),
    ):
        (error,) = court.act(key, kind, **dispute, **fields)
        assert error["code"] == "DISPUTE_INVALID_PHASE"
    assert (court.deal.status, court.deal.frozen_by) == ("accepted", None)
    for key in court.judges:
        assert_silent(court.guests[key])
