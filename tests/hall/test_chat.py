"""Talking (seed 000, communicate, message flow; agentchat wire 9.3, 9.4, 15)."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.settings.limits import Rate
from moothall.wire.agentchat.jstext import utf16_length
from tests.identity.vectors import ALICE
from tests.support.world import (
    ABSENT,
    Guest,
    World,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

SECRET = "ghp_" + "a1B2" * 9


def room(world: World, channel: str = "#general", size: int = 3) -> list[Guest]:
    """So many agents in a channel who have read everything."""
    guests = [world.agent(f"agent{number}", join=channel) for number in range(size)]
    world.hush()
    return guests


# -- seed 000, communicate; message flow, routing ------------------------------------------------------


def test_communicate_step_1_to_a_channel_and_to_an_agent() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="hello all")
    assert_sent(bob, "MSG", to="#general", content="hello all")
    world.advance(1)
    world.send(alice, "MSG", to=bob.id, content="hello you")
    assert_sent(bob, "MSG", to=bob.id, content="hello you")


@pytest.mark.parametrize("to", ["general", "bob", "b8de75d1", " #general", "\ud800"])
def test_communicate_step_1_a_target_starts_with_a_hash_or_an_at(to: str) -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "MSG", to=to, content="hello")
    assert_refused(guest, "INVALID_MSG", "`to`")


def test_a_signature_is_no_way_around_the_limit_of_the_content() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="", sig="x" * 1024)
    assert_sent(bob, "MSG", sig="x" * 1024)
    world.advance(1)
    world.send(alice, "MSG", to="#general", content="", sig="x" * 1025)
    assert_refused(alice, "INVALID_MSG", "`sig`")
    assert_silent(bob)


def test_communicate_step_2_content_has_4096_characters_at_most() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="x" * 4096)
    assert_sent(bob, "MSG", content="x" * 4096)
    world.advance(1)
    world.send(alice, "MSG", to="#general", content="x" * 4097)
    assert_refused(alice, "INVALID_MSG", "`content`")
    assert_silent(bob)


def test_communicate_step_2_characters_are_utf16_code_units() -> None:
    """Agentchat wire 2.4."""
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="😀" * 2048)
    assert_sent(bob, "MSG")
    world.advance(1)
    world.send(alice, "MSG", to="#general", content="😀" * 2048 + "x")
    assert_refused(alice, "INVALID_MSG", "`content`")
    assert_silent(bob)


@pytest.mark.parametrize("limit", [1, 7, 4096, 100_000])
def test_an_operator_chooses_how_long_a_message_may_be(limit: int) -> None:
    world = World(max_content=limit, no_limits=True)
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    for fits in ("x" * limit, "\u00e9" * limit, "🦀" * (limit // 2)):
        world.send(alice, "MSG", to="#general", content=fits)
        assert_sent(bob, "MSG", content=fits)
    for too_long in ("x" * (limit + 1), "🦀" * (limit // 2 + 1)):
        world.send(alice, "MSG", to="#general", content=too_long)
        assert_refused(alice, "INVALID_MSG", f"at most {limit} characters")
    assert_silent(bob)


@pytest.mark.parametrize("limit", [4096, 100_000])
def test_welcome_tells_how_long_a_message_may_be(limit: int) -> None:
    world = World(max_content=limit)
    guest = world.connect()
    world.identify(guest)
    assert_sent(guest, "WELCOME", max_content=limit)


def test_a_long_message_costs_more_than_a_short_one() -> None:
    """It is searched, and copied to each member: a few of them would take all of the loop's time."""
    world = World("agentchat-0.36", rate_message=Rate(0, 1))
    alice, bob = world.agent("alice", ip="192.0.2.1"), world.agent("bob", ip="192.0.2.2")
    world.hush()
    for _ in range(4):
        world.send(alice, "MSG", to=bob.id, content="x" * world.settings.max_content)
    assert len(bob.read()) < 4
    world.advance(60)
    assert len(bob.read()) >= 1  # none is lost: what is over the budget waits
    for number in range(50):
        world.send(alice, "MSG", to=bob.id, content=str(number))
    assert [message["content"] for message in bob.read()] == [str(number) for number in range(50)]


def test_mentions_far_inside_a_long_message_take_no_memory() -> None:
    world = World("agentchat-0.36", no_limits=True)
    alice = world.agent("alice")
    world.send(alice, "MSG", to="#general", content="@a " * 500_000)
    (names,) = world.hall.exemptions._names.values()
    assert len(names or "") < 10_000


