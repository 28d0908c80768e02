"""Events of a model's program as lines."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.runner.events import Reader, Shown, readable


def shown(*lines: Any) -> list[Shown]:
    reader = Reader()
    content = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return reader.read(content.encode()) + reader.end()


def says(*parts: Any, kind: str = "assistant") -> dict[str, Any]:
    return {"type": kind, "message": {"content": list(parts)}}


def test_text_tools_and_answers_are_shown() -> None:
    assert shown(
        {"type": "system", "subtype": "init"},
        says({"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Hello"}),
        says({"type": "tool_use", "name": "agentchat_send", "input": {"message": "hi"}}),
        says({"type": "tool_result", "content": [{"type": "text", "text": "sent"}]}, kind="user"),
        {"type": "result", "is_error": False, "result": "done"},
    ) == [
        Shown("Hello"),
        Shown('[tool] agentchat_send {"message": "hi"}'),
        Shown('[answer] [{"type": "text", "text": "sent"}]'),
        Shown("[end] done"),
    ]


def test_errors_of_the_program_are_its_own_words() -> None:
    assert shown("a warning", {"type": "result", "is_error": True, "result": "no credit"}) == [
        Shown("a warning", is_own=True),
        Shown("[error] no credit", is_own=True),
    ]


@pytest.mark.parametrize("line", ["{", "{}", "[1]", '{"type": 1}', "{" * 100_000])
def test_what_is_not_an_event_is_shown_as_it_is(line: str) -> None:
    assert shown(line) == [Shown(line, is_own=True)]


@pytest.mark.parametrize(
    "message",
    [None, 1, "x", [], {}, {"content": None}, {"content": 1}, {"content": {"a": 1}}, {"content": [1]}],
)
def test_an_event_of_another_shape_does_no_harm(message: Any) -> None:
    assert shown({"type": "assistant", "message": message}) == []


def test_lines_of_a_command_stay_unless_they_are_events_that_say_something() -> None:
    event = says({"type": "text", "text": "Hello"}, {"type": "tool_use", "name": "x", "input": {}})
    assert readable(json.dumps(event)) == ["Hello", "[tool] x {}"]
    for line in ("", "plain", "{", '{"type": "log", "text": "its own JSON"}'):
        assert readable(line) == [line]


def test_long_arguments_are_cut() -> None:
    (line,) = shown(says({"type": "tool_use", "name": "x", "input": "y" * 10_000}))
    assert len(line.text) < 2100


def test_a_line_without_an_end_is_passed_on_in_pieces() -> None:
    reader, found = Reader(), 0
    for _ in range(100):
        found += sum(len(each.text) for each in reader.read(b"x" * 64 * 1024))
    found += sum(len(each.text) for each in reader.end())
    assert found == 100 * 64 * 1024


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_pieces_of_any_size_make_the_same_lines(pieces: list[bytes]) -> None:
    reader, whole = Reader(), Reader()
    found = [each for piece in pieces for each in reader.read(piece)] + reader.end()
    assert found == whole.read(b"".join(pieces)) + whole.end()


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_any_json_is_read(value: Any) -> None:
    shown({"type": "assistant", "message": {"content": [value, {"type": "text", "text": value}]}}, value)
    shown({"type": "result", "result": value, "is_error": value})
