"""One line of the outbox: a draft, or why it is none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.daemon.drafts import Draft, Unreadable, parse

TEXT = st.text(st.characters(codec="utf-8"), min_size=1)
CHANNELS = st.from_regex(r"\A#[a-zA-Z0-9_-]{1,20}\Z")
AGENTS = st.from_regex(r"\A@[0-9a-z]{8}\Z")


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


@given(CHANNELS | AGENTS, TEXT, st.none() | TEXT)
def test_what_the_reference_writes_is_a_draft(to: str, content: str, in_reply_to: str | None) -> None:
    assert parse(line(to=to, content=content)) == Draft(to, content)
    found = parse(line(to=to, content=content, in_reply_to=in_reply_to, id="mine", more=[1]))
    assert found == Draft(to, content, in_reply_to, "mine")


@given(st.binary() | st.text().map(str.encode))
def test_any_line_is_a_draft_or_has_a_reason(content: bytes) -> None:
    assert isinstance(parse(content), Draft | Unreadable)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["to", "content", "id", "in_reply_to"]), inner)
    ),
)


@given(JSON)
def test_any_json_is_a_draft_or_has_a_reason(value: object) -> None:
    found = parse(json.dumps(value).encode())
    if isinstance(found, Draft):
        assert found.to[0] in "#@"
        assert found.content
    else:
        assert found.reason


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"hello", "not JSON"),
        (b'{"to": "#a", "content": "half', "not JSON"),
        (b"\xff", "UTF-8"),
        (b"[" * 100_000, "not JSON"),
        (b"17", "not an object"),
        (line(content="x"), "`to`"),
        (line(to="general", content="x"), "`to`"),
        (line(to="#", content="x"), "`to`"),
        (line(to="@", content="x"), "`to`"),
        (line(to="@a b", content="x"), "`to`"),
        (line(to="#general"), "`content`"),
        (line(to="#general", content=""), "`content`"),
        (line(to="#general", content=["x"]), "`content`"),
        (line(to="#general", content="x", in_reply_to=3), "`in_reply_to`"),
        (line(to="#general", content="x", id="x" * 101), "`id`"),
    ],
)
def test_the_reason_names_what_is_wrong(content: bytes, reason: str) -> None:
    found = parse(content)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_the_writers_id_is_repeated_if_it_could_be_read() -> None:
    assert parse(line(to="nowhere", content="x", id="mine")).id == "mine"