@given(st.tuples(st.integers(0, 4096), st.integers(0, 100), st.integers(0, 2100), st.integers(0, 100)))
def test_communicate_step_2_the_limit_is_exact_for_every_mixture(counts: tuple[int, ...]) -> None:
    content = "".join(character * count for character, count in zip("aé😀\ud800", counts, strict=True))
    world = World(no_limits=True)
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content=content)
    if utf16_length(content) <= 4096:
        assert_sent(bob, "MSG", content=content)
    else:
        assert_refused(alice, "INVALID_MSG", "`content`")
        assert_silent(bob)


def test_communicate_step_2_content_may_be_empty() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="")
    assert_sent(bob, "MSG", content="")


@pytest.mark.parametrize("channel", ["#agents", "#nowhere", "#not a channel"])
def test_communicate_step_3_only_to_channels_one_is_in(channel: str) -> None:
    """Seed 000, channel errors: the same code whether the channel exists or not."""
    world = World()
    alice, *_ = room(world)
    other = world.agent(join="#agents")
    world.send(alice, "MSG", to=channel, content="hello")
    assert_refused(alice, "CHANNEL_NOT_FOUND", channel)
    assert_silent(other)
    assert_open(alice)


def test_communicate_step_3_having_been_there_is_not_enough() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "LEAVE", channel="#general")
    alice.read()
    bob.read()
    world.send(alice, "MSG", to="#general", content="hello")
    assert_refused(alice, "CHANNEL_NOT_FOUND")
    assert_silent(bob)


def test_communicate_step_4_a_channel_message_goes_to_all_members_but_the_sender() -> None:
    world = World()
    alice, *others = room(world, size=5)
    outsider = world.agent(join="#agents")
    world.send(alice, "MSG", to="#general", content="hello")
    for guest in others:
        assert_sent(guest, "MSG", content="hello")
    assert_silent(alice, outsider, *others)


def test_communicate_step_4_a_direct_message_goes_to_its_target_only() -> None:
    world = World()
    alice, bob, carol = room(world)
    world.send(alice, "MSG", to=bob.id, content="psst")
    assert_sent(bob, "MSG", content="psst")
    assert_silent(alice, bob, carol)


def test_communicate_step_4_agents_need_no_channel_for_direct_messages() -> None:
    world = World()
    alice, bob = world.agent(), world.agent()
    world.send(alice, "MSG", to=bob.id, content="psst")
    assert_sent(bob, "MSG", to=bob.id)


def test_communicate_step_4_one_may_write_to_oneself() -> None:
    world = World()
    alice = world.agent()
    world.send(alice, "MSG", to=alice.id, content="note to self")
    assert_sent(alice, "MSG", content="note to self")
    assert_silent(alice)


def test_communicate_step_5_channel_messages_are_buffered_and_direct_ones_are_not() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.say(alice, "#general", "to all")
    world.say(alice, bob.id, "to one")
    assert [message["content"] for message in world.buffered("#general")] == ["to all"]


def test_routing_step_2_the_fields_of_a_message() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    bob = world.agent("bob", join="#general")
    world.advance(5)
    world.send(alice, "MSG", to="#general", content="hello", ts=1)
    message = assert_sent(bob, "MSG")
    assert re.fullmatch(r"[0-9]+-[0-9a-z]{6}", message.pop("msg_id"))
    assert message == {
        "type": "MSG",
        "ts": world.now_ms,
        "from": alice.id,
        "from_name": "alice",
        "to": "#general",
        "content": "hello",
        "verified": True,
    }


def test_routing_step_2_msg_ids_are_never_given_twice() -> None:
    """Floor control needs one on every message (agentchat wire 20, row 19)."""
    world = World(no_limits=True)
    alice, bob, _ = room(world)
    for to in ["#general"] * 50 + [bob.id] * 50:
        world.send(alice, "MSG", to=to, content="x")
    assert len({message["msg_id"] for message in bob.read()}) == 100


def test_routing_step_2_signature_and_thread_are_passed_on_when_they_say_something() -> None:
    """Agentchat wire 9.3."""
    world = World(no_limits=True)
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="x", sig="c2ln", in_reply_to="1-a")
    assert_sent(bob, "MSG", sig="c2ln", in_reply_to="1-a")
    world.send(alice, "MSG", to="#general", content="x", sig="", in_reply_to="")
    assert_sent(bob, "MSG", sig=ABSENT, in_reply_to=ABSENT)
    world.send(alice, "MSG", to="#general", content="x", in_reply_to=None)
    assert_sent(bob, "MSG", sig=ABSENT, in_reply_to=ABSENT)
    world.send(alice, "MSG", to="#general", content="x", sig=None)
    assert_refused(alice, "INVALID_MSG", "`sig`")


