"""Quiet channels get a nudge (seed 000, server idle; agentchat wire 9.7)."""

from typing import Any

import pytest

from moothall.hall.idle import STARTERS
from moothall.settings import PROFILES
from tests.support.world import ABSENT, DEADLINES, Guest, World, assert_sent, assert_silent


def pair(world: World) -> tuple[Guest, Guest]:
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    return alice, bob


def test_server_idle_step_1_after_five_minutes_with_two_agents_a_starter_is_posted() -> None:
    world = World()
    alice, bob = pair(world)
    world.advance(299)
    assert_silent(alice, bob)
    world.advance(61)
    prompts = [
        assert_sent(guest, "MSG", from_="@server", from_name="Server", to="#general", msg_id=ABSENT)
        for guest in (alice, bob)
    ]
    assert_silent(alice, bob)
    count, _, starter = prompts[0]["content"].partition(" - ")
    assert count == "2 are here"
    assert starter in STARTERS


@pytest.mark.parametrize("profile", PROFILES)
def test_the_prompt_mentions_an_agent_only_in_the_profile_of_the_reference(profile: str) -> None:
    world = World(profile, idle_timeout=300.0)
    alice, bob = pair(world)
    world.advance(360)
    content = alice.read()[-1]["content"]
    assert content.partition(" - ")[2] in STARTERS
    if profile == "seeds":
        assert "@" not in content
    else:
        assert content.startswith(f"{alice.id}, {bob.id} - ")


def test_server_idle_step_2_the_line_is_in_the_channels_history() -> None:
    world = World()
    pair(world)
    world.advance(360)
    late = world.agent()
    world.send(late, "JOIN", channel="#general")
    assert_sent(late, "MSG", from_="@server", replay=True)


def test_a_quiet_night_leaves_the_last_conversation_in_the_history() -> None:
    world = World()
    alice, _ = pair(world)
    world.say(alice, "#general", "good night")
    world.advance(8 * 3600)
    world.say(alice, "#general", "good morning")
    world.advance(3600)
    late = world.agent()
    world.send(late, "JOIN", channel="#general")
    history = [(message["from_name"], message["content"]) for message in late.unread if message.get("replay")]
    assert [name for name, _ in history] == ["alice", "Server", "alice", "Server"]
    assert [content for name, content in history if name == "alice"] == ["good night", "good morning"]


@pytest.mark.parametrize("activity", ["MSG", "JOIN"])
def test_server_idle_step_3_activity_resets_the_timer(activity: str) -> None:
    world = World()
    alice, bob = pair(world)
    world.advance(290)
    if activity == "MSG":
        world.say(alice, "#general", "still here")
    else:
        world.agent("carol", join="#general")
    world.hush()
    world.advance(299)
    assert_silent(alice, bob)
    world.advance(61)
    assert_sent(alice, "MSG", from_="@server")


def test_server_idle_step_3_the_prompt_itself_resets_the_timer() -> None:
    world = World()
    alice, _ = pair(world)
    world.advance(300)
    assert len(alice.read()) == 1
    world.advance(299)
    assert_silent(alice)
    world.advance(1)
    assert len(alice.read()) == 1


def test_an_agent_alone_is_left_alone() -> None:
    world = World()
    alice = world.agent(join="#general")
    elsewhere = world.agent(join="#agents")
    world.advance(3600)
    assert_silent(alice, elsewhere)


@pytest.mark.parametrize("off", [{"idle_prompts": False}, {"idle_timeout": 0.0}])
def test_prompts_can_be_turned_off(off: dict[str, Any]) -> None:
    world = World(**off)
    alice, bob = pair(world)
    world.advance(36_000)
    assert_silent(alice, bob)
    assert len(world.hall.agenda) == DEADLINES


def test_a_short_timeout_is_kept_within_a_fifth_of_itself() -> None:
    world = World(idle_timeout=10.0)
    alice, _ = pair(world)
    world.advance(12)
    assert_sent(alice, "MSG", from_="@server")


@pytest.mark.parametrize("members", [360, 372, 500])
def test_a_crowd_is_named_as_far_as_a_message_holds_it(members: int) -> None:
    """Seed 001, transport: 4096 characters."""
    world = World(no_limits=True, idle_mentions=True)
    alice, *others = [world.agent(join="#general") for _ in range(members)]
    world.hush()
    world.advance(360)
    content = alice.next()["content"]
    named, _, starter = content.partition(" - ")
    assert starter in STARTERS
    everybody = [guest.id for guest in (alice, *others)]
    *listed, last = named.split(", ")
    if last == "...":
        assert listed == everybody[: len(listed)]
        assert 4096 - len(", @12345678") < len(content) <= 4096
        assert len(", ".join(everybody)) + len(f" - {starter}") > 4096
    else:
        assert [*listed, last] == everybody
        assert len(content) <= 4096
