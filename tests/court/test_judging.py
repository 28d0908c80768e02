"""Votes and verdicts, over the wire with a made-up clock (seed 000, arbiter vote to force resolve)."""

from collections import Counter

import msgspec
import pytest

from moothall.court.verify import verify_case
from moothall.market.records import Curbs
from moothall.market.replay import replay
from moothall.wire.agentchat.client import Verdict
from tests.court.support import Courtroom, kinds, rated
from tests.identity.vectors import ALICE, BOB
from tests.support.cases import signed_step
from tests.support.deals import signed
from tests.support.world import assert_refused, assert_sent, assert_silent


def rating(court: Courtroom, key: object) -> int:
    return court.world.books.standing(key.public.raw).rating  # type: ignore[attr-defined]


def assert_books_hold(court: Courtroom) -> None:
    """Every point of rating is accounted for, and the audit trail rebuilds every standing."""
    books = court.world.books
    balances = books.balances()
    assert sum(balances.values()) == 0
    assert balances.get(f"escrow:{court.deal_id}", 0) == 0
    for key, standing in books.stands.items():
        assert standing.escrowed == 0
        assert standing.rating == balances[f"agent:{key.hex()}"]
    rebuilt = replay(books.audit)
    assert rebuilt.problems == []
    for key, standing in rebuilt.standings.items():
        assert standing == books.stands[key]


# -- votes -----------------------------------------------------------------------------------------------


def test_arbiter_vote_1_and_3_a_vote_is_recorded_and_nobody_else_hears_of_it() -> None:
    court = Courtroom()
    court.plead()
    first = court.panel[0]
    answer = court.act(
        first, "ARBITER_VOTE", dispute_id=court.dispute_id, verdict="disputant", reasoning="", ref="r"
    )
    assert kinds(answer) == ["ACK"]
    slot = court.case.slots[0]
    assert slot.vote is not None
    assert (slot.status, slot.vote.verdict) == ("voted", "disputant")
    assert court.case.phase == "deliberation"
    assert_silent(*court.world.guests)


def test_arbiter_vote_2_only_by_an_arbiter_that_accepted() -> None:
    court = Courtroom(judges=5)
    court.reveal()
    declined = court.panel[0]
    court.act(declined, "ARBITER_DECLINE", dispute_id=court.dispute_id)
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for key in (ALICE, BOB):
        court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    outsider = next(key for key in court.judges if key not in court.panel and key != declined)
    court.world.hush()
    for key, why in ((declined, "declined"), (outsider, "not an arbiter"), (ALICE, "not an arbiter")):
        (error,) = court.vote(key, "disputant")
        assert error["code"] == "DISPUTE_NOT_ARBITER"
        assert why in error["message"]


def test_arbiter_vote_2_only_in_deliberation() -> None:
    """Seed 000, agentcourt errors: operation on wrong dispute phase."""
    court = Courtroom()
    court.seat()
    (error,) = court.vote(court.panel[0], "disputant")
    assert error["code"] == "DISPUTE_INVALID_PHASE"
    court = Courtroom()
    court.judge("mutual", "mutual", "mutual")
    court.world.hush()
    (error,) = court.vote(court.panel[0], "disputant")
    assert error["code"] == "DISPUTE_INVALID_PHASE"


def test_an_arbiter_votes_once() -> None:
    court = Courtroom()
    court.plead()
    court.vote(court.panel[0], "disputant")
    (error,) = court.vote(court.panel[0], "respondent")
    assert error["code"] == "DISPUTE_NOT_ARBITER"


def test_a_clock_that_is_set_back_between_votes_makes_no_case_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    court = Courtroom()
    court.plead()
    time, votes = court.world.clock.time, ("disputant", "respondent", "disputant")
    for back, (key, verdict) in enumerate(zip(court.panel, votes, strict=True)):
        monkeypatch.setattr(court.world.clock, "time", lambda back=back: time() - 2 * back)
        court.vote(key, verdict)
    assert court.case.phase == "resolved"
    assert court.report().problems == []


