"""Nick and presence (seed 001, presence; agentchat wire 5.1)."""

import pytest

from tests.support.world import World, assert_refused, assert_sent, assert_silent

STATES = ["online", "away", "busy", "offline", "listening"]


@pytest.mark.parametrize("status", STATES)
def test_presence_has_five_states(status: str) -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "SET_PRESENCE", status=status, status_text="back soon")
    assert_sent(
        bob, "PRESENCE_CHANGED", agent_id=alice.id, name="alice", presence=status, status_text="back soon"
    )
    world.send(bob, "LIST_AGENTS", channel="#general")
    assert assert_sent(bob, "AGENTS")["list"][0]["presence"] == status


def test_any_other_state_is_refused_in_words_that_clients_match() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "SET_PRESENCE", status="invisible")
    assert_refused(guest, "INVALID_MSG", "Invalid presence status")


def test_presence_is_told_once_to_everybody_in_a_shared_channel_and_not_to_the_agent() -> None:
    world = World()
    alice = world.agent(join=["#general", "#agents"])
    both = world.agent(join=["#general", "#agents"])
    one = world.agent(join="#agents")
    elsewhere = world.agent(join="#discovery")
    world.hush()
    world.send(alice, "SET_PRESENCE", status="away")
    for guest in (both, one):
        assert_sent(guest, "PRESENCE_CHANGED", agent_id=alice.id, status_text=None)
    assert_silent(alice, both, one, elsewhere)


def test_a_status_text_has_100_characters_at_most() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "SET_PRESENCE", status="busy", status_text="x" * 100)
    assert_silent(guest)
    world.send(guest, "SET_PRESENCE", status="busy", status_text="x" * 101)
    assert_refused(guest, "INVALID_MSG", "`status_text`")
    assert world.hall.agents[guest.id[1:]].status_text == "x" * 100


def test_a_status_text_is_cleared_by_leaving_it_out_and_null_is_invalid() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "SET_PRESENCE", status="busy", status_text="thinking")
    world.send(guest, "SET_PRESENCE", status="busy", status_text=None)
    assert_refused(guest, "INVALID_MSG", "`status_text`")
    assert world.hall.agents[guest.id[1:]].status_text == "thinking"
    world.send(guest, "SET_PRESENCE", status="online")
    assert world.hall.agents[guest.id[1:]].status_text is None


def test_a_nick_is_told_once_per_shared_channel_and_once_more_to_its_owner() -> None:
    world = World()
    alice = world.agent("alice", join=["#general", "#agents"])
    both = world.agent(join=["#general", "#agents"])
    one = world.agent(join="#agents")
    elsewhere = world.agent(join="#discovery")
    world.hush()
    world.send(alice, "SET_NICK", nick="Ally")
    for guest, times in ((both, 2), (one, 1), (alice, 3)):
        for _ in range(times):
            assert_sent(guest, "NICK_CHANGED", agent_id=alice.id, old_nick="alice", new_nick="Ally")
    assert_silent(alice, both, one, elsewhere)


def test_a_nick_replaces_the_name() -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent(join="#general")
    world.send(alice, "SET_NICK", nick="Ally")
    world.hush()
    world.say(alice, "#general", "hello")
    assert_sent(bob, "MSG", from_name="Ally")


@pytest.mark.parametrize("nick", ["server", "Admin", "JC", "GOD"])
def test_a_reserved_nick_is_refused(nick: str) -> None:
    world = World()
    guest = world.agent("alice")
    world.send(guest, "SET_NICK", nick=nick)
    assert_refused(guest, "INVALID_NAME")
    assert world.hall.agents[guest.id[1:]].name == "alice"
    world.send(guest, "SET_NICK", nick="free")
    assert_sent(guest, "NICK_CHANGED", new_nick="free")
    world.send(guest, "SET_NICK", nick=nick)
    assert_refused(guest, "INVALID_NAME")


def test_a_name_is_not_checked_for_reserved_words_and_need_not_be_unique() -> None:
    """Agentchat wire 3.3."""
    world = World()
    assert world.agent("server").id != world.agent("server").id


def test_a_nick_changes_once_in_30_seconds() -> None:
    world = World()
    guest = world.agent("alice")
    world.send(guest, "SET_NICK", nick="one")
    assert_sent(guest, "NICK_CHANGED")
    world.advance(29)
    world.send(guest, "SET_NICK", nick="two")
    assert_refused(guest, "RATE_LIMITED", "SET_NICK")
    world.advance(1)
    world.send(guest, "SET_NICK", nick="three")
    assert_sent(guest, "NICK_CHANGED", old_nick="one", new_nick="three")
