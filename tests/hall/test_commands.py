"""The command table, the order of the checks, and `ref` (seed 000, message flow, invalid messages)."""

from typing import Any, get_args

import pytest

from moothall.hall import commands
from moothall.hall.commands import Command
from moothall.hall.costs import ANSWER
from moothall.hall.session import Tier
from moothall.wire.agentchat import admin, client
from moothall.wire.agentchat.requests import AnyClientMessage
from tests.identity.vectors import ALICE, BOB
from tests.support.world import (
    ABSENT,
    ADMIN_KEY,
    Guest,
    World,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

# Each message type: who may send it, whether it is refused in silence, whether lurkers may send it, and fields
# that pass validation (agentchat wire 5; 4.4 for lurkers; 18.1, 10 for silence).
S, A, V = Tier.STRANGER, Tier.ANONYMOUS, Tier.VERIFIED
DEAL = {"proposal_id": "prop_x", "sig": "s"}
CASE = {"dispute_id": "disp_x", "sig": "s"}
ADMIN: dict[str, Any] = {"admin_key": "x"}
TABLE: dict[str, tuple[Tier, bool, bool, dict[str, Any]]] = {
    "IDENTIFY": (S, False, True, {"name": "x"}),
    "VERIFY_IDENTITY": (S, False, True, {"challenge_id": "c", "signature": "s", "timestamp": 1}),
    "CAPTCHA_RESPONSE": (S, False, True, {"captcha_id": "c", "answer": "a"}),
    "PING": (S, False, True, {}),
    "REVOKE_KEY": (S, False, True, {"notice": {}}),
    "API_TOKEN": (V, False, True, {}),
    "SET_NICK": (A, False, False, {"nick": "x"}),
    "SET_PRESENCE": (A, False, True, {"status": "away"}),
    "JOIN": (A, False, True, {"channel": "#general"}),
    "LEAVE": (A, False, True, {"channel": "#general"}),
    "LIST_CHANNELS": (S, False, True, {}),
    "LIST_AGENTS": (A, False, True, {"channel": "#general"}),
    "CREATE_CHANNEL": (A, False, False, {"channel": "#new"}),
    "INVITE": (A, False, False, {"channel": "#general", "agent": "@x"}),
    "MSG": (A, False, False, {"to": "#general", "content": "x"}),
    "FILE_CHUNK": (A, False, False, {"to": "@x", "content": "x"}),
    "TYPING": (A, True, True, {"channel": "#general"}),
    "RECEIPT": (A, True, False, {"msg_id": "m", "status": "SEEN"}),
    "RESPONDING_TO": (A, True, False, {"msg_id": "m", "channel": "#general", "started_at": 1}),
    "RELEASE": (A, True, False, {"msg_id": "m", "channel": "#general"}),
    "VERIFY_REQUEST": (A, False, False, {"target": "@x", "nonce": "0" * 16}),
    "VERIFY_RESPONSE": (A, False, True, {"request_id": "r", "nonce": "n", "sig": "s"}),
    "PROPOSAL": (V, False, False, {"to": "@x", "task": "t", "sig": "s"}),
    "ACCEPT": (V, False, False, DEAL),
    "REJECT": (V, False, False, DEAL),
    "COMPLETE": (V, False, False, DEAL),
    "DISPUTE": (V, False, False, {**DEAL, "reason": "r"}),
    "REGISTER_SKILLS": (V, False, False, {"skills": [{"capability": "c"}], "sig": "s"}),
    "SEARCH_SKILLS": (A, False, True, {"query": {}}),
    "LIST_PROPOSALS": (V, False, True, {}),
    "LIST_RECEIPTS": (V, False, True, {}),
    "GET_RATING": (A, False, True, {}),
    "GET_LEADERBOARD": (A, False, True, {}),
    "DISPUTE_INTENT": (V, False, True, {**DEAL, "reason": "r", "commitment": "c"}),
    "DISPUTE_REVEAL": (V, False, True, {**DEAL, "nonce": "n"}),
    "EVIDENCE": (V, False, True, {**CASE, "items": [], "statement": ""}),
    "ARBITER_ACCEPT": (V, False, True, CASE),
    "ARBITER_DECLINE": (V, False, True, {"dispute_id": "disp_x"}),
    "ARBITER_VOTE": (V, False, True, {**CASE, "verdict": "mutual", "reasoning": ""}),
    "LIST_CASES": (V, False, True, {}),
    "GET_CASE": (V, False, True, {"dispute_id": "disp_x"}),
    "ADMIN_APPROVE": (S, False, True, {**ADMIN, "pubkey": "x"}),
    "ADMIN_REVOKE": (S, False, True, {**ADMIN, "agent_id": "x"}),
    "ADMIN_LIST": (S, False, True, ADMIN),
    "ADMIN_KICK": (S, False, True, {**ADMIN, "agent_id": "x"}),
    "ADMIN_BAN": (S, False, True, {**ADMIN, "agent_id": "x"}),
    "ADMIN_UNBAN": (S, False, True, {**ADMIN, "agent_id": "x"}),
    "ADMIN_BANS": (S, False, True, ADMIN),
    "ADMIN_BUDGET": (S, False, True, ADMIN),
    "ADMIN_SET_BUDGET": (S, False, True, {**ADMIN, "tokens": 5}),
    "ADMIN_MOTD": (S, False, True, ADMIN),
    "ADMIN_VERIFY": (S, False, True, {**ADMIN, "agent_id": "x", "verified": True}),
}
ALL_ROWS = tuple(World().hall.commands)


def lurker(world: World) -> Guest:
    guest = world.agent("lurker")
    world.hall.roster.agents[guest.id[1:]].lurking = True
    return guest


# -- the table -----------------------------------------------------------------------------------------


def test_every_message_type_has_one_row_and_the_rows_are_those_above() -> None:
    rows = {row.name: (row.tier, row.silent, row.lurkers) for row in ALL_ROWS}
    assert rows == {kind: row[:3] for kind, row in TABLE.items()}
    assert len(ALL_ROWS) == len(get_args(AnyClientMessage)) == len(TABLE)


def test_two_rows_for_one_message_or_none_fail_at_the_start() -> None:
    with pytest.raises(ValueError, match="two commands for PING"):
        commands.command_table([*ALL_ROWS, Command(client.Ping, lambda *_: None, ANSWER)])
    with pytest.raises(ValueError, match="no command for AdminVerify"):
        commands.command_table(row for row in ALL_ROWS if row.message is not admin.AdminVerify)


@pytest.mark.parametrize("kind", TABLE)
def test_a_stranger_is_answered_auth_required_unless_the_row_says_otherwise(kind: str) -> None:
    tier, silent, _, fields = TABLE[kind]
    world = World()
    stranger = world.connect()
    world.send(stranger, kind, **fields)
    if silent:
        assert_silent(stranger)
    elif tier is Tier.STRANGER:
        assert stranger.next().get("code") != "AUTH_REQUIRED"
    else:
        assert_refused(stranger, "AUTH_REQUIRED")
    assert_open(stranger)


@pytest.mark.parametrize("kind", TABLE)
def test_deals_and_disputes_need_a_proven_key(kind: str) -> None:
    tier, _, _, fields = TABLE[kind]
    world = World()
    anonymous = world.agent()
    world.send(anonymous, kind, **fields)
    codes = [message.get("code") for message in anonymous.read()]
    assert ("VERIFICATION_REQUIRED" in codes) is (tier is Tier.VERIFIED)


@pytest.mark.parametrize("kind", TABLE)
def test_lurkers_may_do_what_the_row_says(kind: str) -> None:
    tier, silent, lurkers, fields = TABLE[kind]
    world = World()
    guest = lurker(world)
    world.send(guest, kind, **fields)
    codes = [message.get("code") for message in guest.read()]
    assert ("LURK_MODE" in codes) is (not lurkers and not silent and tier is not Tier.VERIFIED)


@pytest.mark.parametrize(
    "kind", [kind for kind, (tier, _, lurkers, _) in TABLE.items() if not lurkers and tier is A]
)
def test_what_lurkers_may_not_do_reaches_no_other_agent(kind: str) -> None:
    world = World()
    guest, other = lurker(world), world.agent("other", key=ALICE, join="#general")
    world.send(guest, "JOIN", channel="#general")
    world.hush()
    channels = len(world.hall.channels)
    world.send(guest, kind, **{**TABLE[kind][3], "to": other.id, "target": other.id, "agent": other.id})
    assert_silent(other)
    assert len(world.hall.channels) == channels
    assert len(world.hall.floor) == 0


@pytest.mark.parametrize("kind", TABLE)
def test_every_valid_message_is_counted_by_its_type(kind: str) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, kind, **TABLE[kind][3])
    assert world.hall.received == {kind: 1}


