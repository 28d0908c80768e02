"""Nick and presence (seed 001, presence; agentchat wire 5.1)."""

import pytest

from moothall.hall.presence import TICK
from moothall.settings.limits import Rate
from tests.support.world import Guest, World, assert_refused, assert_sent, assert_silent

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


def test_changes_within_a_tick_are_told_together_and_each_agent_once() -> None:
    world = World()
    alice, bob, carol = (world.agent(name, join="#general") for name in ("alice", "bob", "carol"))
    world.hush()
    world.send(alice, "SET_PRESENCE", status="away")
    assert_sent(carol, "PRESENCE_CHANGED", agent_id=alice.id, presence="away")
    for status in ("busy", "away", "listening"):
        world.send(alice, "SET_PRESENCE", status=status)
        world.send(bob, "SET_PRESENCE", status=status)
    assert_silent(carol)
    frames = len(carol.link.frames)
    world.advance(TICK)
    assert_sent(carol, "PRESENCE_CHANGED", agent_id=alice.id, presence="listening")
    assert_sent(carol, "PRESENCE_CHANGED", agent_id=bob.id, presence="listening")
    assert len(carol.link.frames) == frames + 1, "one write for both"
    assert_sent(bob, "PRESENCE_CHANGED", agent_id=alice.id, presence="away")
    assert_sent(bob, "PRESENCE_CHANGED", agent_id=alice.id, presence="listening")
    assert_sent(alice, "PRESENCE_CHANGED", agent_id=bob.id, presence="listening")
    assert_silent(alice, bob, carol)


def test_after_a_quiet_tick_a_change_is_told_at_once_again() -> None:
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    for status in ("away", "busy"):
        world.send(alice, "SET_PRESENCE", status=status)
        assert_sent(bob, "PRESENCE_CHANGED", presence=status)
        world.advance(2 * TICK)


def test_changes_told_together_reach_each_member_of_shared_channels_once() -> None:
    world = World()
    both = ["#general", "#agents"]
    starter = world.agent(join="#discovery")
    alice, bob = world.agent("alice", join=both), world.agent("bob", join="#agents")
    member, other, elsewhere = world.agent(join=both), world.agent(join="#agents"), world.agent()
    world.hush()
    for agent in (starter, alice, bob):
        world.send(agent, "SET_PRESENCE", status="busy")
    world.advance(TICK)
    for guest in (member, other):
        assert {message["agent_id"] for message in guest.read()} == {alice.id, bob.id}
    assert [message["agent_id"] for message in bob.read()] == [alice.id]
    assert [message["agent_id"] for message in alice.read()] == [bob.id]
    assert_silent(starter, elsewhere)


def test_an_agent_that_left_within_the_tick_is_not_told_of() -> None:
    world = World()
    alice, bob, carol = (world.agent(join="#general") for _ in range(3))
    world.hush()
    world.send(alice, "SET_PRESENCE", status="away")
    world.send(bob, "SET_PRESENCE", status="away")
    world.disconnect(bob)
    carol.read()
    world.advance(TICK)
    assert_silent(carol)


def test_a_flood_of_changes_costs_each_member_one_write_per_tick() -> None:
    world = World(rate_post_auth=Rate(0, 1), address_told=Rate(0, 1), budget_told=Rate(0, 1))
    guests = [world.agent(join="#general") for _ in range(40)]
    world.hush()
    world.send(guests[0], "SET_PRESENCE", status="busy")
    before = [len(guest.link.frames) for guest in guests]
    for status in ("away", "busy", "online") * 10:
        for guest in guests:
            world.send(guest, "SET_PRESENCE", status=status)
    world.advance(TICK)
    assert [len(guest.link.frames) for guest in guests] == [count + 1 for count in before]
    assert len(guests[0].read()) == 39


def test_a_status_text_has_100_characters_at_most() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "SET_PRESENCE", status="busy", status_text="x" * 100)
    assert_silent(guest)
    world.send(guest, "SET_PRESENCE", status="busy", status_text="x" * 101)
    assert_refused(guest, "INVALID_MSG", "`status_text`")
    assert world.hall.roster.agents[guest.id[1:]].status_text == "x" * 100


def test_a_status_text_is_cleared_by_leaving_it_out_and_null_is_invalid() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "SET_PRESENCE", status="busy", status_text="thinking")
    world.send(guest, "SET_PRESENCE", status="busy", status_text=None)
    assert_refused(guest, "INVALID_MSG", "`status_text`")
    assert world.hall.roster.agents[guest.id[1:]].status_text == "thinking"
    world.send(guest, "SET_PRESENCE", status="online")
    assert world.hall.roster.agents[guest.id[1:]].status_text is None


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
    assert world.hall.roster.agents[guest.id[1:]].name == "alice"
    world.send(guest, "SET_NICK", nick="free")
    assert_sent(guest, "NICK_CHANGED", new_nick="free")
    world.send(guest, "SET_NICK", nick=nick)
    assert_refused(guest, "INVALID_NAME")


def test_a_name_may_be_a_reserved_word_but_server_and_need_not_be_unique() -> None:
    """Agentchat wire 3.3; that no agent is called Server is ours."""
    world = World()
    assert world.agent("bot").id != world.agent("bot").id


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


# -- what others read of a status text -------------------------------------------------------------------


def status_text(reader: Guest) -> str | None:
    text: str | None = assert_sent(reader, "PRESENCE_CHANGED")["status_text"]
    return text


def test_a_status_text_is_on_one_line_and_has_no_characters_that_cannot_be_seen() -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent(join="#general")
    world.hush()
    world.send(
        alice, "SET_PRESENCE", status="busy", status_text="one\r\ntwo\u202e\u200bthree\u2028four \ud800"
    )
    assert status_text(bob) == "one twothree four "


def test_secrets_are_taken_out_of_a_status_text() -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "SET_PRESENCE", status="busy", status_text=f"sk-ant-\u200b{'x' * 30}")
    assert status_text(bob) == "[REDACTED:anthropic_api_key]"
    assert world.log.find("secrets_redacted")


def test_moderation_sees_a_status_text() -> None:
    world = World(moderation=True)
    alice, bob = world.agent("alice", join="#general"), world.agent(join="#general")
    world.hush()
    for _ in range(12):
        world.send(alice, "SET_PRESENCE", status="busy", status_text="see https://example.com")
    assert [message["code"] for message in alice.read() if message["type"] == "ERROR"][-1] == "NOT_ALLOWED"
    assert len(bob.read()) < 12
    assert world.log.find("moderated")


def test_a_lurker_shows_its_presence_but_no_text() -> None:
    world = World()
    lurker, bob = world.agent("lurker", join="#general"), world.agent(join="#general")
    world.hall.roster.agents[lurker.id[1:]].lurking = True
    world.hush()
    world.send(lurker, "SET_PRESENCE", status="busy", status_text="buy my coin")
    assert_refused(lurker, "LURK_MODE", "status_text")
    assert_silent(bob)
    world.send(lurker, "SET_PRESENCE", status="listening")
    assert status_text(bob) is None
