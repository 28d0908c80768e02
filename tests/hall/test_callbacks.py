"""Callbacks, from the marker in a message to the reminder (agentchat wire 9.5); the parts: test_markers.py."""

import re

import pytest

from tests.support.world import (
    ABSENT,
    DEADLINES,
    NOON,
    Guest,
    World,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)


def pair(world: World) -> tuple[Guest, Guest]:
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    return alice, bob


def test_a_marker_reminds_its_author_and_nobody_else() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="back soon @@cb:5s@@look again")
    assert_sent(bob, "MSG", content="back soon")
    world.advance(4.9)
    assert_silent(alice)
    world.advance(0.1)
    fired = assert_sent(
        alice,
        "MSG",
        from_="@server",
        from_name="server",
        to=alice.id,
        content="@@cb-fire@@look again",
        cb_origin=alice.id,
        msg_id=ABSENT,
        verified=ABSENT,
    )
    assert re.fullmatch(r"cb_[0-9]+_[0-9a-z]{1,6}", fired["cb_id"])
    assert fired["ts"] == (NOON + 5) * 1000
    assert_silent(alice, bob)


def test_a_marker_may_name_a_channel() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to=bob.id, content="@@cb:1.5s#general@@time for the report")
    world.advance(1.5)
    assert_sent(alice, "MSG", to="#general", content="@@cb-fire@@time for the report")
    assert_silent(alice, bob)


def test_a_message_of_nothing_but_markers_is_not_routed_and_uses_the_rate_slot() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:5s@@look again")
    assert_silent(alice, bob)
    assert len(world.hall.channels.find("#general").buffer) == 0
    world.send(alice, "MSG", to="#general", content="hello")
    assert_refused(alice, "RATE_LIMITED")


@pytest.mark.parametrize("to", ["#nowhere", "#agents", "@server", "@nobody"])
def test_markers_are_heeded_before_anybody_asks_where_the_message_goes(to: str) -> None:
    """A message of markers alone is not routed, so there is nothing to refuse (agentchat wire 9.3, 9.5)."""
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to=to, content="@@cb:1s@@x")
    assert_silent(alice)
    world.advance(1)
    assert_sent(alice, "MSG", content="@@cb-fire@@x")


@pytest.mark.parametrize(("to", "code"), [("#nowhere", "CHANNEL_NOT_FOUND"), ("@nobody", "AGENT_NOT_FOUND")])
@pytest.mark.parametrize("content", ["and @@cb:1s@@x", "@@cb:1s", f"@@cb:1s@@{'x' * 501}"])
def test_what_markers_leave_of_a_message_has_to_go_somewhere(to: str, code: str, content: str) -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to=to, content=content)
    assert_refused(alice, code)


def test_the_original_is_routed_when_its_only_payload_was_too_long() -> None:
    world = World()
    alice, bob = pair(world)
    content = f"@@cb:1s@@{'x' * 501}"
    world.send(alice, "MSG", to="#general", content=content)
    assert_sent(bob, "MSG", content=content)
    world.advance(10)
    assert_silent(alice)


def test_callbacks_fire_in_the_order_of_their_time() -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:3s@@third@@cb:1s@@first@@cb:2s@@second")
    world.advance(10)
    fired = [(message["ts"] - NOON * 1000, message["content"]) for message in alice.read()]
    assert fired == [
        (1000, "@@cb-fire@@first"),
        (2000, "@@cb-fire@@second"),
        (3000, "@@cb-fire@@third"),
    ]


def test_a_channel_one_has_left_or_that_never_was_gets_no_callback() -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s#general@@a@@cb:1s#nowhere@@b@@cb:2s@@c")
    world.send(alice, "LEAVE", channel="#general")
    alice.read()
    world.advance(10)
    assert_sent(alice, "MSG", content="@@cb-fire@@c")
    assert_silent(alice)


def test_an_agent_that_is_gone_gets_no_callback_not_even_when_it_comes_back() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:5s@@x")
    world.disconnect(alice)
    bob.read()
    assert len(world.hall.callbacks) == 0
    world.advance(10)
    assert_silent(bob)
    assert_consistent(world)


def test_fifty_callbacks_per_agent_and_further_ones_are_dropped_in_silence() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@x" * 60)
    world.send(bob, "MSG", to="#general", content="@@cb:1s@@x")
    assert_silent(alice, bob)
    assert len(world.hall.callbacks) == 51
    world.advance(1)
    assert len(alice.read()) == 50
    assert len(bob.read()) == 1
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@x")
    world.advance(1)
    assert len(alice.read()) == 1


@pytest.mark.parametrize("longest", [2, 3600])
def test_a_delay_is_capped(longest: float) -> None:
    world = World(idle_prompts=False, callback_max_delay=longest)
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:99999s@@x")
    world.advance(longest - 0.1)
    assert_silent(alice)
    world.advance(0.1)
    assert_sent(alice, "MSG", content="@@cb-fire@@x")


def test_the_limits_are_settings() -> None:
    world = World(callback_max_pending=1, callback_max_payload=3)
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@long@@cb:1s@@abc@@cb:1s@@xyz")
    world.advance(1)
    assert_sent(alice, "MSG", content="@@cb-fire@@abc")
    assert_silent(alice)


def test_other_token_markers_pass_untouched() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@joy:0.6@@ @@sleep:5s@@ @@wake@@")
    assert_sent(bob, "MSG", content="@@joy:0.6@@ @@sleep:5s@@ @@wake@@")


def test_agents_who_come_and_go_leave_nothing_behind() -> None:
    """However many callbacks were asked for, the agenda holds one appointment for the next of them."""
    world = World(no_limits=True)
    for _ in range(100):
        guest = world.agent()
        world.send(guest, "MSG", to=guest.id, content="@@cb:3600s@@x" * 50)
        world.send(guest, "MSG", to=guest.id, content="@@cb:1800s@@x" * 50)
        world.disconnect(guest)
        assert_consistent(world)
    assert len(world.hall.callbacks) == 0
    assert len(world.hall.agenda) <= DEADLINES + 3  # it, the idle watch and the line of strangers


def test_an_earlier_callback_asked_for_later_fires_first() -> None:
    world = World(no_limits=True)
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:10s@@late")
    world.send(bob, "MSG", to="#general", content="@@cb:1s@@early")
    world.advance(1)
    assert_sent(bob, "MSG", content="@@cb-fire@@early")
    assert_silent(alice)
    world.advance(9)
    assert_sent(alice, "MSG", content="@@cb-fire@@late")
