"""What channels keep for agents that join later, and how much memory it takes (seed 000, buffering and replay)."""

import json
from sys import getsizeof

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.history import History
from moothall.hall.shared_memory import SharedMemory
from moothall.wire.agentchat.codec import framed
from moothall.wire.agentchat.server import Chat
from tests.identity.vectors import ALICE
from tests.support.world import World, assert_consistent, assert_sent

PLENTY = 1_000_000


def filled(memory: SharedMemory, *sizes: int, most: int = 100) -> History:
    history = History(memory, most)
    for size in sizes:
        history.add(line(size), size)
    return history


def line(size: int, number: int = 0) -> Chat:
    return Chat("@a", "a", "#general", f"{number}".ljust(size, "."), ts=0)


def sizes(history: History) -> list[int]:
    return [len(message.content) for message in history]


def test_a_history_keeps_so_many_messages() -> None:
    memory = SharedMemory(PLENTY, PLENTY)
    history = filled(memory, 1, 2, 3, 4, most=3)
    assert sizes(history) == [2, 3, 4]
    assert (history.size, memory.used) == (9, 9)


def test_a_history_keeps_so_many_bytes() -> None:
    memory = SharedMemory(PLENTY, per_holder=10)
    assert sizes(filled(memory, 4, 4, 4)) == [4, 4]
    assert sizes(filled(memory, 4, 11)) == []
    assert memory.used == 8


def test_the_fullest_channels_make_room_for_all() -> None:
    memory = SharedMemory(limit=800, per_holder=PLENTY)
    short, long, longer = filled(memory, *[10] * 5), filled(memory, *[10] * 30), filled(memory, *[10] * 45)
    assert (short.size, long.size, longer.size) == (50, 300, 450)
    short.add(line(10), 10)
    assert (short.size, long.size, longer.size) == (60, 300, 340)  # 700 in all: an eighth is free again
    longer.add(line(150), 150)
    assert (short.size, long.size, longer.size) == (60, 300, 300 + 40)
    assert sizes(longer)[-1] == 150
    assert sizes(short) == [10] * 6


def test_a_channel_that_is_gone_takes_its_messages_with_it() -> None:
    memory = SharedMemory(PLENTY, PLENTY)
    gone, stays = filled(memory, 5), filled(memory, 7)
    memory.discard(gone)
    assert (memory.used, sizes(stays)) == (7, [7])


@given(
    st.integers(0, 300),
    st.integers(1, 100),
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 120)), max_size=80),
)
def test_no_sequence_of_messages_takes_more_than_the_limits(
    limit: int, per_channel: int, said: list[tuple[int, int]]
) -> None:
    memory = SharedMemory(limit, per_channel)
    histories = [History(memory, 6) for _ in range(5)]
    kept: list[list[Chat]] = [[] for _ in histories]
    for number, (channel, size) in enumerate(said):
        message = line(size, number)
        histories[channel].add(message, len(message.content))
        kept[channel].append(message)
        assert memory.used == sum(history.size for history in histories) <= limit
        for history, all_said in zip(histories, kept, strict=True):
            messages = list(history)
            assert history.size == sum(sizes(history)) <= per_channel
            assert len(messages) <= 6
            assert messages == all_said[len(all_said) - len(messages) :]  # the newest, in order
            assert framed(history.replay()).count(b'"replay":true}') == len(messages)


@pytest.mark.parametrize("profile", ["seeds", "agentchat-0.36"])
def test_two_hundred_long_messages_do_not_fill_the_memory(profile: str) -> None:
    world = World(
        profile, no_limits=True, max_content=100_000, outbox_limit=1_000_000, replay_memory=1_200_000
    )
    alice = world.agent("alice", key=ALICE)
    for channel in ("#general", "#agents", "#discovery"):
        world.send(alice, "JOIN", channel=channel)
        for number in range(70):
            world.send(alice, "MSG", to=channel, content=f"{number}".ljust(100_000, "."))
        assert_consistent(world)
    bob = world.agent("bob")
    world.send(bob, "LEAVE", channel="#general")
    bob.read()
    world.send(bob, "JOIN", channel="#general")
    replayed = [message["content"] for message in bob.read() if len(message.get("content", "")) == 100_000]
    assert replayed[-1].startswith("69.")
    assert len(replayed) <= 4
    assert sum(map(len, bob.link.frames)) < 2 * world.settings.outbox_limit


def test_a_text_is_counted_as_what_it_takes_in_memory() -> None:
    world = World("agentchat-0.36", no_limits=True)
    alice = world.agent("alice")
    for content in ("x" * 1_000_000, "x" * 999_998 + "🦀", "\x01" * 300_000):
        world.hall.channels.memory.discard(world.hall.channels.find("#help").buffer)
        world.send(alice, "MSG", to="#help", content=content)
        assert world.hall.channels.memory.used >= max(getsizeof(content), len(json.dumps(content)))


def test_a_long_message_is_replayed_in_the_profile() -> None:
    world = World("agentchat-0.36")
    alice = world.agent("alice", key=ALICE)
    content = "x" * world.settings.max_content
    world.say(alice, "#help", content)
    bob = world.agent("bob")
    world.send(bob, "JOIN", channel="#help")
    assert_sent(bob, "JOINED")
    assert_sent(bob, "MSG", content=content, replay=True)
