"""What a newcomer can lose to others, how wins against newcomers diminish, and how fast a rating can grow."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity import PrivateKey
from moothall.market import curbs, ledger
from moothall.market.curbs import NEWCOMER_DEALS, WINS_WINDOW, payable
from moothall.market.rating_rules import RatingRules
from moothall.market.records import Curbs, Standing
from moothall.market.replay import replay
from moothall.market.rules import MarketRules
from tests.identity.vectors import ALICE, BOB, CAROL, VECTORS
from tests.market.support import Market, address, frame_of

HOUR = 3_600_000
CAPPED = RatingRules(newcomer_cap=100)
LIMITED = RatingRules(gain_limit=100, gain_window=4_000_000)
BOTH = RatingRules(newcomer_cap=100, gain_limit=100, gain_window=4_000_000)


def fresh(number: int) -> PrivateKey:
    return PrivateKey(number.to_bytes(32, "big"))


def won_from(market: Market, loser: PrivateKey, stake: int, winner: PrivateKey = ALICE) -> dict[str, Any]:
    """The loser stakes so much, and the winner disputes; what both are told."""
    market.propose(loser, winner, elo_stake=stake)
    deal = next(reversed(market.books.deals))
    market.accept(winner, deal)
    return frame_of(market.dispute(winner, deal).notices[0].news)


def assert_books_balance(market: Market) -> None:
    balances = market.books.balances()
    assert sum(balances.values()) == 0
    for key, standing in market.books.stands.items():
        assert balances[ledger.agent_account(key)] == standing.rating
    again = replay(market.books.audit)
    assert again.problems == []
    assert again.standings == {
        key: msgspec.structs.replace(standing, skills={}) for key, standing in market.books.stands.items()
    }


# -- the cap -------------------------------------------------------------------------------------------


def test_a_fresh_key_loses_all_it_staked_and_its_owner_gets_a_hundred() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    told = won_from(market, BOB, 1100)
    assert (market.rating(ALICE), market.rating(BOB)) == (1300, 100)
    assert told["rating_changes"][address(ALICE)] == {
        "oldRating": 1200,
        "newRating": 1300,
        "change": 100,
        "transactions": 1,
        "withheld": 1008,
    }
    assert told["rating_changes"][address(BOB)]["change"] == -1116
    assert told["rating_changes"]["_escrow"] == {
        "proposer_stake": 1100,
        "acceptor_stake": 0,
        "settlement": "transferred",
        "transferred_to": address(ALICE),
        "transferred_amount": 92,
        "burned_amount": 1008,
    }
    assert market.books.balances()[ledger.BURN] == 1008 + 8  # and half of the loss, as ever
    assert_books_balance(market)


def test_the_cap_is_for_all_its_deals_together_and_for_the_tenth_too() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    got = 0
    for deal in range(NEWCOMER_DEALS):
        winner = fresh(100 + deal)
        before = market.rating(winner)
        won_from(market, BOB, 30, winner)
        got += market.rating(winner) - before
    assert got == 100
    assert market.standing(BOB).curbs.conceded == 100
    assert market.standing(BOB).transactions == NEWCOMER_DEALS
    before = market.rating(CAROL)
    told = won_from(market, BOB, 300, CAROL)
    assert market.rating(CAROL) - before > 300
    assert "withheld" not in told["rating_changes"][address(CAROL)]
    assert_books_balance(market)


def test_completions_are_unchanged_and_count_as_settled_deals() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    plain = Market()
    for each in (market, plain):
        for deal in range(NEWCOMER_DEALS):
            each.propose(ALICE, BOB)
            each.accept(BOB, f"prop_{deal + 1}")
            each.complete(BOB, f"prop_{deal + 1}")
        won_from(each, BOB, 500)
    assert market.books.stands == plain.books.stands


@pytest.mark.parametrize("vector", VECTORS["elo_dispute"])
def test_the_vectors_hold_with_the_rules_on(vector: dict[str, Any]) -> None:
    """Ordinary disputes are not touched: none of these moves more than a hundred points."""
    rules = msgspec.structs.replace(BOTH, amount_weighting=True)
    market = Market(MarketRules(ratings=rules))
    market.rated(ALICE, **vector["from"])
    market.rated(BOB, **vector["to"])
    market.propose(ALICE, BOB, amount=vector["amount"], elo_stake=vector["stakes"]["proposer"])
    market.accept(BOB, elo_stake=vector["stakes"]["acceptor"])
    market.dispute(ALICE if vector["disputed_by"] == "from" else BOB)
    assert [market.rating(ALICE), market.rating(BOB)] == vector["new_rating"]


def test_zero_is_off() -> None:
    market = Market()
    won_from(market, BOB, 1100)
    assert market.rating(ALICE) == 1200 + 1100 + 8
    assert market.standing(BOB).curbs == market.standing(ALICE).curbs == Curbs()


# -- wins against newcomers ------------------------------------------------------------------------------


def test_the_nth_win_against_a_newcomer_brings_one_nth() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    gains = []
    for number in range(4):
        before = market.rating(ALICE)
        won_from(market, fresh(number + 1), 1100)
        gains.append(market.rating(ALICE) - before)
    assert gains == [100, 50, 33, 25]
    assert market.standing(ALICE).curbs.newcomer_wins == 4
    assert_books_balance(market)


def test_the_window_begins_with_the_first_win_and_ends_a_day_later() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    begun = market.now
    won_from(market, fresh(1), 1100)
    market.now = begun + WINS_WINDOW - 1
    won_from(market, fresh(2), 1100)
    assert market.standing(ALICE).curbs == Curbs(newcomer_wins=2, wins_since=begun)
    market.now = begun + WINS_WINDOW
    before = market.rating(ALICE)
    won_from(market, fresh(3), 1100)
    assert market.rating(ALICE) - before == 100
    assert market.standing(ALICE).curbs == Curbs(newcomer_wins=1, wins_since=market.now)


def test_wins_against_others_do_not_count() -> None:
    market = Market(MarketRules(ratings=CAPPED))
    market.rated(BOB, rating=2000, transactions=NEWCOMER_DEALS)
    won_from(market, BOB, 300)
    won_from(market, BOB, 300)
    assert market.rating(ALICE) > 1800
    assert market.standing(ALICE).curbs == Curbs()


# -- how fast a rating can grow --------------------------------------------------------------------------


def complete(market: Market, one: PrivateKey = ALICE, other: PrivateKey = BOB) -> dict[str, Any]:
    market.propose(one, other)
    deal = next(reversed(market.books.deals))
    market.accept(other, deal)
    return frame_of(market.complete(other, deal).notices[0].news)


def test_completions_pay_until_the_bucket_is_full_and_again_as_it_drains() -> None:
    market = Market(MarketRules(ratings=LIMITED))
    plain = Market()
    for _ in range(12):
        assert complete(market)["rating_changes"] == complete(plain)["rating_changes"]
    told = complete(market)
    assert told["rating_changes"][address(ALICE)]["withheld"] == 4
    assert market.rating(ALICE) == 1300
    assert complete(market)["rating_changes"][address(ALICE)]["change"] == 0
    market.now += 40_000 * 5
    complete(market)
    assert market.rating(ALICE) == 1305
    assert_books_balance(market)


def test_a_transfer_from_an_established_key_is_held_to_it_too() -> None:
    """Ten deals with one's own keys are made in seconds, so being established proves nothing."""
    market = Market(MarketRules(ratings=LIMITED))
    market.rated(BOB, rating=1200, transactions=NEWCOMER_DEALS)
    told = won_from(market, BOB, 1100)
    assert market.rating(ALICE) == 1300
    assert told["rating_changes"]["_escrow"]["burned_amount"] == 1008
    won_from(market, BOB, 0)
    assert market.rating(ALICE) == 1300
    assert_books_balance(market)


