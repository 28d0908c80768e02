"""The messages themselves: every type there and back, and what is left out when it has nothing to say."""

import json
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage
from moothall.wire.agentchat import codec, server
from moothall.wire.agentchat.codec import decode, encode
from moothall.wire.agentchat.requests import AnyClientMessage
from tests.hall.test_commands import TABLE

CLIENT_TYPES = {kind.__struct_config__.tag: kind for kind in get_args(AnyClientMessage)}

# One of each server message with nothing but what it must have: the struct, and the wire's fields.
AT_LEAST: list[tuple[server.ServerMessage, dict[str, Any]]] = [
    (
        server.Welcome(ts=1, agent_id="@a", name="n", server="s", disclaimer="d"),
        {"type": "WELCOME", "agent_id": "@a", "name": "n", "server": "s", "disclaimer": "d"},
    ),
    (
        server.Challenge(ts=1, challenge_id="c", nonce="n", expires_at=2),
        {"type": "CHALLENGE", "challenge_id": "c", "nonce": "n", "expires_at": 2},
    ),
    (
        server.CaptchaChallenge(ts=1, captcha_id="c", question="q", expires_at=2),
        {"type": "CAPTCHA_CHALLENGE", "captcha_id": "c", "question": "q", "expires_at": 2},
    ),
    (server.Pong(ts=1), {"type": "PONG"}),
    (server.Error(ts=1, code="C", message="m"), {"type": "ERROR", "code": "C", "message": "m"}),
    (server.Ack(ts=1), {"type": "ACK"}),
    (
        server.SessionDisplaced(ts=1, reason="r", new_ip="i"),
        {"type": "SESSION_DISPLACED", "reason": "r", "new_ip": "i"},
    ),
    (server.Kicked(ts=1, reason="r"), {"type": "KICKED", "reason": "r"}),
    (server.BannedNotice(ts=1, reason="r"), {"type": "BANNED", "reason": "r"}),
    (
        server.KeyRevoked(ts=1, agent_id="@a", fingerprint="f"),
        {"type": "KEY_REVOKED", "agent_id": "@a", "fingerprint": "f"},
    ),
    (
        server.WatchedHall(ts=1, server="s", hall_key="k"),
        {"type": "HALL", "server": "s", "hall_key": "k"},
    ),
    (server.Gap(ts=1, missed=2), {"type": "GAP", "missed": 2}),
    (server.Gap(ts=1, channel="#c", reason="r"), {"type": "GAP", "channel": "#c", "reason": "r"}),
    (server.MotdUpdate(ts=1, motd=None), {"type": "MOTD_UPDATE", "motd": None}),
    (
        server.NickChanged(ts=1, agent_id="@a", old_nick="o", new_nick="n"),
        {"type": "NICK_CHANGED", "agent_id": "@a", "old_nick": "o", "new_nick": "n"},
    ),
    (
        server.PresenceChanged(ts=1, agent_id="@a", name="n", presence="away", status_text=None),
        {"type": "PRESENCE_CHANGED", "agent_id": "@a", "name": "n", "presence": "away", "status_text": None},
    ),
    (
        server.Joined(ts=1, channel="#c", agents=[server.MemberEntry("@a", "n", False)]),
        {"type": "JOINED", "channel": "#c", "agents": [{"id": "@a", "name": "n", "verified": False}]},
    ),
    (server.Left(ts=1, channel="#c"), {"type": "LEFT", "channel": "#c"}),
    (
        server.AgentJoined(ts=1, channel="#c", agent="@a", name="n", verified=False),
        {"type": "AGENT_JOINED", "channel": "#c", "agent": "@a", "name": "n", "verified": False},
    ),
    (
        server.AgentLeft(ts=1, channel="#c", agent="@a"),
        {"type": "AGENT_LEFT", "channel": "#c", "agent": "@a"},
    ),
    (
        server.Channels(ts=1, list=[server.ChannelEntry("#c", 0), server.ChannelEntry("#v", 1, True)]),
        {
            "type": "CHANNELS",
            "list": [{"name": "#c", "agents": 0}, {"name": "#v", "agents": 1, "verifiedOnly": True}],
        },
    ),
    (
        server.Agents(
            ts=1,
            channel="#c",
            list=[
                server.AgentEntry(id="@a", name="n", presence="away", status_text=None, verified=False),
            ],
        ),
        {
            "type": "AGENTS",
            "channel": "#c",
            "list": [{"id": "@a", "name": "n", "presence": "away", "status_text": None, "verified": False}],
        },
    ),
    (
        server.Chat(ts=1, from_="@a", from_name="n", to="#c", content="x"),
        {"type": "MSG", "from": "@a", "from_name": "n", "to": "#c", "content": "x"},
    ),
    (
        server.TypingNotice(ts=1, from_="@a", from_name="n", channel="#c"),
        {"type": "TYPING", "from": "@a", "from_name": "n", "channel": "#c"},
    ),
    (
        server.Chunk(ts=1, from_="@a", to="@b", content="x"),
        {"type": "FILE_CHUNK", "from": "@a", "to": "@b", "content": "x"},
    ),
    (
        server.RespondingNotice(ts=1, msg_id="m", from_="@a", started_at=5, channel="#c"),
        {"type": "RESPONDING_TO", "msg_id": "m", "from": "@a", "started_at": 5, "channel": "#c"},
    ),
    (
        server.Receipt(ts=1, msg_id="m", status="DELIVERED", to="@a", of=1),
        {"type": "RECEIPT", "msg_id": "m", "status": "DELIVERED", "to": "@a", "of": 1},
    ),
    (
        server.Receipt(ts=1, msg_id="m", status="UNDELIVERED", to="#c", of=60, count=2, reason="r"),
        {
            "type": "RECEIPT",
            "msg_id": "m",
            "status": "UNDELIVERED",
            "to": "#c",
            "of": 60,
            "count": 2,
            "reason": "r",
        },
    ),
    (server.TakeoverPending(ts=1, wait_ms=5000), {"type": "TAKEOVER_PENDING", "wait_ms": 5000}),
    (
        server.FloorReleased(ts=1, msg_id="m", channel="#c", from_="@a", reason="expired"),
        {"type": "FLOOR_RELEASED", "msg_id": "m", "channel": "#c", "from": "@a", "reason": "expired"},
    ),
    (
        server.FloorClaimed(ts=1, msg_id="m", channel="#c", holder="@a", holder_name="n", started_at=5),
        {
            "type": "FLOOR_CLAIMED",
            "msg_id": "m",
            "channel": "#c",
            "holder": "@a",
            "holder_name": "n",
            "started_at": 5,
        },
    ),
    (
        server.Yield(
            ts=1, msg_id="m", channel="#c", winner="@a", holder="@a", holder_started_at=5, reason="r"
        ),
        {
            "type": "YIELD",
            "msg_id": "m",
            "channel": "#c",
            "winner": "@a",
            "holder": "@a",
            "holder_started_at": 5,
            "reason": "r",
        },
    ),
    (server.VerifyRequestNotice(ts=1, request_id="r"), {"type": "VERIFY_REQUEST", "request_id": "r"}),
    (server.VerifySuccess(ts=1, request_id="r"), {"type": "VERIFY_SUCCESS", "request_id": "r"}),
    (server.VerifyFailed(ts=1, request_id="r"), {"type": "VERIFY_FAILED", "request_id": "r"}),
    (
        server.ApiTokenGiven(ts=1, token="t", expires_at=2),
        {"type": "API_TOKEN", "token": "t", "expires_at": 2},
    ),
    (
        server.AdminResult(ts=1, action="motd", motd=None),
        {"type": "ADMIN_RESULT", "action": "motd", "motd": None},
    ),
]


