"""What a command tells of its use, in events and in words."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.guard.usage import MOST_MESSAGES, NO_CALLS, Calls, EventUsage, LineUsage


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def assistant(message_id: str | None, usage: object, *calls: tuple[str, str]) -> bytes:
    content = [{"type": "tool_use", "id": call, "name": name, "input": {}} for call, name in calls]
    return line(type="assistant", message={"id": message_id, "content": content, "usage": usage})


def used(tokens_in: int, tokens_out: int) -> dict[str, int]:
    return {"input_tokens": tokens_in, "output_tokens": tokens_out}


# -- words on standard error (agentchat wire 19.5)


@pytest.mark.parametrize(
    ("text", "tokens_in", "tokens_out"),
    [
        (b'{"input_tokens": 12, "output_tokens": 34}', 12, 34),
        (b'"input_tokens":12', 12, 0),
        (b"Input tokens: 1200, Output tokens: 7", 1200, 7),
        (b"Output tokens:9", 0, 9),
        (b"Input tokens: many", 0, 0),
        (b"cache_read_input_tokens: 5", 0, 0),
        (b'"input_tokens": 99999999999999999999', 0, 0),
    ],
)
def test_tokens_in_words(text: bytes, tokens_in: int, tokens_out: int) -> None:
    usage = LineUsage()
    usage.read(text)
    assert (usage.tokens_in, usage.tokens_out) == (tokens_in, tokens_out)


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1))
def test_the_highest_number_counts(seen: list[tuple[int, int]]) -> None:
    usage = LineUsage()
    for tokens_in, tokens_out in seen:
        usage.read(b'"input_tokens": %d, "output_tokens": %d' % (tokens_in, tokens_out))
    assert usage.tokens_in == max(tokens_in for tokens_in, _ in seen)
    assert usage.tokens_out == max(tokens_out for _, tokens_out in seen)


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (b"Using tool Bash", Calls(1, 0)),
        (b"Tool call: Bash, Tool call: Read", Calls(1, 0)),
        (b'{"type":"tool_use"}', Calls(1, 0)),
        (b"Using tool mcp__agentchat__agentchat_send", Calls(1, 1)),
        (b"agentchat_send", Calls(0, 0)),
        (b"a tool", Calls(0, 0)),
    ],
)
def test_tool_calls_in_words(text: bytes, calls: Calls) -> None:
    assert LineUsage().read(text) == calls


# -- events on standard output


@given(
    st.dictionaries(st.text(max_size=5), st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=9)
)
def test_messages_are_added_up_and_each_counts_once(messages: dict[str, tuple[int, int]]) -> None:
    usage = EventUsage()
    for _ in range(2):  # each content block of a message comes with the usage of all of it
        for message_id, (tokens_in, tokens_out) in messages.items():
            usage.read(assistant(message_id, used(tokens_in, tokens_out // 2)))
            usage.read(assistant(message_id, used(tokens_in, tokens_out)))
    assert usage.tokens_in == sum(tokens_in for tokens_in, _ in messages.values())
    assert usage.tokens_out == sum(tokens_out for _, tokens_out in messages.values())


def test_messages_without_an_id_are_different_ones() -> None:
    usage = EventUsage()
    for _ in range(3):
        usage.read(assistant(None, used(5, 7)))
    assert (usage.tokens_in, usage.tokens_out) == (15, 21)


def test_a_token_from_the_cache_counts_a_tenth() -> None:
    usage = EventUsage()
    tokens = {"input_tokens": 3, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 5000}
    usage.read(assistant("a", tokens))
    assert (usage.tokens_in, usage.tokens_out) == (543, 0)


def test_the_result_has_the_last_word_if_it_is_higher() -> None:
    usage = EventUsage()
    usage.read(assistant("a", used(10, 2)))
    usage.read(line(type="result", usage=used(8, 500)))
    assert (usage.tokens_in, usage.tokens_out) == (10, 500)


def test_parts_of_a_message_count_for_it() -> None:
    usage = EventUsage()
    start = {"type": "message_start", "message": {"id": "a", "usage": used(10, 1)}}
    usage.read(line(type="stream_event", event=start, parent_tool_use_id=None))
    other = {"type": "message_start", "message": {"id": "b", "usage": used(100, 1)}}
    usage.read(line(type="stream_event", event=other, parent_tool_use_id="toolu_1"))
    end = {"type": "message_delta", "usage": {"output_tokens": 50}}
    usage.read(line(type="stream_event", event=end, parent_tool_use_id=None))
    usage.read(assistant("a", used(10, 1)))
    assert (usage.tokens_in, usage.tokens_out) == (110, 51)


def test_tool_calls_are_counted_once() -> None:
    usage = EventUsage()
    event = assistant("a", used(1, 1), ("t1", "Bash"), ("t2", "mcp__agentchat__agentchat_send"))
    assert usage.read(event) == Calls(2, 1)
    assert usage.read(event) == NO_CALLS
    assert usage.read(assistant("a", used(1, 1), ("t3", "agentchat_send"))) == Calls(1, 1)


def test_memory_is_bounded_and_the_sum_is_kept() -> None:
    usage = EventUsage()
    for number in range(MOST_MESSAGES * 2):
        usage.read(assistant(str(number), used(1, 1), (f"t{number}", "Bash")))
    assert (usage.tokens_in, usage.tokens_out) == (MOST_MESSAGES * 2, MOST_MESSAGES * 2)
    assert len(usage._messages) == len(usage._calls) == MOST_MESSAGES


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(st.sampled_from(["assistant", "stream_event", "result", "x"]), anything, anything)
def test_events_of_any_form_are_read(kind: str, one: object, other: object) -> None:
    usage = EventUsage()
    usage.read(line(type=kind, message=one, event=one, usage=other))
    usage.read(line(type=kind, message={"id": one, "usage": other, "content": [one, other]}))
    usage.read(line(type=kind, message={"content": one, "usage": {"input_tokens": other}}))
    usage.read(line(type=kind, event={"type": "message_start", "message": one}))
    usage.read(line(type=kind, event={"type": "message_delta", "usage": other}))
    assert usage.tokens_in >= 0
    assert usage.tokens_out >= 0


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"usage",
        b"[1]",
        b'{"usage": NaN',
        b'{"a":' * 100_000,
        b"{\xff}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_what_is_not_an_event_is_passed_over(text: bytes) -> None:
    assert EventUsage().read(text) == NO_CALLS


def test_numbers_without_sense_do_not_count() -> None:
    usage = EventUsage()
    usage.read(assistant("a", {"input_tokens": -5, "output_tokens": True}))
    usage.read(assistant("b", {"input_tokens": 1.5, "output_tokens": "9"}))
    assert (usage.tokens_in, usage.tokens_out) == (0, 0)
    usage.read(assistant("c", {"input_tokens": 10**30}))
    assert usage.tokens_in == 10**15