def test_direct_routing_step_2_an_unknown_target_is_refused() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.disconnect(bob)
    alice.read()
    for target in ("@nobody", bob.id, "@", "@server"):
        world.advance(1)
        world.send(alice, "MSG", to=target, content="hello")
        assert_refused(alice, "AGENT_NOT_FOUND")
    assert_open(alice)


def test_a_message_reaches_everybody_as_the_same_bytes() -> None:
    """It is encoded once, for now and for later."""
    world = World()
    alice, bob, carol = room(world)
    world.send(alice, "MSG", to="#general", content="hello")
    assert bob.link.frames[-1] is carol.link.frames[-1]


# -- seed 000, buffering and replay --------------------------------------------------------------------


def test_buffering_step_1_every_channel_message_is_appended() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.say(alice, "#general", "one")
    world.say(bob, "#general", "two")
    assert [message["content"] for message in world.buffered("#general")] == ["one", "two"]


@pytest.mark.parametrize(("settings", "kept"), [({}, 20), ({"buffer_size": 3}, 3), ({"buffer_size": 0}, 0)])
def test_buffering_step_2_the_oldest_go_first(settings: dict[str, Any], kept: int) -> None:
    world = World(no_limits=True, **settings)
    alice, *_ = room(world)
    for number in range(25):
        world.send(alice, "MSG", to="#general", content=str(number))
    late = world.agent()
    world.send(late, "JOIN", channel="#general")
    replayed = [message["content"] for message in late.read() if message["type"] == "MSG"]
    assert replayed == [str(number) for number in range(25 - kept, 25)]


def test_buffering_steps_3_and_4_replay_keeps_the_fields_of_the_original() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content='é😀 " \\ \n', sig="s", in_reply_to="r")
    original = assert_sent(bob, "MSG")
    world.advance(100)
    world.send(bob, "JOIN", channel="#general")
    assert assert_sent(bob, "MSG") == {**original, "replay": True}


def test_refused_messages_are_not_buffered() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="one")
    world.send(alice, "MSG", to="#general", content="too fast")
    assert_refused(alice, "RATE_LIMITED")
    assert [message["content"] for message in world.buffered("#general")] == ["one"]
    bob.read()
    assert_silent(bob)


def test_what_is_said_is_kept_nowhere_but_in_the_buffer() -> None:
    """Seed 001, security."""
    world = World()
    alice, bob, _ = room(world)
    world.say(alice, "#general", "between us")
    world.say(alice, bob.id, "between us two")
    assert world.books.lists == {}
    assert "between us" not in repr(world.log.entries)


# -- redaction (agentchat wire 9.6) --------------------------------------------------------------------


def test_secrets_are_hidden_before_anybody_reads_them_and_before_the_buffer() -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content=f"use {SECRET}")
    assert_sent(bob, "MSG", content="use [REDACTED:github_pat]")
    late = world.agent()
    world.send(late, "JOIN", channel="#general")
    assert_sent(late, "MSG", content="use [REDACTED:github_pat]", replay=True)
    world.hush()
    world.advance(1)
    world.send(alice, "MSG", to=bob.id, content=SECRET)
    assert_sent(bob, "MSG", content="[REDACTED:github_pat]")
    assert SECRET not in repr(world.buffered("#general"))


def test_hidden_secrets_are_counted_by_kind_and_never_logged() -> None:
    world = World()
    alice, *_ = room(world)
    world.send(alice, "MSG", to="#general", content=f"{SECRET} {SECRET}")
    assert world.hall.tally.redacted == {"github_pat": 2}
    assert world.log.find("secrets_redacted") == [
        {"ip": "192.0.2.1", "agent": alice.id[1:], "kinds": ["github_pat"]}
    ]
    assert SECRET not in repr(world.log.entries)


def test_the_halls_own_secrets_are_hidden_too() -> None:
    world = World(environment={"DEPLOY_TOKEN": "correct horse battery"})
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content="it is correct horse battery")
    assert_sent(bob, "MSG", content="it is [REDACTED:env:DEPLOY_TOKEN]")


def test_redaction_can_be_turned_off() -> None:
    world = World(redact=False)
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content=SECRET)
    assert_sent(bob, "MSG", content=SECRET)


def test_a_secret_in_the_payload_of_a_callback_is_hidden_too() -> None:
    """Redaction comes before the callback markers (agentchat wire 9.3)."""
    world = World()
    alice, *_ = room(world)
    world.send(alice, "MSG", to="#general", content=f"@@cb:1s@@{SECRET}")
    world.advance(1)
    assert_sent(alice, "MSG", content="@@cb-fire@@[REDACTED:github_pat]")


