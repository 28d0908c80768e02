"""Which agents of the pool are asked: the pool of the intent, in the order of the seed."""

import itertools
import json
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from moothall.court.panel import MAX_POOL, PANEL_SIZE, pool_hash_of, seed_of, shuffled
from moothall.court.records import Dispute, Skipped
from moothall.court.seating import Unfit, seat
from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.market.records import Proposal
from tests.court.support import ITEM, Courtroom, draw_panel, rated
from tests.identity.vectors import ALICE, BOB
from tests.support.cases import ARBITERS, COMMITMENT, NONCE
from tests.support.deals import signed
from tests.support.seals import HALL_ID

HONEST = tuple(PrivateKey(sha256(f"honest {number}".encode()).digest()) for number in range(40))
SYBILS = tuple(PrivateKey(sha256(f"sybil {number}".encode()).digest()) for number in range(14))


def filed(court: Courtroom) -> dict[str, Any]:
    court.agree()
    step = {"proposal_id": court.deal_id, "reason": "nothing came", "commitment": COMMITMENT}
    (answer,) = court.act(ALICE, "DISPUTE_INTENT", **step)
    court.dispute_id = answer["dispute_id"]
    court.world.hush()
    return answer


def revealed(court: Courtroom) -> dict[str, Any]:
    answers = court.act(ALICE, "DISPUTE_REVEAL", proposal_id=court.deal_id, nonce=NONCE)
    return answers[0]


def come(court: Courtroom, *keys: PrivateKey) -> None:
    for key in keys:
        rated(court.world.books, key)
        court.arrive(key)


# -- the pool is that of the intent --------------------------------------------------------------------


def test_the_answer_to_the_intent_commits_to_the_pool() -> None:
    court = Courtroom(judges=5)
    answer = filed(court)
    ids = sorted(court.guests[key].id for key in court.judges)
    assert answer["pool_hash"] == pool_hash_of(ids)
    formed = revealed(court)
    assert formed["pool"] == ids
    assert formed["skipped"] == []
    assert list(court.case.pool_keys) == [
        next(key.public.raw for key in court.judges if court.guests[key].id == each) for each in ids
    ]


def test_who_comes_after_the_intent_is_not_drawn() -> None:
    court = Courtroom(judges=3)
    filed(court)
    come(court, *ARBITERS[3:12])
    formed = revealed(court)
    assert (
        sorted(formed["arbiters"]) == formed["pool"] == sorted(court.guests[key].id for key in ARBITERS[:3])
    )


