"""JSON text <-> typed messages: whatever arrives, it is a message, or Malformed, or InvalidMessage."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage
from moothall.wire.agentchat import server
from moothall.wire.agentchat.client import ClientMessage, FileChunk, Msg, Ping, RespondingTo, SearchSkills
from moothall.wire.agentchat.codec import Malformed, Slow, as_replay, decode, encode, read_ref, with_ref
from tests.hall.test_commands import OPTIONAL, TABLE

# One of two fields is required: see test_an_error_names_the_field_and_the_rule.
EITHER = (("GET_CASE", "dispute_id"), ("ADMIN_SET_BUDGET", "tokens"))


def reason(payload: bytes | dict[str, Any]) -> str:
    """Why a message is refused."""
    with pytest.raises(InvalidMessage) as refused:
        decode(payload if isinstance(payload, bytes) else json.dumps(payload).encode())
    assert refused.value.__cause__ is None
    return refused.value.message


def attempt(payload: bytes) -> ClientMessage | None:
    """Decode; anything but the two errors fails the test."""
    try:
        return decode(payload)
    except (InvalidMessage, Malformed):
        return None


# -- what can arrive -----------------------------------------------------------------------------------

any_text = st.text(st.characters(exclude_categories=()), max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(2**63 - 2, 2**65)
    | st.sampled_from([10**30, -(10**400), 1e308, 5e-324, -0.0])
    | st.floats()  # NaN and infinities too: json.dumps writes them, and they are no JSON
    | any_text
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=10,
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Any message type, with any value of any type in any of its fields."""
    kind = draw(st.sampled_from(sorted(TABLE)))
    fields: dict[str, Any] = {"type": kind, **TABLE[kind][3]}
    for name in draw(st.sets(st.sampled_from([*sorted(fields), "ref", "sig", "reason", "elo_stake"]))):
        fields[name] = draw(values)
    return fields