def test_every_server_message_of_this_floor_is_above() -> None:
    kinds = {kind for kind in server.ServerMessage.__subclasses__() if kind.__module__ == server.__name__}
    assert {type(message) for message, _ in AT_LEAST} == kinds


@pytest.mark.parametrize(("message", "expected"), AT_LEAST, ids=lambda value: type(value).__name__)
def test_server_messages_carry_their_type_their_time_and_no_empty_options(
    message: server.ServerMessage, expected: dict[str, Any]
) -> None:
    assert json.loads(encode(message)) == {**expected, "ts": 1}


@pytest.mark.parametrize(
    ("message", "present"),
    [
        (
            server.Welcome(ts=1, agent_id="@a", name="n", server="s", disclaimer="d", verified=False),
            "verified",
        ),
        (server.Chat(ts=1, from_="@a", from_name="n", to="#c", content="x", verified=False), "verified"),
        (server.VerifyFailed(ts=1, request_id="r", verified=False), "verified"),
        (server.AdminResult(ts=1, action="verify", verified=False), "verified"),
        (server.AdminResult(ts=1, action="motd", kicked=False), "kicked"),
        (server.AdminResult(ts=1, action="ban", agent_id="a"), "agentId"),
    ],
)
def test_what_says_something_is_there_even_if_it_is_no(message: server.ServerMessage, present: str) -> None:
    assert present in json.loads(encode(message))