# -- lone surrogates, end to end (agentchat wire 15.2) -------------------------------------------------


@pytest.mark.parametrize("content", ["half \ud83d", "\ude00 other half", "\ud800\ud800", "é\udfffé"])
def test_half_a_character_passes_through_messages_chunks_and_the_buffer(content: str) -> None:
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "MSG", to="#general", content=content)
    assert_sent(bob, "MSG", content=content)
    world.send(alice, "FILE_CHUNK", to=bob.id, content=content)
    assert_sent(bob, "FILE_CHUNK", content=content)
    world.send(bob, "JOIN", channel="#general")
    assert_sent(bob, "MSG", content=content, replay=True)


def test_two_halves_side_by_side_are_one_character() -> None:
    world = World()
    alice, bob, _ = room(world)
    payload = json.dumps({"type": "MSG", "to": "#general", "content": "X"}).replace("X", "\\ud83d\\ude00")
    world.send_raw(alice, payload.encode())
    assert_sent(bob, "MSG", content="😀")


def test_bytes_that_are_no_text_become_replacement_characters() -> None:
    """A binary frame is read as JavaScript reads it (agentchat wire 1.1)."""
    world = World()
    alice, bob, _ = room(world)
    world.hall.receive_binary(alice.session, b'{"type":"MSG","to":"#general","content":"\xff"}')
    assert_sent(bob, "MSG", content="\ufffd")


# -- FILE_CHUNK (agentchat wire 15) --------------------------------------------------------------------


def test_chunks_are_passed_on_as_they_are() -> None:
    """No redaction, no callbacks, no echo, no buffer, no limit but the frame's."""
    world = World()
    alice, bob, carol = room(world)
    content = json.dumps({"_ft": "chunk", "data": f"{SECRET} @@cb:1s@@x" + "x" * 200_000})
    world.send(alice, "FILE_CHUNK", to=bob.id, content=content)
    chunk = assert_sent(bob, "FILE_CHUNK")
    assert chunk == {
        "type": "FILE_CHUNK",
        "ts": world.now_ms,
        "from": alice.id,
        "to": bob.id,
        "content": content,
    }
    assert_silent(alice, bob, carol)


def test_chunks_go_to_agents_only() -> None:
    """Agentchat wire 7: programs look for `DM targets`."""
    world = World()
    alice, bob, _ = room(world)
    world.send(alice, "FILE_CHUNK", to="#general", content="x")
    assert_refused(alice, "INVALID_MSG", "DM targets")
    world.send(alice, "FILE_CHUNK", to="@nobody", content="x")
    assert_refused(alice, "AGENT_NOT_FOUND")
    assert_silent(bob)


def test_chunks_that_come_faster_than_they_are_read_are_refused() -> None:
    """Whoever is sent a file without having asked for it keeps room for everything else."""
    world = World(outbox_limit=1000)
    alice, bob, _ = room(world)
    bob.link.unread = 401
    world.send(alice, "FILE_CHUNK", to=bob.id, content="x" * 100)
    assert_refused(alice, "RATE_LIMITED", "again in a moment")
    assert_silent(bob)
    bob.link.unread = 400
    world.send(alice, "FILE_CHUNK", to=bob.id, content="x" * 100)
    assert_sent(bob, "FILE_CHUNK")


def test_a_chunk_of_any_size_is_passed_on_to_whoever_has_read_all() -> None:
    world = World(outbox_limit=1000)
    alice, bob, _ = room(world)
    world.send(alice, "FILE_CHUNK", to=bob.id, content="x" * 5000)
    assert_sent(bob, "FILE_CHUNK")


# -- TYPING --------------------------------------------------------------------------------------------


def test_typing_is_shown_to_the_other_members() -> None:
    world = World()
    alice, bob, carol = room(world)
    world.send(alice, "TYPING", channel="#general")
    for guest in (bob, carol):
        assert_sent(guest, "TYPING", from_=alice.id, from_name="agent0", channel="#general")
    assert_silent(alice, bob, carol)


@pytest.mark.parametrize("channel", ["#agents", "#nowhere"])
def test_typing_by_a_non_member_is_dropped_in_silence(channel: str) -> None:
    world = World()
    alice, *_ = room(world)
    other = world.agent(join="#agents")
    world.send(alice, "TYPING", channel=channel)
    assert_silent(alice, other)


def test_typing_by_a_stranger_is_dropped_in_silence() -> None:
    world = World()
    member = world.agent(join="#general")
    stranger = world.connect()
    world.send(stranger, "TYPING", channel="#general")
    assert_silent(stranger, member)
    assert_open(stranger)