def test_a_vote_is_signed_for_this_dispute_and_this_side() -> None:
    court = Courtroom()
    court.plead()
    key = court.panel[0]
    step = signed_step(key, "ARBITER_VOTE", dispute_id=court.dispute_id, verdict="disputant", reasoning="so")
    court.world.send(court.guests[key], "ARBITER_VOTE", **{**step, "verdict": "respondent"})
    assert_refused(court.guests[key], "INVALID_SIGNATURE")
    other = signed_step(key, "ARBITER_VOTE", dispute_id="disp_x", verdict="disputant", reasoning="so")
    court.world.send(court.guests[key], "ARBITER_VOTE", **{**other, "dispute_id": court.dispute_id})
    assert_refused(court.guests[key], "INVALID_SIGNATURE")
    (error,) = court.act(key, "ARBITER_VOTE", dispute_id="disp_x", verdict="disputant", reasoning="so")
    assert error["code"] == "DISPUTE_NOT_FOUND"


def test_reasoning_is_short() -> None:
    court = Courtroom()
    court.plead()
    (error,) = court.vote(court.panel[0], "disputant", "x" * 501)
    assert error["code"] == "INVALID_MSG"
    assert "`reasoning`" in error["message"]


def test_a_vote_in_the_last_moment_is_too_late() -> None:
    court = Courtroom()
    court.plead()
    court.world.clock.move_to(court.world.clock.monotonic() + 3600)  # the hall has not woken up yet
    (error,) = court.vote(court.panel[0], "disputant")
    assert error["code"] == "DISPUTE_DEADLINE_PASSED"


# -- the verdict -----------------------------------------------------------------------------------------


def test_arbiter_vote_4_the_last_vote_is_the_verdict_and_everybody_hears_it() -> None:
    """Seed 000, arbiter vote 4a, 4c, 4d, and verdict; agentchat wire 13.7."""
    court = Courtroom(judges=4)
    court.reveal(stakes=(30, 20))
    declined = court.panel[0]
    court.act(declined, "ARBITER_DECLINE", dispute_id=court.dispute_id)
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for key in (ALICE, BOB):
        court.act(key, "EVIDENCE", dispute_id=court.dispute_id, items=[], statement="")
    one, two, three = court.panel
    court.vote(three, "respondent", "third")
    court.vote(one, "disputant", "first")
    court.world.hush()
    answer = court.act(
        two, "ARBITER_VOTE", dispute_id=court.dispute_id, verdict="disputant", reasoning="second", ref="r"
    )
    assert kinds(answer) == ["VERDICT", "SETTLEMENT_COMPLETE", "ACK"]
    verdict, settlement, _ = answer
    ids = {key: court.guests[key].id for key in court.panel}
    assert verdict["verdict"] == "disputant"
    assert verdict["resolved_at"] == court.world.now_ms
    assert verdict["votes"] == [
        {"arbiter": ids[three], "verdict": "respondent", "reasoning": "third"},
        {"arbiter": ids[one], "verdict": "disputant", "reasoning": "first"},
        {"arbiter": ids[two], "verdict": "disputant", "reasoning": "second"},
    ]
    assert verdict["arbiter_results"] == [
        {"arbiter": ids[one], "verdict": "disputant", "reasoning": "first", "reward": 5},
        {"arbiter": ids[two], "verdict": "disputant", "reasoning": "second", "reward": 5},
        {"arbiter": ids[three], "verdict": "respondent", "reasoning": "third", "reward": 0},
    ]
    changes = settlement["rating_changes"]
    assert {who: change["change"] for who, change in changes.items() if who != "_escrow"} == {
        court.alice.id: 4 + 20,
        court.bob.id: -8 - 20,
        ids[one]: 5,
        ids[two]: 5,
        ids[three]: 0,
    }
    assert changes["_escrow"] == {
        "proposer_stake": 30,
        "acceptor_stake": 20,
        "settlement": "transferred",
        "transferred_to": court.alice.id,
        "transferred_amount": 20,
    }
    for key in (ALICE, BOB, one, three, declined):
        assert_sent(court.guests[key], "VERDICT", verdict="disputant")
        assert_sent(court.guests[key], "SETTLEMENT_COMPLETE", rating_changes=changes)
    assert court.case.phase == "resolved"
    assert (court.deal.status, court.deal.frozen_by) == ("disputed", None)
    assert_books_hold(court)
    assert court.report().problems == []