def test_a_welcome_has_what_the_seed_says_and_need_not_have_more() -> None:
    """The reference adds a disclaimer (agentchat wire 6.1); a server of the seed's does not."""
    said = b'{"type":"WELCOME","ts":1,"agent_id":"@a","name":"n","server":"s"}'
    assert msgspec.json.decode(said, type=server.Welcome).agent_id == "@a"


@pytest.mark.parametrize("kind", CLIENT_TYPES)
def test_every_client_message_decodes_to_its_type_with_its_fields(kind: str) -> None:
    fields = TABLE[kind][3]
    message = decode(json.dumps({"type": kind, **fields, "unknown": [1], "ref": "r"}).encode())
    assert type(message) is CLIENT_TYPES[kind]
    assert {name: getattr(message, name) for name in fields} == fields
    assert message.ref == "r"


OPTIONAL: dict[str, list[str]] = {
    # what clients send as null when they have nothing (agentchat wire 18.1, 5)
    "IDENTIFY": ["pubkey"],
    "CREATE_CHANNEL": ["invite_only", "verified_only"],
    "MSG": ["in_reply_to"],
    "PROPOSAL": ["amount", "currency", "payment_code", "terms", "capability", "elo_stake"],
    "ACCEPT": ["payment_code", "elo_stake"],
    "REJECT": ["reason"],
    "COMPLETE": ["proof"],
    "SEARCH_SKILLS": ["query_id"],
    "ARBITER_DECLINE": ["reason", "sig"],
    "ADMIN_APPROVE": ["note"],
    "ADMIN_KICK": ["reason"],
    "ADMIN_BAN": ["reason"],
    "ADMIN_MOTD": ["motd", "kick"],
    "SET_PRESENCE": ["budget"],
    "ADMIN_BUDGET": ["day"],
    "ADMIN_SET_BUDGET": ["pubkey", "agent"],
}


@pytest.mark.parametrize("kind", OPTIONAL)
def test_options_may_be_null(kind: str) -> None:
    fields = {**TABLE[kind][3], **dict.fromkeys(OPTIONAL[kind])}
    message = decode(json.dumps({"type": kind, **fields}).encode())
    assert [getattr(message, name) for name in OPTIONAL[kind]] == [None] * len(OPTIONAL[kind])


@pytest.mark.parametrize("payload", [b"[" + b"1," * 1000 + b"2]", b'"text"', b"7"])
def test_what_is_no_object_is_refused_without_being_read_slowly(
    payload: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "_look_slowly", lambda _: pytest.fail("read slowly"))
    with pytest.raises(InvalidMessage):
        decode(payload)


texts = st.text(st.characters(exclude_categories=()), max_size=60)  # half characters included


@given(texts, texts, st.none() | texts)
def test_any_text_arrives_as_it_was_sent(name: str, content: str, sig: str | None) -> None:
    """Half characters too; two halves side by side are one character, as in JavaScript."""
    line = server.Chat(ts=1, from_="@a", from_name=name, to="#c", content=content, sig=sig)
    expected = {"from_name": name, "content": content, **({} if sig is None else {"sig": sig})}
    joined = json.loads(json.dumps(expected))
    arrived = json.loads(encode(line))
    assert {field: arrived[field] for field in expected} == joined
    assert ("sig" in arrived) is (sig is not None)