def test_a_stake_of_ones_own_comes_back_whatever_the_limit() -> None:
    market = Market(MarketRules(ratings=LIMITED))
    market.rated(ALICE, rating=3000, transactions=50, curbs=Curbs(drained_at=market.now + 10**9))
    market.propose(ALICE, BOB, elo_stake=900)
    market.accept(BOB, elo_stake=50)
    market.dispute(ALICE)
    assert market.rating(ALICE) == 3000
    assert market.standing(ALICE).escrowed == 0
    assert_books_balance(market)


def test_clients_on_this_machine_have_so_many_times_more() -> None:
    rules = RatingRules(gain_limit=100, gain_window=4_000_000, loopback_factor=100).in_hall(b"here".__eq__)
    here, elsewhere = Standing(key=b"here"), Standing(key=b"elsewhere")
    assert curbs.room_of(here, 0, rules) == 10_000
    assert curbs.room_of(elsewhere, 0, rules) == 100
    used = msgspec.structs.replace(here, curbs=curbs.gained(here, 4000, 0, rules))
    assert curbs.room_of(used, 0, rules) == 6000


gains = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 2 * HOUR)), max_size=60)


@given(gains, st.integers(1, 500), st.integers(1, 2 * HOUR))
def test_no_window_ever_brings_more_than_the_bucket_and_what_drained(
    asked: list[tuple[int, int]], limit: int, window: int
) -> None:
    rules = RatingRules(gain_limit=limit, gain_window=window)
    standing = Standing(key=b"k")
    now = 1_000_000
    paid: list[tuple[int, int]] = []
    for points, pause in asked:
        now += pause
        got = curbs.allowed(points, standing, now, rules)
        assert 0 <= got <= points
        standing = msgspec.structs.replace(standing, curbs=curbs.gained(standing, got, now, rules))
        paid.append((now, got))
    for first in range(len(paid)):
        total = 0
        for at, got in paid[first:]:
            total += got
            assert total <= limit + (at - paid[first][0]) * limit / window + 1e-6


