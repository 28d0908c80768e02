"""API_TOKEN: which key a token stands for, and until when."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import AuthRequired
from moothall.hall.api_tokens import TOKEN_SECONDS, ApiTokens, common_secret
from tests.identity.vectors import ALICE, BOB
from tests.support.world import World, assert_refused, assert_sent

NOW = 1_760_000_000_000
KEY = ALICE.public.raw


def tokens(secret: bytes = b"s") -> ApiTokens:
    return ApiTokens(lambda size: secret * size)


def test_a_token_holds_until_its_end() -> None:
    given = tokens()
    token, end = given.give(KEY, NOW)
    assert end == NOW + TOKEN_SECONDS * 1000
    assert given.key_of(token, end - 1) == KEY
    with pytest.raises(AuthRequired, match="has ended"):
        given.key_of(token, end)


def test_a_token_is_worth_nothing_at_another_hall() -> None:
    token, _ = tokens().give(KEY, NOW)
    with pytest.raises(AuthRequired, match="did not give"):
        tokens(b"t").key_of(token, NOW)


def test_a_token_of_one_node_counts_at_the_others() -> None:
    one, other = (ApiTokens(os.urandom, common_secret(BOB.sign_bytes)) for _ in range(2))
    token, _ = one.give(KEY, NOW)
    assert other.key_of(token, NOW) == KEY
    stranger = ApiTokens(os.urandom, common_secret(ALICE.sign_bytes))
    with pytest.raises(AuthRequired, match="did not give"):
        stranger.key_of(token, NOW)


@given(st.data())
def test_a_token_that_was_changed_does_not_hold(data: st.DataObject) -> None:
    token, _ = tokens().give(KEY, NOW)
    place = data.draw(st.integers(0, len(token) - 2))  # the last letter has bits that mean nothing
    other = data.draw(st.characters().filter(lambda letter: letter != token[place]))
    with pytest.raises(AuthRequired):
        tokens().key_of(f"{token[:place]}{other}{token[place + 1 :]}", NOW)


@given(st.text())
def test_other_text_is_no_token(text: str) -> None:
    with pytest.raises(AuthRequired):
        tokens().key_of(text, NOW)


def test_a_session_with_a_key_gets_one() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE)
    world.send(alice, "API_TOKEN")
    given = assert_sent(alice, "API_TOKEN")
    assert world.hall.api_tokens.key_of(given["token"], world.now_ms) == KEY
    assert given["expires_at"] == world.now_ms + TOKEN_SECONDS * 1000


def test_an_agent_without_a_key_gets_none() -> None:
    world = World()
    bob = world.agent("bob")
    world.send(bob, "API_TOKEN")
    assert_refused(bob, "VERIFICATION_REQUIRED")