# -- seed 000, message flow, validation ----------------------------------------------------------------


def test_validation_steps_1_and_2_size_is_the_gateways_and_3_malformed_json_is_ignored_and_logged() -> None:
    """Also seed 000, invalid messages, malformed JSON; the frame limit: tests of the gateway."""
    world = World()
    for guest in (world.connect(), world.agent()):
        for frame in (b"", b"not json", b'{"type":"PING"', b"\xff\xfe", b'{"type":"PING"} x', b"NaN"):
            world.send_raw(guest, frame)
        assert_silent(guest)
        assert_open(guest)
    logged = world.log.find("malformed_message")
    assert len(logged) == 12
    assert logged[-1] == {"ip": "192.0.2.1", "agent": guest.id[1:]}
    assert world.hall.tally.malformed == 12


@pytest.mark.parametrize(
    "frame",
    [
        b"[1",
        b"5x",
        b'{"type":"NONSENSE"',
        b'{"type":"NONSENSE"} x',
        b'{"type":"MSG","to":5,',
        b'{"type":"MSG","to":5,"content":NaN}',
        b'{"type":"MSG","to":5,"content":"\\ud800',
    ],
)
def test_validation_step_3_comes_before_4_and_5_wherever_the_json_ends(frame: bytes) -> None:
    world = World()
    guest = world.agent()
    world.send_raw(guest, frame)
    assert_silent(guest)
    assert world.hall.tally.malformed == 1