def test_arbiter_vote_4b_three_different_votes_are_mutual_and_both_stakes_burn() -> None:
    court = Courtroom()
    court.judge("disputant", "respondent", "mutual", stakes=(30, 20))
    settlement = assert_sent(court.alice, "VERDICT", verdict="mutual") and court.alice.next()
    assert settlement["rating_changes"]["_escrow"] == {
        "proposer_stake": 30,
        "acceptor_stake": 20,
        "settlement": "burned",
        "burned_amount": 50,
    }
    assert (rating(court, ALICE), rating(court, BOB)) == (1200 - 8 - 30, 1200 - 8 - 20)
    assert_books_hold(court)


@pytest.mark.parametrize(
    ("votes", "expected", "parties", "arbiters"),
    [
        (("respondent", "respondent", "disputant"), "respondent", (-8 - 30, 4 + 30), (5, 5, 0)),
        (("disputant", "disputant", "disputant"), "disputant", (4 + 20, -8 - 20), (5, 5, 5)),
        (("disputant", "disputant"), "disputant", (4 + 20, -8 - 20), (5, 5, -25)),
        (("disputant", "respondent"), "mutual", (-8 - 30, -8 - 20), (0, 0, -25)),
        (("disputant",), "mutual", (-8 - 30, -8 - 20), (0, -25, -25)),
        (("mutual",), "mutual", (-8 - 30, -8 - 20), (5, -25, -25)),
        ((), "mutual", (-8 - 30, -8 - 20), (-25, -25, -25)),
    ],
)
def test_verdicts_settle_ratings_stakes_rewards_and_forfeits(
    votes: tuple[Verdict, ...], expected: str, parties: tuple[int, int], arbiters: tuple[int, int, int]
) -> None:
    """Seed 000, verdict and force resolve 1 to 5: after an hour who has not voted forfeits 25."""
    court = Courtroom()
    court.judge(*votes, stakes=(30, 20))
    assert court.case.verdict == expected
    assert_sent(court.bob, "VERDICT", verdict=expected)
    assert_sent(court.bob, "SETTLEMENT_COMPLETE", verdict=expected)
    assert rating(court, ALICE) - 1200 == parties[0]
    assert rating(court, BOB) - 1200 == parties[1]
    assert tuple(rating(court, key) - 1300 for key in court.panel) == arbiters
    assert court.deal.status == "disputed"
    assert_books_hold(court)
    assert court.report().problems == []


def test_a_verdict_settles_once_and_ends_the_deal() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant", stakes=(10, 10))
    court.world.hush()
    before = dict(court.world.books.stands)
    court.world.advance(100_000)
    for kind, fields in (("COMPLETE", {}), ("DISPUTE", {"reason": "again"})):
        court.world.send(court.bob, kind, **signed(BOB, kind, proposal_id=court.deal_id, **fields))
        assert_refused(court.bob, "INVALID_PROPOSAL", "PROPOSAL_NOT_ACCEPTED")
    assert court.world.books.stands == before
    operations = Counter(row.operation for row in court.world.books.audit)
    assert operations["verdict"] == 1