@given(messages(), st.booleans())
def test_any_value_in_any_field_is_a_message_or_a_reason(fields: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(fields, ensure_ascii=ascii_only)
    message = attempt(text.encode(errors="surrogatepass"))
    if message is not None:
        assert message.__struct_config__.tag == fields["type"]


@given(values)
def test_any_json_is_a_message_or_a_reason(value: Any) -> None:
    attempt(json.dumps(value).encode())


@given(st.binary(max_size=200))
@example(b"")
@example(b"\x00")
@example(b"\xff\xfe{}")
@example(b"\xef\xbb\xbf{}")
@example(b'{"type":"PING"}\x00')
def test_any_bytes_are_malformed_or_a_reason(payload: bytes) -> None:
    attempt(payload)
    read_ref(payload)


@given(messages(), st.data())
def test_a_message_that_is_cut_or_spoiled_anywhere_raises_nothing_else(
    fields: dict[str, Any], data: st.DataObject
) -> None:
    payload = bytearray(json.dumps(fields).encode())
    position = data.draw(st.integers(0, len(payload) - 1))
    payload[position] = data.draw(st.integers(0, 255))
    attempt(bytes(payload))
    attempt(bytes(payload[:position]))


@pytest.mark.parametrize("half_character", [b"", rb'"\ud800",', rb'"\\ud800",', b'"\xff\\uD800",'])
@pytest.mark.parametrize("field", [b"status", b"junk"])
@pytest.mark.parametrize("end", [b"", b"]", b"]}}", b",]}"])
def test_what_is_not_json_is_never_read_slowly(half_character: bytes, field: bytes, end: bytes) -> None:
    with pytest.raises(Malformed):
        decode(b'{"type":"SET_PRESENCE","%b":[%b1.5' % (field, half_character) + end, slowly=False)


@given(messages())
def test_those_who_do_not_want_to_wait_are_told_before(fields: dict[str, Any]) -> None:
    fields["half"] = "\ud800"
    with suppress(Malformed, InvalidMessage), pytest.raises(Slow):  # NaN, or nested
        decode(json.dumps(fields).encode(), slowly=False)


@pytest.mark.parametrize(
    ("payload", "named"),
    [
        (rb'{"type":"SET_PRESENCE","status":"\ud800"}', "presence status"),
        (rb'{"type":"RESPONDING_TO","msg_id":"1","channel":"#a","started_at":"\udc00"}', "`started_at`"),
        (rb'{"type":"CREATE_CHANNEL","channel":"#a","invite_only":"\ud800"}', "`invite_only`"),
        (rb'{"type":"\ud800"}', "message type"),
        (rb'{"type":"SET_PRESENCE","x":1e400,"status":"\ud800"}', "Lone surrogate"),
    ],
)
def test_half_a_character_where_no_free_text_belongs_is_a_reason(payload: bytes, named: str) -> None:
    assert named in reason(payload)


def test_half_a_character_in_the_name_of_an_unknown_field_is_ignored_with_it() -> None:
    message = decode(rb'{"type":"FILE_CHUNK","to":"@a","content":"\ud83d","\ud800":1}')
    assert isinstance(message, FileChunk)
    assert message.content == "\ud83d"


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("half_character", [b"", b'"\\ud800",'])
def test_nesting_is_a_reason_however_deep(opening: bytes, closed: bool, half_character: bytes) -> None:
    closing = b"]" if opening == b"[" else b"}"
    for depth in (*range(1, 1200), 10_000, 200_000 // len(opening)):
        inner = b"1"
        nested = opening * depth + inner + closing * depth * closed
        payload = b'{"type":"SEARCH_SKILLS","x":[' + half_character + b'1],"query":' + nested + b"}" * closed
        message = attempt(payload)
        assert message is None or isinstance(message, SearchSkills)
    assert "deep" in reason(payload) if closed else True


def test_deep_nesting_where_nobody_looks_is_a_reason_too() -> None:
    nested = b"[" * 100_000 + b"]" * 100_000
    assert "deep" in reason(b'{"type":"PING","x":' + nested + b"}")
    assert read_ref(b'{"type":"PING","ref":"r","x":' + nested + b"}") is None


@pytest.mark.parametrize(
    "constant", ["NaN", "Infinity", "-Infinity", "undefined", "True", "'x'", "01", "+1", ".5"]
)
@pytest.mark.parametrize("half_character", ["", '"y":"\\ud800",'])
def test_what_javascript_does_not_parse_is_malformed(constant: str, half_character: str) -> None:
    with pytest.raises(Malformed):
        decode(f'{{"type":"PING",{half_character}"x":{constant}}}'.encode())


@pytest.mark.parametrize("number", ["1" * 30, "1" * 300, "-" + "9" * 40, "1e300", "0.1", "1E5"])
def test_numbers_of_any_size_that_a_double_holds(number: str) -> None:
    payload = f'{{"type":"RESPONDING_TO","msg_id":"m","channel":"#c","started_at":{number}}}'.encode()
    message = decode(payload)
    assert isinstance(message, RespondingTo)
    assert message.started_at == float(number) or message.started_at == int(number)
    notice = server.RespondingNotice(
        ts=1, msg_id="m", from_="@a", started_at=message.started_at, channel="#c"
    )
    assert json.loads(encode(notice))["started_at"] == message.started_at


@pytest.mark.parametrize(
    "number", ["1" * 400, "1e309", "-1e309", "0", "-0.0", "1" * 5000, "true", '"1"', "null"]
)
def test_numbers_that_are_no_time_are_refused(number: str) -> None:
    payload = f'{{"type":"RESPONDING_TO","msg_id":"m","channel":"#c","started_at":{number}}}'
    assert "started_at" in reason(payload.encode())
    # The slow road calls integers of thousands of digits malformed, as Python's own parser does.
    with pytest.raises(Malformed if len(number) == 5000 else InvalidMessage):
        decode(payload.replace('"m"', '"\\ud800"').encode())


def test_binary_garbage_inside_a_text_is_replaced() -> None:
    message = decode(b'{"type":"MSG","to":"#c","content":"\xff\xc3"}')
    assert isinstance(message, Msg)
    assert message.content == "\ufffd\ufffd"


@given(any_text)
def test_half_characters_are_kept(content: str) -> None:
    payload = json.dumps({"type": "FILE_CHUNK", "to": "@x", "content": content}).encode()
    message = decode(payload)
    chunk = server.Chunk(ts=1, from_="@a", to="@x", content=message.content)  # type: ignore[attr-defined]
    assert json.loads(encode(chunk))["content"] == json.loads(payload)["content"]


def test_unknown_fields_and_repeated_ones_are_no_matter() -> None:
    assert isinstance(decode(b'{"type":"PING","x":1,"ts":"soon"}'), Ping)
    assert isinstance(decode(b' {"type":"PING"}\n'), Ping)
    assert isinstance(decode(b'{"type":"PING","x":1,"x":2}'), Ping)


# -- what an error says --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"type": "SET_PRESENCE", "status": "x"}, "Invalid presence status"),
        ({"type": "FILE_CHUNK", "to": "#general", "content": ""}, "DM targets"),
    ],
)
def test_texts_that_programs_match(payload: dict[str, Any], said: str) -> None:
    """Agentchat wire 7; `Challenge expired` and its like: tests of the handshake."""
    assert said in reason(payload)
    assert said in reason({**payload, "x": "\ud800"})


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ({"type": "IDENTIFY", "name": "has space"}, "Invalid `name`: 1 to 32 letters, digits, - or _"),
        ({"type": "IDENTIFY", "name": "x", "kind": "cat"}, "Invalid `kind`: agent or human"),
        ({"type": "SET_NICK", "nick": "x.y"}, "Invalid `nick`: 1 to 24 letters, digits, - or _"),
        ({"type": "JOIN", "channel": "general"}, "Invalid `channel`: # and 1 to 31 letters, digits, - or _"),
        ({"type": "INVITE", "channel": "#c", "agent": "bob"}, "Invalid `agent`: @ and an agent id"),
        (
            {"type": "VERIFY_REQUEST", "target": "bob", "nonce": "0" * 16},
            "Invalid `target`: @ and an agent id",
        ),
        ({"type": "MSG", "to": "#c", "content": 5}, "Field `content`: expected `str`, got `int`"),
        ({"type": "MSG", "to": "#c"}, "Missing field `content`"),
        ({"type": "MSG", "to": "", "content": ""}, "Field `to`: expected `str` of length >= 1"),
        ({"type": "JOIN", "channel": 5}, "Field `channel`: expected `str`, got `int`"),
        ({}, "Missing field `type`"),
        ({"type": None}, "`type` must be a text"),
        ({"type": "x" * 5000}, f"Unknown message type {'x' * 40!r}"),
        (
            {"type": "REGISTER_SKILLS", "skills": [], "sig": "s"},
            "Field `skills`: expected `array` of length >= 1",
        ),
        (
            {"type": "REGISTER_SKILLS", "skills": [{"capability": "c"}, None], "sig": "s"},
            "Field `skills[1]`: expected `object`, got `null`",
        ),
        (
            {"type": "REGISTER_SKILLS", "skills": [{"capability": 5}], "sig": "s"},
            "`skills`: every skill needs a `capability`",
        ),
        ({"type": "PROPOSAL", "to": "@x", "task": "t", "sig": "s", "elo_stake": -1}, "Field `elo_stake`"),
        (
            {"type": "PROPOSAL", "to": "@x", "task": "t", "sig": "s", "elo_stake": 0.5},
            "`elo_stake` must be a whole",
        ),
        ({"type": "PROPOSAL", "to": "@x", "task": "t", "sig": "s", "expires": None}, "`expires`"),
        (
            {"type": "ARBITER_VOTE", "dispute_id": "d", "verdict": "guilty", "reasoning": "", "sig": "s"},
            "Invalid `verdict`: one of disputant, respondent, mutual",
        ),
        ({"type": "GET_CASE"}, "`dispute_id` or `proposal_id` is required"),
        ({"type": "ADMIN_SET_BUDGET", "admin_key": "k"}, "Give either `tokens` or `clear`"),
        ({"type": "INVITE", "channel": "#c", "agent": "@" * 300}, "Invalid `agent`: @ and an agent id"),
    ],
)
def test_an_error_names_the_field_and_the_rule(payload: dict[str, Any], said: str) -> None:
    for message in (payload, {**payload, "x": "\ud800"}):
        text = reason(message)
        assert said in text
        assert "\n" not in text


