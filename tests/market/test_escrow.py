"""Stakes: what can be staked, and where it goes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InsufficientReputation, InvalidStake
from moothall.market import escrow, ledger
from moothall.market.movement import Share
from moothall.market.records import Proposal, Standing
from moothall.market.settlement import settle
from tests.identity.vectors import ALICE, BOB

A, B = ALICE.public.raw, BOB.public.raw
stakes = st.integers(0, 3000)
ratings = st.integers(100, 4000)


def deal(proposer_stake: int, acceptor_stake: int) -> Proposal:
    return Proposal(
        id="p",
        proposer=A,
        recipient=B,
        from_="@a",
        to="@b",
        task="t",
        status="accepted",
        created_at=0,
        updated_at=0,
        sig="s",
        proposer_stake=proposer_stake,
        acceptor_stake=acceptor_stake,
    )


@pytest.mark.parametrize(
    ("rating", "escrowed", "free"), [(1200, 0, 1100), (1200, 1100, 0), (100, 0, 0), (1184, 1100, 0)]
)
def test_available_is_rating_less_stakes_less_floor_and_never_negative(
    rating: int, escrowed: int, free: int
) -> None:
    assert escrow.available(Standing(key=A, rating=rating, escrowed=escrowed)) == free


@pytest.mark.parametrize(
    ("asked", "stake"), [(None, 0), (0, 0), (25, 25), (25.0, 25), (2**31 - 1, 2**31 - 1)]
)
def test_a_stake_is_a_whole_number(asked: Any, stake: int) -> None:
    assert escrow.stake_of(asked) == stake


@pytest.mark.parametrize("asked", [-1, 0.5, 2**31, 1e300, float("inf"), float("nan"), 10**400])
def test_no_other_number_is_a_stake(asked: Any) -> None:
    with pytest.raises(InvalidStake):
        escrow.stake_of(asked)


@given(ratings, ratings, stakes, stakes, stakes, stakes)
def test_a_lock_never_takes_more_than_is_available(
    rating_a: int, rating_b: int, held_a: int, held_b: int, stake_a: int, stake_b: int
) -> None:
    one = Standing(key=A, rating=rating_a, escrowed=held_a)
    other = Standing(key=B, rating=rating_b, escrowed=held_b)
    covered = stake_a <= escrow.available(one) and stake_b <= escrow.available(other)
    if not covered:
        with pytest.raises(InsufficientReputation):
            escrow.lock(deal(stake_a, stake_b), one, other, 1)
        return
    locked = escrow.lock(deal(stake_a, stake_b), one, other, 1)
    for before, after in locked.moved:
        assert after.rating == before.rating
        assert after.rating - after.escrowed >= 100
    released = escrow.release(deal(stake_a, stake_b), *_after(locked.moved, one, other), 2)
    assert _after(released.moved, one, other) == (one, other)
    assert not any(ledger.balances([locked.entry, released.entry], "elo").values())


def _after(
    moved: tuple[tuple[Standing, Standing], ...], one: Standing, other: Standing
) -> tuple[Standing, Standing]:
    after = {standing.key: standing for _, standing in moved}
    return after.get(A, one), after.get(B, other)


def test_only_an_accepted_deal_with_a_stake_is_an_escrow() -> None:
    assert escrow.is_open(deal(0, 1))
    assert escrow.is_open(deal(1, 0))
    assert not escrow.is_open(deal(0, 0))


def test_the_three_ends_of_an_escrow_as_the_wire_says_them() -> None:
    assert escrow.returned(deal(3, 4)).settlement == "returned"
    moved = escrow.transferred(deal(3, 4), "@a", 4)
    assert (moved.settlement, moved.transferred_to, moved.transferred_amount) == ("transferred", "@a", 4)
    gone = escrow.burned(deal(3, 4))
    assert (gone.settlement, gone.burned_amount) == ("burned", 7)


@given(ratings, ratings, st.integers(0, 50), st.integers(0, 50), stakes, stakes)
def test_on_mutual_fault_both_stakes_are_burned(
    rating_a: int, rating_b: int, loss_a: int, loss_b: int, stake_a: int, stake_b: int
) -> None:
    shares = (
        Share(
            address="@a",
            standing=Standing(key=A, rating=rating_a, escrowed=stake_a, transactions=9),
            earned=-loss_a,
            staked=stake_a,
        ),
        Share(
            address="@b",
            standing=Standing(key=B, rating=rating_b, escrowed=stake_b, transactions=9),
            earned=-loss_b,
            staked=stake_b,
        ),
    )
    movement = settle(deal(stake_a, stake_b), "verdict", shares, 7)
    after = {standing.key: standing for _, standing in movement.moved}
    assert after[A].rating == max(100, rating_a - loss_a - stake_a)
    assert after[B].rating == max(100, rating_b - loss_b - stake_b)
    assert after[A].escrowed == after[B].escrowed == 0
    balances = ledger.balances([movement.entry], "elo")
    assert sum(balances.values()) == 0
    assert balances.get("burn", 0) == loss_a + loss_b + stake_a + stake_b
    assert balances.get("floor", 0) <= 0