@pytest.mark.parametrize(
    ("frame", "mentioning"),
    [
        (b'{"type":"NONSENSE"}', "NONSENSE"),
        (b'{"type":"ADMIN_OPEN_WINDOW","admin_key":"x"}', "ADMIN_OPEN_WINDOW"),
        (b'{"type":"ping"}', "ping"),
        (b'{"type":""}', "type"),
        (b'{"type":null}', "`type`"),
        (b'{"type":5}', "`type`"),
        (b'{"type":["PING"]}', "`type`"),
        (b"{}", "`type`"),
        (b"null", "object"),
        (b"[]", "object"),
        (b"5", "object"),
        (b'"PING"', "object"),
        (b"true", "object"),
    ],
)
def test_validation_step_4_an_unknown_type_is_answered_and_the_connection_stays(
    frame: bytes, mentioning: str
) -> None:
    """Seed 000, invalid messages, unknown message type. There, the four bytes `null` kill the server."""
    world = World()
    for guest in (world.connect(), world.agent()):
        world.send_raw(guest, frame)
        assert_refused(guest, "INVALID_MSG", mentioning)
        assert_open(guest)


OPTIONAL = {
    ("ADMIN_REVOKE", "agent_id"),  # `pubkey` would do as well
    ("LIST_AGENTS", "channel"),  # ours: without it, the whole hall
}


@pytest.mark.parametrize("kind", TABLE)
def test_validation_step_5_a_missing_field_is_named(kind: str) -> None:
    """Seed 000, invalid messages, missing required fields."""
    fields = TABLE[kind][3]
    world = World()
    guest = world.connect()
    for name in fields:
        if (kind, name) in OPTIONAL:
            continue
        world.send(guest, kind, **{other: value for other, value in fields.items() if other != name})
        assert_refused(guest, "INVALID_MSG", f"`{name}`")
    assert_open(guest)


@pytest.mark.parametrize("kind", TABLE)
def test_validation_step_5_a_field_of_the_wrong_type_is_named(kind: str) -> None:
    world = World(no_limits=True)
    guest = world.connect()
    for name in TABLE[kind][3]:
        for wrong in (None, {"a": 1}, [None]):
            if (kind, name) == ("ADMIN_REVOKE", "agent_id") and wrong is None:
                continue
            world.send(guest, kind, **{**TABLE[kind][3], name: wrong})
            if name == "notice" and wrong == {"a": 1}:
                assert_refused(guest, "INVALID_SIGNATURE")
                continue
            # `query` may be an object or a list of whatever.
            if name == "query" and wrong is not None:
                assert_refused(guest, "AUTH_REQUIRED")
            elif name == "to":
                error = assert_refused(guest, "INVALID_MSG")
                assert "`to`" in error["message"]
            elif (kind, name) == ("SET_PRESENCE", "status"):
                assert_refused(guest, "INVALID_MSG", "presence status")
            else:
                assert_refused(guest, "INVALID_MSG", f"`{name}")
    assert_open(guest)


