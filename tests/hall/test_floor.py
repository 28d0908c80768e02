"""The claims themselves (seed 003, state and invariants; agentchat wire 10)."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.floor import Ended, Expiry, Floor, Released
from moothall.hall.lapses import FIRST_PENALTY, FORGOTTEN_AFTER, LONGEST_PENALTY, Precedence
from tests.identity.vectors import VECTORS

TTL = 45.0


def test_claims_are_decided_as_in_the_vectors() -> None:
    floor = Floor(TTL)
    for claim in VECTORS["floor_control"]["claims"]:
        standing = floor.holder("#c", "m", 0)
        decision = floor.claim("#c", "m", claim["agent"], claim["started_at"], 0)
        assert decision.granted is claim["granted"]
        if not claim["granted"]:
            assert (claim["agent"], decision.claim.holder) == (claim["yield_to"], claim["winner"])
            assert decision.displaced is None
        elif claim["yield_to"] is None:
            assert standing is None
            assert decision.displaced is None
        else:
            assert (decision.displaced, decision.claim.holder) == (claim["yield_to"], claim["winner"])


def test_one_claim_per_channel_and_message() -> None:
    floor = Floor(TTL)
    assert floor.claim("#a", "m", "x", 1, 0).granted
    assert floor.claim("#b", "m", "y", 2, 0).granted
    assert floor.claim("#a", "n", "z", 3, 0).granted
    assert len(floor) == 3


def test_an_agent_holds_claims_on_different_messages_at_once() -> None:
    floor = Floor(TTL)
    for message in ("m", "n"):
        assert floor.claim("#a", message, "x", 1, 0).granted
    floor.leave("x", "#a")
    assert len(floor) == 0


def test_saying_it_again_is_no_reason_to_yield_and_changes_nothing() -> None:
    floor = Floor(TTL)
    first = floor.claim("#a", "m", "x", 100, 0)
    again = floor.claim("#a", "m", "x", 200, 1)
    assert again.granted
    assert again.claim is first.claim
    assert again.displaced is None


def test_ones_own_earlier_time_counts() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 200, 0)
    assert floor.claim("#a", "m", "x", 100, 1).granted
    assert not floor.claim("#a", "m", "y", 150, 1).granted


def test_a_human_always_gets_the_floor() -> None:
    """Seed 003, invariants."""
    floor = Floor(TTL)
    floor.claim("#a", "m", "agent", 100, 0)
    decision = floor.claim("#a", "m", "person", 999, 0, is_human=True)
    assert decision.granted
    assert decision.displaced == "agent"
    assert not floor.claim("#a", "m", "agent", 1, 0).granted


def test_a_claim_expires_after_its_time_to_live() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 100, 0)
    assert not floor.claim("#a", "m", "y", 200, 44.9).granted
    decision = floor.claim("#a", "m", "y", 200, 45)
    assert decision.granted
    assert decision.displaced is None
    assert not floor.concerns("x")


def test_expiry_follows_the_clock_even_when_claims_change_hands() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 100, 0)
    floor.claim("#a", "n", "y", 100, 10)
    floor.claim("#a", "m", "z", 50, 20)
    assert floor.holder("#a", "n", 54.9)
    assert floor.holder("#a", "n", 55) is None
    assert floor.holder("#a", "m", 64.9)
    assert floor.holder("#a", "m", 65) is None


def test_speaking_in_one_channel_leaves_the_claims_in_others() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.claim("#b", "m", "x", 1, 0)
    floor.leave("x", "#a")
    assert floor.holder("#a", "m", 0) is None
    assert floor.holder("#b", "m", 0)
    floor.drop("x")
    assert len(floor) == 0


CLAIMS = st.lists(
    st.tuples(
        st.sampled_from(["#a", "#b"]),
        st.sampled_from(["m", "n"]),
        st.sampled_from("wxyz"),
        st.one_of(st.integers(1, 5), st.floats(1, 5)),
        st.booleans(),
    ),
    max_size=40,
)


@given(CLAIMS)
def test_the_earliest_holds_whatever_the_order_of_arrival(
    claims: list[tuple[str, str, str, float, bool]],
) -> None:
    floor = Floor(TTL)
    best: dict[tuple[str, str], tuple[Any, ...]] = {}
    for channel, message, agent, started_at, human in claims:
        decision = floor.claim(channel, message, agent, started_at, 0, is_human=human)
        rank = (Precedence.FULL, not human, started_at, agent)
        key = (channel, message)
        best[key] = min(best.get(key, rank), rank)
        assert floor.rank(decision.claim, 0) == best[key]
        assert decision.granted is (best[key][3] == agent)
        assert decision.displaced != agent
    assert len(floor) == len(best)
    for (channel, message), rank in best.items():
        claim = floor.holder(channel, message, 0)
        assert claim is not None
        assert floor.rank(claim, 0) == rank
    assert all(floor.holder(channel, message, TTL) is None for channel, message in best)


# -- promises ------------------------------------------------------------------------------------------


def lapse(floor: Floor, agent: str, at: float, message: str = "lapsed", address: str | None = None) -> float:
    """A claim that nobody answers; when it is over."""
    floor.claim("#a", message, agent, 1, at, address=address)
    floor.expire(at + TTL)
    return at + TTL


def test_an_agent_whose_claim_expired_ranks_after_all_others() -> None:
    floor = Floor(TTL)
    now = lapse(floor, "mute", 0)
    assert floor.claim("#a", "m", "mute", 1, now).granted  # alone it has the floor, as before
    decision = floor.claim("#a", "m", "bot", 10**15, now)
    assert (decision.granted, decision.displaced) == (True, "mute")
    again = floor.claim("#a", "m", "mute", 1, now)
    assert (again.granted, again.claim.holder) == (False, "bot")


def test_it_ranks_after_others_even_when_it_calls_itself_human() -> None:
    floor = Floor(TTL)
    now = lapse(floor, "mute", 0)
    floor.claim("#a", "m", "mute", 1, now, is_human=True)
    assert floor.claim("#a", "m", "bot", 2, now).displaced == "mute"


def test_claims_that_it_made_before_lose_their_precedence_too() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "first", "mute", 1, 0)
    floor.claim("#a", "second", "mute", 1, 30)
    assert floor.claim("#a", "second", "bot", 2, TTL - 0.1).claim.holder == "mute"
    assert floor.claim("#a", "second", "bot", 2, TTL).displaced == "mute"


def test_the_penalty_doubles_up_to_an_hour_and_is_forgotten() -> None:
    floor = Floor(TTL)
    now = 0.0
    for penalty in (600, 1200, 2400, 3600, 3600):
        now = lapse(floor, "mute", now)
        assert floor.precedence("mute", None, now + penalty - 1) is Precedence.LAPSED
        now += penalty
        assert floor.precedence("mute", None, now) is Precedence.FULL
    now = lapse(floor, "mute", now + FORGOTTEN_AFTER)
    assert floor.precedence("mute", None, now + FIRST_PENALTY) is Precedence.FULL


def test_claims_that_expire_together_are_one_lapse() -> None:
    floor = Floor(TTL)
    for number in range(10):
        floor.claim("#a", f"m{number}", "crashed", 1, number)
    assert [broken.is_news for broken in floor.expire(TTL + 10).lapses] == [True] + [False] * 9
    assert floor.precedence("crashed", None, TTL + FIRST_PENALTY) is Precedence.FULL


def test_the_penalty_counts_from_the_deadline_however_late_anybody_looks() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "mute", 1, 0)
    floor.expire(TTL + FIRST_PENALTY)
    assert floor.precedence("mute", None, TTL + FIRST_PENALTY) is Precedence.FULL


@pytest.mark.parametrize("in_reply_to", [None, "m"])
def test_who_answers_keeps_its_precedence(in_reply_to: str | None) -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.answer("x", "#a", in_reply_to, 0)
    assert floor.expire(TTL).lapses == []
    assert floor.next_deadline() is None
    assert not floor.concerns("x")


def test_who_yields_keeps_its_precedence() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.claim("#a", "m", "y", 0.5, 0)
    assert [broken.promise.debtor for broken in floor.expire(TTL).lapses] == ["y"]
    assert floor.precedence("x", None, TTL) is Precedence.FULL


@pytest.mark.parametrize(
    "evasion",
    ["leave", "disconnect", "speak elsewhere", "reply to another", "claim again", "leave and claim again"],
)
def test_nothing_but_an_answer_frees_from_the_promise(evasion: str) -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    match evasion:
        case "leave" | "leave and claim again":
            floor.leave("x", "#a")
        case "disconnect":
            floor.drop("x")
        case "speak elsewhere":
            floor.answer("x", "#b", None, 0)
        case "reply to another":
            floor.answer("x", "#a", "other", 0)
    if evasion.endswith("claim again"):
        floor.claim("#a", "m", "x", 0.5, TTL - 1)
    assert floor.expire(TTL - 0.1).lapses == []
    assert [broken.promise.debtor for broken in floor.expire(TTL).lapses] == ["x"]
    assert floor.precedence("x", None, TTL) is Precedence.LAPSED


def test_one_message_keeps_one_promise() -> None:
    floor = Floor(TTL)
    for number in range(3):
        floor.claim("#a", f"m{number}", "x", 1, 0)
    floor.answer("x", "#a", "m1", 0)
    assert len(floor) == 2  # it may still work on the others
    floor.answer("x", "#a", None, 0)
    assert len(floor) == 0  # it does not say which, so all its floors there are free (agentchat wire 10)
    assert [broken.promise.key for broken in floor.expire(TTL).lapses] == [("#a", "m2")]


def test_a_message_that_all_may_answer_gets_no_floor_but_is_promised() -> None:
    floor = Floor(TTL)
    floor.share("#a", "m", "x", 0)
    assert floor.holder("#a", "m", 0) is None
    assert [broken.promise.debtor for broken in floor.expire(TTL).lapses] == ["x"]


def test_two_that_take_the_floor_from_each_other_gain_no_time() -> None:
    floor = Floor(TTL)
    for turn in range(10):
        floor.claim("#a", "m", "xy"[turn % 2], 100 - turn, turn * 4.4)
    assert [broken.promise.debtor for broken in floor.expire(TTL).lapses] == ["y"]


def test_who_wins_by_precedence_has_its_own_time() -> None:
    floor = Floor(TTL)
    now = lapse(floor, "mute", 0)
    floor.claim("#a", "m", "mute", 1, now)
    floor.claim("#a", "m", "bot", 2, now + 44)
    assert floor.expire(now + 44 + TTL - 0.1).lapses == []
    assert [broken.promise.debtor for broken in floor.expire(now + 44 + TTL).lapses] == ["bot"]


def test_a_new_id_at_the_same_address_ranks_after_others_but_before_the_lapsed() -> None:
    floor = Floor(TTL)
    now = lapse(floor, "old", 0, address="198.51.100.1")
    assert floor.precedence("new", "198.51.100.1", now) is Precedence.NEIGHBOUR
    assert floor.precedence("elsewhere", "198.51.100.2", now) is Precedence.FULL
    assert floor.precedence("local", None, now) is Precedence.FULL
    floor.claim("#a", "m", "old", 1, now, address="198.51.100.1")
    assert floor.claim("#a", "m", "new", 2, now, address="198.51.100.1").displaced == "old"
    assert floor.claim("#a", "m", "elsewhere", 3, now, address="198.51.100.2").displaced == "new"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "claim", "answer", "leave", "drop", "share", "release", "wait"]),
        st.sampled_from("wxyz"),
        st.sampled_from(["m", "n"]),
        st.integers(1, 5),
        st.sampled_from([0.0, 1.0, 20.0, 44.0, 600.0]),
    ),
    max_size=60,
)


@given(STEPS)
def test_who_always_answers_is_never_outranked_by_who_never_does(
    steps: list[tuple[str, str, str, int, float]],
) -> None:
    """`honest` answers each claim at once. Whatever the others do, it keeps its precedence, and wins against all
    that have lapsed."""
    floor = Floor(TTL)
    now = 0.0
    lapsed: dict[str, float] = {}
    for action, agent, message, started_at, pause in steps:
        now += pause
        match action:
            case "claim":
                floor.claim("#a", message, agent, started_at, now)
            case "share":
                floor.share("#a", message, agent, now)
            case "answer":
                floor.answer(agent, "#a", None, now)
            case "leave":
                floor.leave(agent, "#a")
            case "drop":
                floor.drop(agent)
            case "release":
                floor.release("#a", message, agent, now)
        for broken in floor.expire(now).lapses:
            if broken.is_news:
                lapsed[broken.promise.debtor] = broken.promise.due
        assert "honest" not in lapsed
        decision = floor.claim("#a", message, "honest", 10**15, now)
        outranked = decision.claim.holder
        if outranked != "honest":
            assert floor.precedence(outranked, None, now) is Precedence.FULL
            assert now >= lapsed.get(outranked, -LONGEST_PENALTY) + FIRST_PENALTY
        floor.answer("honest", "#a", message, now)
        assert not floor.concerns("honest")
    floor.expire(now + 2 * TTL)
    assert len(floor) == 0
    assert floor.next_deadline() is None


# -- claims that are given back ------------------------------------------------------------------------


def test_a_released_claim_is_neither_held_nor_owed() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    assert floor.release("#a", "m", "x", 1) == Released(stood=True, lapse=None)
    assert len(floor) == 0
    assert not floor.concerns("x")
    assert floor.expire(TTL) == Expiry([], [])
    assert floor.claim("#a", "m", "y", 10**15, 1).granted


def test_a_shared_claim_is_released_in_the_same_way() -> None:
    floor = Floor(TTL)
    floor.share("#a", "m", "x", 0)
    floor.share("#a", "m", "y", 0)
    assert len(floor) == 2
    assert floor.release("#a", "m", "x", 1) == Released(stood=True, lapse=None)
    assert len(floor) == 1
    assert [ended.holder for ended in floor.expire(TTL).ended] == ["y"]


def test_only_ones_own_claim_can_be_released_and_only_once() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    assert floor.release("#a", "m", "y", 1) is None
    assert floor.release("#b", "m", "x", 1) is None
    assert floor.release("#a", "m", "x", 1) is not None
    assert floor.release("#a", "m", "x", 1) is None


def test_who_had_to_yield_has_nothing_to_release() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 2, 0)
    floor.claim("#a", "m", "y", 1, 0)
    assert floor.release("#a", "m", "x", 1) is None
    holder = floor.holder("#a", "m", 1)
    assert holder is not None
    assert holder.holder == "y"


def test_a_promise_without_a_claim_is_taken_back_too() -> None:
    """The agent left and came back: its claim has ended, but it still owes the answer."""
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.leave("x", "#a")
    assert floor.release("#a", "m", "x", 1) == Released(stood=False, lapse=None)
    assert floor.expire(TTL).lapses == []


@pytest.mark.parametrize("held", [0.0, 5.0, 44.0])
def test_who_claims_and_releases_for_ever_loses_its_precedence(held: float) -> None:
    floor = Floor(TTL)
    now, losses = 0.0, 0
    for number in range(200):
        floor.claim("#a", f"m{number}", "x", 1, now)
        now += held
        released = floor.release("#a", f"m{number}", "x", now)
        assert released is not None
        losses += released.lapse is not None and released.lapse.is_news
    assert losses >= 1
    assert floor.precedence("x", None, now) is Precedence.LAPSED


def test_who_answers_now_and_then_may_release_the_rest() -> None:
    """A bot with one topic of ten."""
    floor = Floor(TTL)
    for number in range(1000):
        floor.claim("#a", f"m{number}", "x", 1, number)
        if number % 10 == 0:
            floor.answer("x", "#a", f"m{number}", number)
        else:
            assert floor.release("#a", f"m{number}", "x", number) == Released(stood=True, lapse=None)
    assert floor.precedence("x", None, 1000) is Precedence.FULL


def test_a_claim_that_expires_is_told() -> None:
    floor = Floor(TTL)
    floor.claim("#a", "m", "x", 1, 0)
    floor.share("#a", "n", "y", 0)
    floor.claim("#a", "o", "z", 1, 0)
    floor.drop("z")
    assert set(floor.expire(TTL).ended) == {Ended(("#a", "m"), "x"), Ended(("#a", "n"), "y")}


def test_answers_in_an_empty_channel_do_not_pay_for_claims_held_elsewhere() -> None:
    floor = Floor(TTL)
    lapses = 0
    for number in range(10):
        now = number * TTL
        floor.claim("#full", f"m{number}", "x", 0, now)
        for own in range(10):
            floor.claim("#empty", f"{number}-{own}", "x", 0, now)
            floor.answer("x", "#empty", f"{number}-{own}", now)
        released = floor.release("#full", f"m{number}", "x", now + TTL - 1)
        assert released is not None
        lapses += released.lapse is not None
    assert lapses > 5
