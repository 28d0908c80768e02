import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.incoming import Yield, decode, encode
from moothall.wire.agentchat import admin, client, server

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


def frame(**fields: Any) -> bytes:
    return json.dumps({"ts": 1, **fields}).encode()


def test_a_known_message_is_typed() -> None:
    incoming = decode(frame(type="JOINED", channel="#general", agents=["@a", {"id": "@b"}], ref="7"))
    assert incoming is not None
    assert isinstance(incoming.body, server.Joined)
    assert incoming.ref == "7"


def test_an_unknown_type_is_a_dictionary() -> None:
    incoming = decode(frame(type="WEATHER", sunny=True))
    assert incoming is not None
    assert incoming.body is None
    assert incoming.type == "WEATHER"
    assert incoming.raw == {"ts": 1, "type": "WEATHER", "sunny": True}


def test_unknown_fields_are_kept_in_raw_only() -> None:
    incoming = decode(frame(type="LEFT", channel="#a", mood="good"))
    assert incoming is not None
    assert isinstance(incoming.body, server.Left)
    assert incoming.raw["mood"] == "good"


def test_a_known_type_of_another_shape_does_no_harm() -> None:
    incoming = decode(frame(type="JOINED", channel=5))
    assert incoming is not None
    assert incoming.body is None
    assert incoming.raw["channel"] == 5


@pytest.mark.parametrize(
    "fields", [{"winner": "@w"}, {"holder": "@w"}, {"winner": "@w", "holder": "@w", "holder_started_at": 1.5}]
)
def test_both_wordings_of_yield_are_understood(fields: dict[str, Any]) -> None:
    incoming = decode(frame(type="YIELD", msg_id="1", channel="#a", **fields))
    assert incoming is not None
    assert isinstance(incoming.body, Yield)
    assert incoming.body.speaker == "@w"


def test_half_a_character_is_no_reason_to_lose_a_message() -> None:
    message = '{"type":"MSG","ts":1,"from":"@a","from_name":"a","to":"#g","content":"cut \\ud83d"}'
    incoming = decode(message.encode())
    assert incoming is not None
    assert isinstance(incoming.body, server.Chat)
    assert incoming.body.content == "cut \ud83d"
    assert incoming.raw["content"] == "cut \ud83d"


@pytest.mark.parametrize(
    "junk", [b"", b"null", b"[]", b"5", b"{", b"\xff", b"{}", b'{"type":1}', b"[" * 100_000]
)
def test_junk_is_no_message(junk: bytes) -> None:
    assert decode(junk) is None


@given(st.binary())
def test_no_bytes_can_raise(payload: bytes) -> None:
    decode(payload)


@given(st.sampled_from(["MSG", "JOINED", "YIELD", "ERROR", "WELCOME", "NOVELTY"]), json_values)
def test_no_field_of_any_type_can_raise(kind: str, value: Any) -> None:
    incoming = decode(frame(type=kind, channel=value, agents=value, content=value, code=value))
    assert incoming is not None
    assert incoming.raw["channel"] == value


def test_what_has_nothing_to_say_is_left_out() -> None:
    assert json.loads(encode(client.Msg(to="#a", content="hi"))) == {
        "type": "MSG",
        "to": "#a",
        "content": "hi",
    }
    presence = client.SetPresence(status="away")
    assert json.loads(encode(presence)) == {"type": "SET_PRESENCE", "status": "away"}


def test_taking_the_motd_down_is_said_with_null() -> None:
    assert json.loads(encode(admin.AdminMotd(admin_key="k")))["motd"] is None


def test_half_a_character_can_be_sent() -> None:
    assert json.loads(encode(client.Msg(to="#a", content="\ud83d")))["content"] == "\ud83d"


@pytest.mark.parametrize("kind", ["KICKED", "ERROR", "MSG"])
def test_a_number_longer_than_python_reads_ends_nothing(kind: str) -> None:
    incoming = decode(b'{"type":"%s","n":%s}' % (kind.encode(), b"1" * 5000))
    assert incoming is not None
    assert incoming.raw == {"type": kind, "n": float("inf")}


def test_a_field_name_with_half_a_character_costs_that_field_only() -> None:
    incoming = decode(b'{"type": "LEFT", "ts": 1, "channel": "#a", "\\ud800": 1, "ref": "7"}')
    assert incoming is not None
    assert isinstance(incoming.body, server.Left)
    assert incoming.ref == "7"


@pytest.mark.parametrize(
    "payload",
    [
        b'{"type": "AGENTS", "ts": 1, "channel": "#a", "list": [{"\\ud800": 1}]}',
        b'{"type": "SETTLEMENT_COMPLETE", "ts": 1, "dispute_id": "d", "proposal_id": "p", "verdict": "\\ud800"}',
    ],
)
def test_half_a_character_where_none_belongs_leaves_the_raw_message(payload: bytes) -> None:
    incoming = decode(payload)
    assert incoming is not None
    assert incoming.body is None
    assert incoming.raw["ts"] == 1