def test_validation_step_6_comes_after_step_5_and_before_step_7() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "MSG", to="#general", content="x")
    assert_refused(guest, "AUTH_REQUIRED")
    world.send(guest, "MSG", to="#general", content="x")
    assert_refused(guest, "RATE_LIMITED")
    world.send(guest, "MSG", to="#general", content=5)
    assert_refused(guest, "INVALID_MSG", "`content`")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"to": "general"}, "`to`"), ({"content": "\N{GRINNING FACE}" * 2049}, "`content`")],
)
def test_validation_step_5_also_where_the_decoder_cannot_tell(wrong: dict[str, str], named: str) -> None:
    """Nor does it use up the rate: whoever forgot the # can say it again at once."""
    message = {"to": "#general", "content": "x"}
    world = World()
    stranger = world.connect()
    world.send(stranger, "MSG", **{**message, **wrong})
    assert_refused(stranger, "INVALID_MSG", named)
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    alice.read()
    world.send(alice, "MSG", **{**message, **wrong})
    assert_refused(alice, "INVALID_MSG", named)
    world.send(alice, "MSG", **message)
    assert_sent(bob, "MSG", content="x")


def test_validation_step_7_an_operation_that_needs_an_identity() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "JOIN", channel="#general")
    assert_refused(guest, "AUTH_REQUIRED", "IDENTIFY")


def test_a_session_that_was_closed_is_not_heard_any_more() -> None:
    """Or whoever was put out could IDENTIFY again behind a connection that is already counted as gone."""
    world = World(admin_key=ADMIN_KEY)
    alice, operator = world.agent("alice", key=ALICE), world.agent()
    world.send(operator, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=alice.id)
    assert_sent(alice, "KICKED")
    world.send(alice, "PING")
    world.send(alice, "IDENTIFY", name="alice")
    assert_silent(alice)
    assert_consistent(world)


def test_rejected_frames_are_never_logged() -> None:
    world = World()
    guest = world.agent(join="#general")
    secret = "a private matter"
    for frame in (
        f'{{"type":"MSG","to":"#general","content":"{secret}","sig":5}}',
        f'{{"type":"{secret}"}}',
        f"{{{secret}",
        f'{{"type":"MSG","to":"#general","content":"{secret}"}}',
    ):
        world.send_raw(guest, frame.encode())
    assert secret not in repr(world.log.entries)


def test_errors_do_not_repeat_more_than_a_little_of_what_was_sent() -> None:
    world = World(no_limits=True)
    guest = world.agent()
    long = "x" * 100_000
    for kind, fields in (
        (long, {}),
        ("MSG", {"to": f"#{long}", "content": "x"}),
        ("MSG", {"to": f"@{long}", "content": "x"}),
        ("JOIN", {"channel": f"#{long}"}),
        ("VERIFY_REQUEST", {"target": f"@{long}", "nonce": "0" * 16}),
        ("INVITE", {"channel": "#general", "agent": f"@{long}"}),
        ("SET_PRESENCE", {"status": long}),
        ("IDENTIFY", {"name": long}),
        ("PING", {"ref": long}),
    ):
        world.send(guest, kind, **fields)
        assert len(guest.next()["message"]) < 200


def test_refusals_are_counted_by_code() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "JOIN", channel="#nowhere")
    world.send(guest, "NONSENSE")
    assert world.hall.tally.refused == {"CHANNEL_NOT_FOUND": 1, "INVALID_MSG": 1}