def test_half_a_character_beside_another_fault_is_named() -> None:
    fault = {"type": "SET_PRESENCE", "status_text": 5, "status": "\ud800"}
    assert reason(fault) == "Field `status`: lone surrogate"


@pytest.mark.parametrize("kind", TABLE)
def test_every_missing_field_is_named_on_both_roads(kind: str) -> None:
    fields = TABLE[kind][3]
    for name in fields:
        if (kind, name) in (*OPTIONAL, *EITHER):
            continue
        rest = {other: value for other, value in fields.items() if other != name}
        assert reason({"type": kind, **rest}) == f"Missing field `{name}`"
        assert reason({"type": kind, "x": "\ud800", **rest}) == f"Missing field `{name}`"


# -- ref, replay ---------------------------------------------------------------------------------------


@given(any_text, st.booleans())
def test_a_ref_can_be_told_from_a_message_that_was_refused(ref: str, half_character: bool) -> None:
    payload = {"type": "NONSENSE", "ref": ref, "x": "\ud800" if half_character else ""}
    encoded = json.dumps(payload).encode()
    assert read_ref(encoded) == json.loads(encoded)["ref"]


@pytest.mark.parametrize(
    "payload", [b"", b"[]", b"null", b'{"ref":5}', b'{"ref":null}', b"{}", b'{"ref":"%b"}' % (b"x" * 257)]
)
def test_what_is_no_ref_is_none(payload: bytes) -> None:
    assert read_ref(payload) is None


@given(any_text)
def test_ref_and_replay_are_added_to_what_is_encoded(text: str) -> None:
    line = server.Chat(ts=1, from_="@a", from_name="n", to="#c", content=text)
    plain = json.loads(encode(line))
    text = json.loads(json.dumps(text))
    assert json.loads(with_ref(encode(line), text)) == {**plain, "ref": text}
    assert json.loads(as_replay(encode(line))) == {**plain, "replay": True}