def test_the_floor_holds_for_arbiters_too() -> None:
    court = Courtroom()
    court.plead()
    rated(court.world.books, court.panel[2], rating=110)
    for key in court.panel[:2]:
        court.vote(key, "disputant")
    court.world.advance(3601)
    assert rating(court, court.panel[2]) == 100
    assert_books_hold(court)
    assert court.report().problems == []


def test_the_skill_of_the_deal_moves_for_the_parties_and_not_for_the_arbiters() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant", capability="review")
    assert court.world.books.standing(BOB.public.raw).skills["review"].rating == 1192
    for key in court.panel:
        assert court.world.books.standing(key.public.raw).skills == {}


def test_integrations_hear_of_the_verdict() -> None:
    """Agentchat wire 12.10."""
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant")
    event = court.world.books.events[f"{court.deal_id}/settlement:verdict"]
    body = msgspec.json.decode(event.body)
    assert (body["dispute_id"], body["verdict"]) == (court.dispute_id, "disputant")
    assert body["rating_changes"][court.bob.id]["change"] == -8


def test_every_decision_leaves_one_audit_row() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant")
    story = [row.operation for row in court.world.books.audit]
    assert story == [
        "propose",
        "accept",
        "dispute_intent",
        "dispute_reveal",
        "arbiter_accept",
        "arbiter_accept",
        "arbiter_accept",
        "evidence",
        "evidence",
        "arbiter_vote",
        "arbiter_vote",
        "verdict",
    ]


# -- rules against farming ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", ["disputant", "respondent"])
def test_a_newcomer_loses_all_and_the_winner_gets_what_the_cap_leaves(verdict: Verdict) -> None:
    """With arbiters of its own, an attacker could have any verdict."""
    court = Courtroom()
    winner, loser = (ALICE, BOB) if verdict == "disputant" else (BOB, ALICE)
    court.judge(verdict, verdict, verdict, stakes=(1000, 1000))
    assert (rating(court, winner), rating(court, loser)) == (1300, 192)
    assert court.world.books.standing(loser.public.raw).curbs.conceded == 100
    settlement = court.file_of()["settlement"]
    assert settlement["transfer"] == {"due": 1004, "paid": 100, "left": 100, "room": 100}
    won = settlement["shares"][0 if verdict == "disputant" else 1]
    assert (won["earned"], won["awarded"], won["withheld"]) == (4, 1096, 904)
    assert (settlement["stakes"]["amount"], settlement["stakes"]["burned"]) == (96, 904)
    assert court.report().problems == []
    assert_books_hold(court)


def test_the_notice_says_what_was_burned() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant", stakes=(0, 1000))
    told = next(message for message in court.alice.read() if message["type"] == "SETTLEMENT_COMPLETE")
    assert told["rating_changes"][court.alice.id]["withheld"] == 904
    assert told["rating_changes"]["_escrow"]["burned_amount"] == 904


def test_more_than_the_rules_leave_does_not_verify() -> None:
    court = Courtroom()
    court.judge("disputant", "disputant", "disputant", stakes=(0, 1000))
    forged = court.file_of()
    forged["settlement"]["transfer"]["paid"] += 500
    assert any("rules against farming" in problem for problem in verify_case(forged).problems)


def test_an_arbiter_whose_rating_grew_too_fast_gets_nothing_and_the_case_verifies() -> None:
    court = Courtroom()
    court.plead()
    books = court.world.books
    first, *others = court.panel
    standing = books.standing(first.public.raw)
    full = msgspec.structs.replace(standing, curbs=Curbs(drained_at=court.world.now_ms + 10**9))
    books.stands[first.public.raw] = full
    for key in (first, *others):
        court.vote(key, "disputant")
    assert rating(court, first) == standing.rating
    assert rating(court, others[0]) == standing.rating + 5
    shares = court.file_of()["settlement"]["shares"]
    assert [(share["earned"], share.get("withheld", 0)) for share in shares[2:]] == [(0, 5), (5, 0), (5, 0)]
    assert court.report().problems == []