def test_every_error_code_of_this_floor_reaches_the_wire() -> None:
    world = World(admin_key=ADMIN_KEY, banned=[BOB.public.agent_id()])
    stranger, banned, late, wrong = (world.connect() for _ in range(4))
    world.send(stranger, "JOIN", channel="#general")  # AUTH_REQUIRED
    world.identify(banned, key=BOB)  # BANNED
    world.send(late, "IDENTIFY", name="late", pubkey=ALICE.public.pem)
    world.advance(30)  # VERIFICATION_EXPIRED
    wrong.key = BOB
    world.send(wrong, "IDENTIFY", name="wrong", pubkey=ALICE.public.pem)
    world.prove(wrong, wrong.read()[-1])  # VERIFICATION_FAILED
    guest, listener = world.agent(), lurker(world)
    world.send(listener, "MSG", to=guest.id, content="x")  # LURK_MODE
    for kind, fields in (
        ("NONSENSE", {}),  # INVALID_MSG
        ("JOIN", {"channel": "#nowhere"}),  # CHANNEL_NOT_FOUND
        ("CREATE_CHANNEL", {"channel": "#general"}),  # CHANNEL_EXISTS
        ("INVITE", {"channel": "#general", "agent": "@x"}),  # NOT_INVITED
        ("SET_NICK", {"nick": "root"}),  # INVALID_NAME
        ("SET_NICK", {"nick": "x"}),
        ("SET_NICK", {"nick": "y"}),  # RATE_LIMITED
        ("VERIFY_REQUEST", {"target": "@nobody", "nonce": "0" * 16}),  # AGENT_NOT_FOUND
        ("VERIFY_REQUEST", {"target": guest.id, "nonce": "0" * 16}),  # NO_PUBKEY
        ("VERIFY_RESPONSE", {"request_id": "r", "nonce": "n", "sig": "s"}),  # SIGNATURE_REQUIRED
        ("ACCEPT", DEAL),  # VERIFICATION_REQUIRED
    ):
        world.send(guest, kind, **fields)
    world.books.full = True
    world.send(guest, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id="x")  # INTERNAL_ERROR
    strict = World(allowlist=True)
    strict.identify(strict.connect())  # NOT_ALLOWED
    asking = World(captcha=True)
    slow, wrong = asking.connect(), asking.connect()
    for tested in (slow, wrong):
        asking.identify(tested)
    asking.send(
        wrong, "CAPTCHA_RESPONSE", captcha_id=wrong.next()["captcha_id"], answer="?"
    )  # CAPTCHA_FAILED
    asking.advance(30)  # CAPTCHA_EXPIRED
    codes = [
        message["code"]
        for hall in (world, strict, asking)
        for everybody in hall.guests
        for message in everybody.link.messages
        if message["type"] == "ERROR"
    ]
    assert sorted(codes) == [
        "AGENT_NOT_FOUND",
        "AUTH_REQUIRED",
        "BANNED",
        "CAPTCHA_EXPIRED",
        "CAPTCHA_FAILED",
        "CHANNEL_EXISTS",
        "CHANNEL_NOT_FOUND",
        "INTERNAL_ERROR",
        "INVALID_MSG",
        "INVALID_NAME",
        "LURK_MODE",
        "NOT_ALLOWED",
        "NOT_INVITED",
        "NO_PUBKEY",
        "RATE_LIMITED",
        "SIGNATURE_REQUIRED",
        "VERIFICATION_EXPIRED",
        "VERIFICATION_FAILED",
        "VERIFICATION_REQUIRED",
    ]


# -- ref -----------------------------------------------------------------------------------------------


def answers(guest: Guest) -> list[tuple[str, str]]:
    return [(message["ref"], message["type"]) for message in guest.read() if "ref" in message]


def test_a_reply_echoes_the_ref_and_others_do_not_see_it() -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    world.send(alice, "MSG", to="#general", content="hello", ref="mine")
    assert "ref" not in assert_sent(bob, "MSG")
    acknowledged = assert_sent(alice, "ACK", ref="mine")
    assert acknowledged["msg_id"] == world.buffered("#general")[-1]["msg_id"]
    assert_silent(alice, bob)


def test_without_a_ref_nothing_is_acknowledged() -> None:
    world = World()
    alice = world.agent(join="#general")
    world.send(alice, "MSG", to="#general", content="hello")
    world.send(alice, "SET_PRESENCE", status="away")
    world.send(alice, "TYPING", channel="#general", ref=None)
    assert_silent(alice)


