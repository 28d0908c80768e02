"""The identifiers the hall gives out (agentchat wire 3.4)."""

import re
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.ids import IdMint, base36, time_of


def mint(seed: int = 1) -> IdMint:
    return IdMint(Random(seed).randbytes)  # noqa: S311  # the same every time is the point


@given(st.integers(0, 10**18))
def test_base_36_is_what_python_reads(number: int) -> None:
    assert int(base36(number), 36) == number
    assert base36(number) == base36(number).lower()


@given(st.integers(0, 10**15), st.integers(0, 2**32))
def test_the_forms(now: int, seed: int) -> None:
    ids = mint(seed)
    assert re.fullmatch(r"chal_[0-9a-z]+_[0-9a-f]{8}", ids.stamped("chal", now))
    assert ids.stamped("verify", now).split("_")[1] == base36(now)
    assert re.fullmatch(rf"prop_{base36(now)}_[0-9a-f]{{8}}", ids.ordered("prop", now))
    assert re.fullmatch(r"[0-9a-f]{32}", ids.nonce())
    challenge_id, nonce = ids.challenge(now)
    assert re.fullmatch(rf"chal_{base36(now)}_[0-9a-f]{{8}}", challenge_id)
    assert re.fullmatch(r"[0-9a-f]{32}", nonce)
    assert re.fullmatch(r"(?=.*[g-z])[a-z0-9]{8}", ids.ephemeral_id())
    assert re.fullmatch(rf"{now}-[0-9a-z]{{6}}", ids.message_id(now))
    assert re.fullmatch(rf"cb_{now}_[0-9a-z]{{6}}", ids.callback_id(now))


def test_no_two_challenges_have_anything_in_common() -> None:
    ids = mint()
    challenges = [ids.challenge(1) for _ in range(1000)]
    assert len({challenge_id for challenge_id, _ in challenges}) == 1000
    assert len({nonce for _, nonce in challenges}) == 1000
    assert all(challenge_id[-8:] not in nonce for challenge_id, nonce in challenges)


def test_messages_of_the_same_millisecond_have_different_ids() -> None:
    ids = mint()
    assert len({ids.message_id(1) for _ in range(100_000)}) == 100_000


@given(st.lists(st.integers(36**7, 36**7 + 3)))
def test_ordered_ids_are_in_the_order_of_time_and_then_in_that_in_which_they_are_given_out(
    times: list[int],
) -> None:
    ids = mint()
    times.sort()
    given_out = [ids.ordered("prop", now) for now in times]
    assert given_out == sorted(given_out)
    assert len(set(given_out)) == len(times)


def test_ordered_ids_have_eight_digits_whatever_is_drawn() -> None:
    ids = IdMint(lambda size: b"\xff" * size)
    assert [ids.ordered("prop", 1) for _ in range(2)] == ["prop_1_7fffffff", "prop_1_80000000"]


def test_two_halls_do_not_begin_at_the_same_place() -> None:
    assert len({mint(seed).message_id(1) for seed in range(20)}) > 15


def test_all_letters_of_an_ephemeral_id_are_equally_likely() -> None:
    """36 does not divide 256: without care, the first four would come 14 % more often than the others. Ids that
    look like those of keys are drawn again: they are one in seven hundred."""
    ids = mint()
    text = "".join(ids.ephemeral_id() for _ in range(36_000))
    counts = Counter(text)
    assert len(counts) == 36
    assert max(counts.values()) < 1.05 * 8000
    assert min(counts.values()) > 0.95 * 8000


@given(st.integers(0, 10**15))
def test_the_id_of_a_message_tells_when_it_was_sent(now: int) -> None:
    assert time_of(mint().message_id(now)) == now


@pytest.mark.parametrize("text", ["", "msg_1", "-abc", "12", "1" * 17 + "-abc", " 1-abc", "\u0661-abc"])
def test_other_texts_tell_no_time(text: str) -> None:
    assert time_of(text) is None


def test_an_ephemeral_id_that_looks_like_that_of_a_key_is_drawn_again() -> None:
    drawn = iter([b"\0" * 4, bytes(range(12)), bytes(range(20, 32))])
    assert IdMint(lambda length: next(drawn)).ephemeral_id() == "klmnopqr"
