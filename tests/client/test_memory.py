from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from moothall.client.memory import Memory, Replayed, find_missed, key_of
from moothall.client.message import Message
from moothall.wire.agentchat.server import Chat

GENERAL = "#general"


def said(number: int, **changes: Any) -> Message:
    """The message that was said at this time."""
    fields: dict[str, Any] = {
        "ts": number,
        "from_": "@bob",
        "from_name": "bob",
        "to": GENERAL,
        "content": f"line {number}",
        "msg_id": f"{number}-x",
        "replay": True,
    }
    chat = Chat(**{**fields, **changes})
    return Message(chat, b"{}", None)  # type: ignore[arg-type]  # nobody answers here


def repeat(memory: Memory, *messages: Message) -> list[Replayed]:
    return [Replayed(message, not memory.knows(GENERAL, key_of(message))) for message in messages]


def listen(memory: Memory, *numbers: int) -> None:
    for number in numbers:
        memory.hear(GENERAL, key_of(said(number)), number)


def test_what_was_heard_once_is_not_news() -> None:
    memory = Memory()
    assert memory.hear(GENERAL, "1-x", 1)
    assert not memory.hear(GENERAL, "1-x", 1)
    assert memory.hear("#other", "1-x", 1)


def test_lines_without_an_id_are_told_apart_by_what_they_say() -> None:
    joined = said(5, msg_id=None, from_="@server", content="bob joined")
    assert key_of(joined) == key_of(said(5, msg_id=None, from_="@server", content="bob joined"))
    assert key_of(joined) != key_of(said(5, msg_id=None, from_="@server", content="eve joined"))
    assert key_of(joined) != key_of(said(6, msg_id=None, from_="@server", content="bob joined"))


@given(st.lists(st.integers(0, 40)))
def test_memory_is_bounded_and_never_hears_what_it_still_knows_again(numbers: list[int]) -> None:
    memory = Memory(remembered=8)
    for number in numbers:
        memory.hear(GENERAL, number_key(number), number)
        assert not memory.hear(GENERAL, number_key(number), number)
    assert len(memory.mark(GENERAL).keys) <= 8


def number_key(number: int) -> str:
    return f"{number}-x"


def test_what_is_older_than_the_memory_is_no_news() -> None:
    memory = Memory(remembered=3)
    listen(memory, 10, 11, 12, 13)
    assert not memory.hear(GENERAL, "5-x", 5)


def test_who_left_a_channel_starts_anew() -> None:
    memory = Memory()
    listen(memory, 1)
    memory.forget(GENERAL)
    assert memory.hear(GENERAL, "1-x", 1)


# -- gaps ----------------------------------------------------------------------------------------------


def test_a_gap_shows_what_was_said_since() -> None:
    memory = Memory()
    listen(memory, 1, 2)
    found = find_missed(memory.mark(GENERAL), repeat(memory, said(1), said(2), said(3), said(4)))
    assert [message.content for message in found.missed] == ["line 3", "line 4"]
    assert found.complete


def test_a_gap_in_which_nothing_was_said_is_complete() -> None:
    memory = Memory()
    listen(memory, 1)
    found = find_missed(memory.mark(GENERAL), repeat(memory, said(1)))
    assert found.missed == ()
    assert found.complete


def test_a_channel_that_forgot_what_the_agent_knew_may_have_lost_more() -> None:
    memory = Memory()
    listen(memory, 1, 2)
    found = find_missed(memory.mark(GENERAL), repeat(memory, said(8), said(9)))
    assert [message.content for message in found.missed] == ["line 8", "line 9"]
    assert not found.complete


def test_a_restarted_hall_that_remembers_nothing_may_have_lost_something() -> None:
    memory = Memory()
    listen(memory, 1)
    assert not find_missed(memory.mark(GENERAL), []).complete


def test_a_channel_in_which_nobody_ever_spoke_lost_nothing() -> None:
    assert find_missed(Memory().mark(GENERAL), []).complete


def test_what_was_heard_live_after_coming_back_is_neither_missed_nor_a_proof() -> None:
    memory = Memory()
    listen(memory, 1)
    mark = memory.mark(GENERAL)
    listen(memory, 9)  # said after the agent came back, before it asked what it had missed
    found = find_missed(mark, repeat(memory, said(8), said(9)))
    assert [message.content for message in found.missed] == ["line 8"]
    assert not found.complete


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 20))
def test_complete_means_complete(before: int, during: int, buffer: int) -> None:
    """Whatever the channel remembers, a gap that calls itself complete misses nothing."""
    memory = Memory()
    listen(memory, *range(before))
    everything = [said(number) for number in range(before + during)]
    found = find_missed(memory.mark(GENERAL), repeat(memory, *everything[-buffer:]))
    shown = {message.content for message in found.missed}
    lost = {f"line {number}" for number in range(before, before + during)}
    assert shown <= lost
    if found.complete:
        assert shown == lost