def test_who_goes_after_the_intent_is_passed_over_and_the_file_says_why() -> None:
    court = Courtroom(judges=8)
    filed(court)
    pool = court.case.pool
    order = shuffled(seed_of(court.deal_id, NONCE, court.case.server_nonce), pool)
    keys = {court.guests[key].id: key for key in court.judges}
    court.leave(keys[order[0]])
    court.world.send(court.guests[keys[order[2]]], "SET_PRESENCE", status="away")
    rated(court.world.books, keys[order[3]], rating=1199)
    formed = revealed(court)
    assert formed["pool"] == list(pool)
    assert formed["skipped"] == [order[0], order[2], order[3]]
    assert formed["arbiters"] == [order[1], order[4], order[5]]
    assert [(each.address, each.why) for each in court.case.skipped] == [
        (order[0], "absent"),
        (order[2], "absent"),
        (order[3], "not_eligible"),
    ]
    assert court.report().contradictions == []
    court.arrive(keys[order[0]])
    court.act(keys[order[1]], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert court.case.slots[3].address == order[6], "who was passed over is not asked later"
    assert court.report().contradictions == []


def test_replacements_continue_down_the_same_order_until_no_agent_is_left() -> None:
    court = Courtroom(judges=6)
    filed(court)
    formed = revealed(court)
    order = shuffled(formed["seed"], formed["pool"])
    keys = {court.guests[key].id: key for key in court.judges}
    court.leave(keys[order[4]])
    for number in range(3):
        assert court.case.phase == "arbiter_response"
        court.act(keys[order[number]], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    assert [slot.address for slot in court.case.slots] == [*order[:4], order[5]]
    assert [each.address for each in court.case.skipped] == [order[4]]
    assert court.case.phase == "fallback"
    assert court.report().contradictions == []


def test_fewer_than_three_that_are_still_eligible_are_a_fallback() -> None:
    court = Courtroom(judges=4)
    filed(court)
    for key in court.judges[:2]:
        court.leave(key)
    come(court, *ARBITERS[4:9])
    assert revealed(court)["type"] == "DISPUTE_FALLBACK"
    assert len(court.case.skipped) == 2
    assert court.case.slots == ()
    assert court.report().contradictions == []


def test_a_second_intent_draws_no_other_pool() -> None:
    court = Courtroom(judges=4)
    filed(court)
    before = court.case
    court.leave(court.judges[0])
    step = {"proposal_id": court.deal_id, "reason": "again", "commitment": COMMITMENT}
    (error,) = court.act(ALICE, "DISPUTE_INTENT", **step)
    assert error["code"] == "DISPUTE_ALREADY_EXISTS"
    assert court.case == before


# -- a large hall --------------------------------------------------------------------------------------


def test_of_many_eligible_agents_the_halls_nonce_picks_the_pool() -> None:
    court = Courtroom(judges=0)
    many = [PrivateKey(sha256(f"many {number}".encode()).digest()) for number in range(MAX_POOL + 60)]
    come(court, *many)
    pools = []
    for _ in range(2):
        filed(court)
        assert len(court.case.pool) == MAX_POOL
        assert list(court.case.pool) == sorted(court.case.pool)
        pools.append(set(court.case.pool))
        revealed(court)
        assert court.report().contradictions == []
    assert pools[0] != pools[1]


def test_no_more_standings_are_looked_up_than_a_pool_needs() -> None:
    court = Courtroom(judges=0)
    come(court, *(PrivateKey(sha256(f"many {number}".encode()).digest()) for number in range(600)))
    court.agree()
    books, asked = court.world.books, []
    qualified = books.qualified

    def watched(keys: Any, rating: int, transactions: int) -> Any:
        asked.append(len(keys))
        return qualified(keys, rating, transactions)

    books.qualified = watched  # type: ignore[method-assign]
    step = {"proposal_id": court.deal_id, "reason": "nothing came", "commitment": COMMITMENT}
    court.act(BOB, "DISPUTE_INTENT", **{**step, "proposal_id": "prop_none"})
    court.arrive(HONEST[0])
    court.act(HONEST[0], "DISPUTE_INTENT", **step)
    assert asked == [], "who may not file costs no pool"
    court.act(ALICE, "DISPUTE_INTENT", **step)
    assert asked == [256]


# -- what an operator may ask for besides ----------------------------------------------------------------


def complete_deal(court: Courtroom, proposer: PrivateKey, recipient: PrivateKey) -> None:
    one, other = court.guests[proposer], court.guests[recipient]
    court.world.send(one, "PROPOSAL", **signed(proposer, "PROPOSAL", to=other.id, task="it"))
    deal = next(message for message in one.read() if message["type"] == "PROPOSAL")["id"]
    court.world.send(other, "ACCEPT", **signed(recipient, "ACCEPT", proposal_id=deal))
    court.world.send(one, "COMPLETE", **signed(proposer, "COMPLETE", proposal_id=deal))
    court.world.hush()


def test_only_approved_keys_are_drawn_where_the_operator_asks_for_it() -> None:
    court = Courtroom(
        judges=6, allowlist=True, allowlist_strict=False, court_arbiters_approved=True, approved=ARBITERS[:4]
    )
    filed(court)
    assert list(court.case.pool) == sorted(court.guests[key].id for key in ARBITERS[:4])
    court.world.hall.allowlist.revoke(pubkey=ARBITERS[0].public.pem, agent_id=None)
    formed = revealed(court)
    assert court.guests[ARBITERS[0]].id not in formed["arbiters"]


def test_only_agents_with_enough_counterparties_and_age_are_drawn_where_the_operator_asks_for_it() -> None:
    court = Courtroom(judges=6, court_arbiter_counterparties=2, court_arbiter_age=60)
    old, young = ARBITERS[:4], ARBITERS[4:6]
    for number, key in enumerate(old):
        complete_deal(court, key, old[number - 1])
    court.world.advance(60)
    for _ in range(3):
        complete_deal(court, *young)
    complete_deal(court, old[0], young[0])
    filed(court)
    assert list(court.case.pool) == sorted(court.guests[key].id for key in old)
    court.world.advance(60)
    filed(court)
    expected = (*old, young[0])  # the other one has dealt with one agent only
    assert list(court.case.pool) == sorted(court.guests[key].id for key in expected)


# -- an attacker with agents of its own ----------------------------------------------------------------


def best_subset(dice: Random, seed: str, honest: list[str], own: list[str]) -> list[str]:
    """Which of its agents an attacker keeps present, if the pool were taken at the reveal."""
    tried = [dice.sample(own, dice.randint(3, len(own))) for _ in range(500)]
    return max(tried, key=lambda some: len(set(draw_panel(seed, sorted([*honest, *some]))) & set(some)))


def test_a_disputant_cannot_choose_its_panel_by_who_is_present() -> None:
    """14 agents of its own among 40 others once made it a panel of 3 of 3: it knew the seed before the pool was
    taken, and let those of its agents be present that the seed favours."""
    court = Courtroom(judges=0)
    come(court, *HONEST, *SYBILS)
    honest = [court.guests[key].id for key in HONEST]
    own = {court.guests[key].id: key for key in SYBILS}
    dice = Random(11)  # noqa: S311  # a story, not a secret
    wished, seated = [], []
    for _ in range(5):
        answer = filed(court)
        seed = seed_of(court.deal_id, NONCE, answer["server_nonce"])
        fair = draw_panel(seed, sorted([*honest, *own]))
        kept = best_subset(dice, seed, honest, list(own))
        for address, key in own.items():
            if address not in kept:
                court.leave(key)
        formed = revealed(court)
        assert set(fair) - set(own) <= set(formed["arbiters"])
        assert len(set(formed["arbiters"]) & set(own)) <= len(set(fair) & set(own))
        wished.append(len(set(draw_panel(seed, sorted([*honest, *kept]))) & set(own)))
        seated.append(len(set(formed["arbiters"]) & set(own)))
        for key in SYBILS:
            if key not in court.guests:
                court.arrive(key)
    assert max(wished) == PANEL_SIZE, "the attack would work"
    assert sum(seated) < sum(wished) / 2


SCHEMES = ("stay", "all go", "those not drawn go", "those drawn go", "any go", "decline", "any decline")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_share_of_the_panel_is_the_share_of_the_pool_at_most(scheme: str) -> None:
    """Whatever its agents do between the intent and the last seat, on the average of 3,000 cases."""
    dice = Random(f"sybils {scheme}")  # noqa: S311  # a story, not a secret
    own = {f"@sybil{number:02d}" for number in range(14)}
    pool = tuple(sorted({*own, *(f"@honest{number:02d}" for number in range(40))}))
    seats = 0
    trials = 3000
    for _ in range(trials):
        case = new_case(pool, dice)
        drawn = set(draw_panel(case.seed or "", pool))
        gone = {
            each
            for each in sorted(own)
            if scheme == "all go"
            or (scheme == "those not drawn go" and each not in drawn)
            or (scheme == "those drawn go" and each in drawn)
            or (scheme == "any go" and dice.random() < 0.5)
        }
        seats += len(own & final_panel(case, own, gone, scheme, dice))
    share = seats / (trials * PANEL_SIZE)
    # 9,000 seats: three standard deviations are 0.014.
    assert share <= len(own) / len(pool) + 0.014
    if scheme == "stay":
        assert share >= len(own) / len(pool) - 0.014


def new_case(pool: tuple[str, ...], dice: Random) -> Dispute:
    return Dispute(
        id="disp_1",
        proposal_id="prop_1",
        disputant=b"a",
        respondent=b"b",
        disputant_address="@a",
        respondent_address="@b",
        reason="",
        commitment="",
        intent_sig="",
        server_nonce="",
        deadline=None,
        filed_at=0,
        pool=pool,
        pool_keys=tuple(address.encode() for address in pool),
        pool_hash=pool_hash_of(pool),
        seed=dice.randbytes(32).hex(),
    )


def absent(gone: set[str]) -> Unfit:
    return lambda _: dict.fromkeys(gone, "absent")


def final_panel(case: Dispute, own: set[str], gone: set[str], scheme: str, dice: Random) -> set[str]:
    case, slots = seat(case, PANEL_SIZE, absent(gone), 1)
    panel = {slot.address for slot in slots}
    waiting = sorted(panel & own)
    while waiting:
        each = waiting.pop()
        if scheme == "decline" or (scheme == "any decline" and dice.random() < 0.5):
            back = {other for other in gone if dice.random() < 0.5}  # some come back meanwhile
            case, slots = seat(case, 1, absent(gone - back), 1)
            panel = (panel - {each}) | {slot.address for slot in slots}
            waiting += [slot.address for slot in slots if slot.address in own]
    return panel


def test_a_walk_that_finds_too_few_seats_none_and_keeps_whom_it_passed_over() -> None:
    case = new_case(("@x", "@y", "@z"), Random(1))  # noqa: S311  # a story, not a secret
    after, slots = seat(case, PANEL_SIZE, lambda _: {"@y": "not_eligible"}, 7)
    assert slots == after.slots == ()
    assert after.skipped == (Skipped(address="@y", why="not_eligible", at=7),)


# -- cases from before ---------------------------------------------------------------------------------

OLD: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "court_format_1.json").read_text())


