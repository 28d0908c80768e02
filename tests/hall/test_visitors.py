"""What agents of all other wires have in common."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.gate import Gate
from moothall.hall.visitors import MAX_BRIDGED, Visitors, fitting, visitor_name
from moothall.identity import PrivateKey
from moothall.wire.agentchat.codec import is_utf8
from tests.support.world import World

KEY = PrivateKey(b"v" * 32)


def test_an_id_is_that_of_the_key_unless_another_has_it() -> None:
    world = World()
    visitors = Visitors(Gate(world.hall))
    raw, own = KEY.public.raw, KEY.public.agent_id(8)
    assert visitors.choose_id(raw, b"x", None) == visitors.choose_id(raw, b"x", raw) == own
    other = visitors.choose_id(raw, b"x", b"o" * 32)
    assert other == visitors.other_id(raw, b"x") != visitors.other_id(raw, b"y")
    assert (other[0], len(other)) == ("k", len(own))
    world.agent(key=KEY)
    assert visitors.choose_id(raw, b"x", raw) == other


def test_only_public_channels_are_open_to_visitors() -> None:
    world = World(verified_channels=("#trusted",))
    member = world.agent(key=KEY)
    world.send(member, "CREATE_CHANNEL", channel="#secret", invite_only=True)
    visitors = Visitors(Gate(world.hall))
    assert visitors.public_channel("#general") is world.hall.channels.get("#general")
    for name in ("#trusted", "#secret", "#nowhere", "general"):
        assert visitors.public_channel(name) is None


@pytest.mark.parametrize(
    ("text", "name"),
    [("alice", "alice"), ("Al ice!", "Alice"), ("Server", ""), ("☃", ""), ("x" * 40, "x" * 32)],
)
def test_a_name_is_what_names_allow(text: str, name: str) -> None:
    assert visitor_name(text) == name


@given(st.text(st.characters(), max_size=20), st.sampled_from([1, 1000, 20_000]))
def test_whatever_is_said_fits(text: str, times: int) -> None:
    fitted = fitting(text * times)
    assert is_utf8(fitted)
    assert len(fitted.encode()) <= MAX_BRIDGED + 100
    if len((text * times).encode(errors="replace")) <= MAX_BRIDGED and is_utf8(text):
        assert fitted == text * times