def test_every_command_with_a_ref_gets_exactly_one_answer_with_it() -> None:
    world = World(no_limits=True, admin_key=ADMIN_KEY)
    alice = world.agent("alice", key=ALICE, join="#general")
    for kind, (*_, fields) in TABLE.items():
        if "admin_key" in fields:
            fields = {**fields, "admin_key": ADMIN_KEY}
        world.send(alice, kind, **fields, ref=kind)
    assert [ref for ref, _ in answers(alice)] == list(TABLE)


def test_a_stranger_gets_one_answer_too_except_where_silence_is_the_rule() -> None:
    world = World(no_limits=True)
    for kind, (_, silent, _, fields) in TABLE.items():
        stranger = world.connect()
        world.send(stranger, kind, **fields, ref=kind)
        assert [ref for ref, _ in answers(stranger)] == ([] if silent else [kind])


def test_the_order_of_answers_is_the_order_of_requests() -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    requests: list[tuple[str, dict[str, Any], str]] = [
        ("PING", {}, "PONG"),
        ("JOIN", {"channel": "#agents"}, "JOINED"),
        ("SET_PRESENCE", {"status": "away"}, "ACK"),
        ("JOIN", {"channel": "#nowhere"}, "ERROR"),
        ("SET_NICK", {"nick": "ally"}, "NICK_CHANGED"),
        ("MSG", {"to": "#general", "content": "x"}, "ACK"),
        ("MSG", {"to": "#general", "content": "x"}, "ERROR"),
        ("TYPING", {"channel": "#general"}, "ACK"),
        ("LEAVE", {"channel": "#nowhere"}, "ACK"),
        ("LEAVE", {"channel": "#agents"}, "LEFT"),
        ("NONSENSE", {}, "ERROR"),
        ("JOIN", {}, "ERROR"),
        ("LIST_CHANNELS", {}, "CHANNELS"),
        ("LIST_AGENTS", {"channel": "#general"}, "AGENTS"),
        ("INVITE", {"channel": "#general", "agent": "@x"}, "ACK"),
        ("IDENTIFY", {"name": "x"}, "ERROR"),
    ]
    for number, (kind, fields, _) in enumerate(requests):
        world.send(alice, kind, **fields, ref=str(number))
    assert answers(alice) == [(str(number), reply) for number, (_, _, reply) in enumerate(requests)]


def test_history_comes_without_a_ref_and_joined_with_it() -> None:
    world = World()
    alice = world.agent(join="#general")
    world.say(alice, "#general", "hello")
    world.send(alice, "JOIN", channel="#general", ref="j")
    assert_sent(alice, "MSG", replay=True, ref=ABSENT)
    assert_sent(alice, "JOINED", ref="j")


def test_the_handshake_carries_refs() -> None:
    world = World()
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem, ref="a")
    challenge = assert_sent(guest, "CHALLENGE", ref="a")
    world.prove(guest, challenge, ref="b")
    assert_sent(guest, "WELCOME", ref="b")


def test_what_comes_later_by_itself_carries_no_ref() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem, ref="a")
    assert_sent(guest, "CHALLENGE", ref="a")
    world.advance(30)
    assert_refused(guest, "VERIFICATION_EXPIRED", ref=ABSENT)


@pytest.mark.parametrize("ref", ["", "x" * 256, "é😀", '"\\', "half \ud83d"])
def test_a_ref_is_any_text_of_256_characters(ref: str) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "PING", ref=ref)
    assert_sent(guest, "PONG", ref=ref)
    world.send(guest, "NONSENSE", ref=ref)
    assert_refused(guest, "INVALID_MSG", "NONSENSE", ref=ref)


@pytest.mark.parametrize("ref", ["x" * 257, 5, ["x"], {}])
def test_what_is_no_ref_is_refused_and_not_echoed(ref: object) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "PING", ref=ref)
    assert_refused(guest, "INVALID_MSG", "`ref`", ref=ABSENT)


def test_an_invalid_message_with_half_a_character_keeps_its_ref_and_its_reason() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "MSG", content="half \ud83d", ref="r")
    assert_refused(guest, "INVALID_MSG", "`to`", ref="r")
    world.send(guest, "NONSENSE", content="half \ud83d", ref="r")
    assert_refused(guest, "INVALID_MSG", "NONSENSE", ref="r")