def test_a_loss_is_never_less() -> None:
    standing = Standing(key=b"k", curbs=Curbs(drained_at=10**15))
    assert curbs.allowed(-25, standing, 1, LIMITED) == -25
    assert curbs.gained(standing, -25, 1, LIMITED) is standing.curbs


def test_a_clock_that_is_set_back_gives_nothing() -> None:
    standing = Standing(key=b"k", curbs=Curbs(drained_at=10**12))
    assert curbs.room_of(standing, 5, LIMITED) == 0


# -- what is paid -----------------------------------------------------------------------------------------

whole = st.integers(0, 5000)


@given(whole, st.none() | whole, st.integers(1, 100), st.none() | whole)
def test_the_rules_only_ever_take_away(due: int, left: int | None, nth: int, room: int | None) -> None:
    paid = payable(due, left, nth, room)
    assert 0 <= paid <= due
    if left is not None:
        assert paid <= left
    if room is not None:
        assert paid <= room
    if left is None and room is None:
        assert paid == due


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1100), st.booleans()), max_size=25
    )
)
def test_whatever_happens_the_books_balance_and_the_audit_trail_replays(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    market = Market(MarketRules(ratings=BOTH))
    agents = [fresh(number + 1) for number in range(4)]
    for one, other, stake, disputed in steps:
        if one == other:
            continue
        proposer, recipient = agents[one], agents[other]
        market.propose(proposer, recipient, elo_stake=min(stake, market.rating(proposer) - 100))
        deal = next(reversed(market.books.deals))
        market.accept(recipient, deal)
        end = market.dispute if disputed else market.complete
        end(recipient, deal)
        market.now += 60_000
    for agent in agents:
        assert market.standing(agent).curbs.conceded <= 100
    assert_books_balance(market)