def resumed(name: str, judges: int = 6) -> Courtroom:
    """A hall with an open case in its books as an older hall has left it."""
    court = Courtroom(judges=judges)
    case = msgspec.convert(OLD[name]["case"], Dispute)
    deal = msgspec.convert(OLD[name]["deal"], Proposal)
    court.world.books.records[case.id] = msgspec.json.encode(OLD[name]["case"])
    court.world.books.by_deal[case.proposal_id] = [case.id]
    court.world.books.deals[deal.id] = deal
    court.deal_id, court.dispute_id = deal.id, case.id
    return court


@pytest.mark.parametrize("name", list(OLD))
def test_an_old_file_still_verifies(name: str) -> None:
    proof = verify_case(OLD[name]["file"], [HALL_ID])
    assert proof.contradictions == []
    closed = OLD[name]["file"]["phase"] in ("resolved", "fallback")
    assert proof.unproven == [
        "`hall_sig`: there is no hall signature."
        if closed
        else "`phase`: the case is open, and the hall signs it when it is closed."
    ]


@pytest.mark.parametrize("name", list(OLD))
def test_an_old_record_is_shown_as_an_old_file_and_verifies(name: str) -> None:
    court = resumed(name)
    shown = court.file_of()
    assert shown["format"] == 1
    assert verify_case(shown).contradictions == []
    assert shown["deal"].items() >= OLD[name]["file"]["deal"].items()
    shown["deal"] = OLD[name]["file"]["deal"]
    assert {field: shown[field] for field in OLD[name]["file"]} == OLD[name]["file"]


def test_a_case_that_was_filed_before_takes_its_pool_at_the_reveal() -> None:
    court = resumed("filed")
    formed = revealed(court)
    assert formed["type"] == "PANEL_FORMED"
    assert formed["arbiters"] == draw_panel(formed["seed"], formed["pool"])
    finish(court)


def test_a_case_with_an_old_replacement_continues_down_the_first_order() -> None:
    court = resumed("replaced")
    first = court.case
    order = shuffled(first.seed or "", first.pool)
    court.act(court.panel[0], "ARBITER_DECLINE", dispute_id=court.dispute_id)
    had = {slot.address for slot in first.slots}
    assert court.case.slots[4].address == next(each for each in order if each not in had)
    finish(court)


def finish(court: Courtroom) -> None:
    assert court.report().contradictions == []
    for key in court.panel:
        court.act(key, "ARBITER_ACCEPT", dispute_id=court.dispute_id)
    for party in (ALICE, BOB):
        court.act(party, "EVIDENCE", dispute_id=court.dispute_id, items=[ITEM], statement="see")
    for key, verdict in zip(court.panel, itertools.repeat("mutual"), strict=False):
        court.vote(key, verdict)
    assert court.case.phase == "resolved"
    assert court.report().holds
