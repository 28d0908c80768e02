"""What the profile `agentchat-0.36` changes, row by row of agentchat wire 20; and 18.1, which holds in both."""

import pytest

from moothall.identity import PrivateKey
from moothall.settings import PROFILES
from tests.hall.keep.town import Town
from tests.identity.vectors import ALICE, BOB, VECTORS
from tests.support.world import (
    ABSENT,
    ADMIN_KEY,
    Guest,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

REFERENCE = "agentchat-0.36"
ANY_PROFILE = pytest.mark.parametrize("profile", list(PROFILES))


def pair(world: World) -> tuple[Guest, Guest]:
    alice = world.agent("alice", key=ALICE, join="#general")
    bob = world.agent("bob", key=BOB, join="#general")
    world.hush()
    return alice, bob


def service_line(guest: Guest, content: str, to: str = "#general") -> None:
    assert_sent(
        guest,
        "MSG",
        from_="@server",
        from_name="Server",
        to=to,
        content=content,
        msg_id=ABSENT,
        verified=ABSENT,
    )


# -- agentchat wire 20 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["keys"][:3], ids=lambda vector: vector["name"])
def test_row_1_ids_have_16_digits(vector: dict[str, str]) -> None:
    world = World(REFERENCE)
    guest = world.agent(key=PrivateKey(bytes.fromhex(vector["ed25519_seed_hex"])))
    assert guest.id == vector["wire_id_16"]


def test_row_2_verified_is_for_those_the_operator_approved() -> None:
    world = World(REFERENCE, allowlist=True, approved=[ALICE], genesis_agent_id=BOB.public.fingerprint)
    for key, verified in ((ALICE, True), (BOB, True), (PrivateKey(b"x" * 32), False)):
        guest = world.connect()
        world.identify(guest, key=key)
        assert_sent(guest, "WELCOME", verified=verified)


def verified(world: World, name: str, key: PrivateKey) -> Guest:
    """An agent that an admin verified, in #ops."""
    guest = world.agent(name, key=key)
    world.send(
        world.connect(), "ADMIN_VERIFY", admin_key=ADMIN_KEY, agent_id=guest.id, verified=True, ref="v"
    )
    world.send(guest, "JOIN", channel="#ops")
    assert guest.read()[-1]["content"] == f"{name} joined #ops"
    return guest


def test_row_2_the_flag_decides_about_verified_only_channels() -> None:
    """A proven key alone gets neither in, nor the history, nor the list of members, nor any notice."""
    world = World(REFERENCE, admin_key=ADMIN_KEY)
    member, other = verified(world, "member", ALICE), verified(world, "other", BOB)
    world.say(member, "#ops", "the plan")
    stranger = world.connect()
    world.identify(stranger, "stranger", key=PrivateKey(b"s" * 32))
    welcome = assert_sent(stranger, "WELCOME", verified=False)
    agent = world.hall.roster.agents[welcome["agent_id"][1:]]
    assert "#ops" not in agent.channels
    world.send(member, "INVITE", channel="#ops", agent=agent.address)
    stranger.read()
    for command in ("JOIN", "LIST_AGENTS"):
        world.send(stranger, command, channel="#ops")
        assert_refused(stranger, "AUTH_REQUIRED", "#ops")
    world.send(stranger, "MSG", to="#ops", content="let me in")
    assert_refused(stranger, "NOT_INVITED")
    world.send(stranger, "CREATE_CHANNEL", channel="#club", verified_only=True)
    assert_refused(stranger, "AUTH_REQUIRED")
    world.hush()
    msg_id = world.say(member, "#ops", "the next step @stranger")
    world.send(member, "TYPING", channel="#ops")
    world.send(other, "RESPONDING_TO", msg_id=msg_id, channel="#ops", started_at=1)
    world.send(stranger, "RESPONDING_TO", msg_id=msg_id, channel="#ops", started_at=1)
    world.send(stranger, "TYPING", channel="#ops")
    assert_silent(stranger)
    assert {message.get("from") for message in other.read()} == {member.id}
    assert_consistent(world)


def test_row_2_the_one_who_takes_over_a_session_does_not_take_over_its_flag() -> None:
    world = World(REFERENCE, admin_key=ADMIN_KEY)
    old = verified(world, "alice", ALICE)
    again = world.connect()
    world.identify(again, "alice", key=ALICE)
    assert_sent(again, "TAKEOVER_PENDING")
    world.advance(5)
    assert_sent(again, "WELCOME", verified=False)
    assert_closed(old, 1000, "Identity claimed by verified connection")
    world.send(again, "JOIN", channel="#ops")
    assert "AUTH_REQUIRED" in [message.get("code") for message in again.read()]
    assert_consistent(world)


def test_row_2_keep_agents_get_no_flag_and_reach_no_verified_only_channel() -> None:
    town = Town(profile=REFERENCE, admin_key=ADMIN_KEY)
    member = verified(town, "member", BOB)
    peer = town.peer("bot:a")
    resident = town.bridge.residents["bot:a"].agent
    admin = town.connect()
    town.send(admin, "ADMIN_VERIFY", admin_key=ADMIN_KEY, agent_id=resident.id, verified=True)
    assert_refused(admin, "INVALID_MSG", "keep")
    assert not resident.verified
    member.read()
    for dst in ("#ops", "swarm:ops"):
        assert town.ask(peer, "bot:a", dst, "hello") == "error:offline"
    town.say(member, "#ops", "the plan")
    assert peer.read() == []


def test_row_4_and_5_are_not_taken_nobody_has_to_lurk() -> None:
    world = World(REFERENCE)
    ephemeral = world.connect()
    world.identify(ephemeral)
    assert_sent(ephemeral, "WELCOME", lurk=ABSENT)
    world.send(ephemeral, "MSG", to="#general", content="hello")
    assert "LURK_MODE" not in [message.get("code") for message in ephemeral.read()]


def test_row_6_a_challenge_lasts_60_seconds() -> None:
    world = World(REFERENCE)
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    challenge = assert_sent(guest, "CHALLENGE")
    assert challenge["expires_at"] == challenge["ts"] + 60_000
    world.advance(59)
    assert_open(guest)
    world.advance(1)
    assert_closed(guest, 1000, "Challenge expired")


def test_the_reference_does_not_look_at_the_clock_of_a_proof() -> None:
    world = World(REFERENCE)
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"), timestamp=-1)
    assert_sent(guest, "WELCOME")


def test_row_12_malformed_json_is_answered() -> None:
    world = World(REFERENCE)
    guest = world.connect()
    world.send_raw(guest, b"{")
    assert_refused(guest, "INVALID_MSG")
    assert_open(guest)


@pytest.mark.parametrize("frame", [b'{"type":"PING"}', b"{", b'{"type":"NONSENSE"}', b"null"])
def test_row_13_too_many_frames_close(frame: bytes) -> None:
    """Valid or not (agentchat wire 1.2)."""
    world = World(REFERENCE)
    guest = world.agent(key=ALICE)
    for _ in range(60):
        world.send_raw(guest, frame)
    assert_open(guest)
    world.send_raw(guest, frame)
    assert_closed(guest, 1008, "Rate limit exceeded")
    facts = {"ip": "192.0.2.1", "agent": ALICE.public.fingerprint, "messages": 61}
    assert world.log.find("rate_limit_exceeded") == [facts]


def test_row_14_welcome_puts_an_agent_into_every_public_channel_without_joined() -> None:
    world = World(REFERENCE)
    first = world.agent("first", key=ALICE)
    world.send(first, "CREATE_CHANNEL", channel="#den", invite_only=True)
    first.read()
    second = world.connect()
    world.identify(second, "second", key=BOB)
    welcome = assert_sent(second, "WELCOME")
    public = list(PROFILES[REFERENCE]["default_channels"])
    assert list(world.hall.roster.agents[welcome["agent_id"][1:]].channels) == public
    service_line(second, "second came online")
    assert_silent(second)
    for channel in public:
        assert_sent(first, "AGENT_JOINED", channel=channel, agent=welcome["agent_id"])
    service_line(first, "second came online")
    assert_silent(first)
    assert_consistent(world)


def test_row_14_auto_join_takes_those_into_verified_only_channels_who_are_shown_as_verified() -> None:
    world = World(REFERENCE, allowlist=True, approved=[ALICE])
    for key, is_in in ((ALICE, True), (BOB, False), (None, False)):
        guest = world.agent(key=key)
        assert ("#ops" in world.hall.roster.agents[guest.id[1:]].channels) is is_in


def test_row_15_and_17_the_order_on_join() -> None:
    world = World(REFERENCE)
    alice, bob = pair(world)
    world.send(bob, "LEAVE", channel="#help")
    world.say(alice, "#help", "hello")
    world.hush()
    world.send(bob, "JOIN", channel="#help")
    assert_sent(bob, "JOINED", channel="#help")
    assert_sent(bob, "MSG", content="hello", replay=True)
    service_line(bob, "bob joined #help", "#help")
    assert_silent(bob)
    assert_sent(alice, "AGENT_JOINED", channel="#help", agent=bob.id)
    service_line(alice, "bob joined #help", "#help")
    assert_silent(alice)


def test_row_16_joined_after_create_lists_the_creators_id() -> None:
    world = World(REFERENCE)
    alice, _ = pair(world)
    world.send(alice, "CREATE_CHANNEL", channel="#new")
    assert_sent(alice, "JOINED", channel="#new", agents=[alice.id])
    world.send(alice, "JOIN", channel="#new")
    assert_sent(alice, "JOINED", agents=[{"id": alice.id, "name": "alice", "verified": False}])


def test_row_17_service_lines_are_told_and_kept() -> None:
    world = World(REFERENCE)
    alice, bob = pair(world)
    world.disconnect(bob)
    lines = [message for message in alice.read() if message["type"] == "MSG"]
    assert [line["content"] for line in lines] == ["bob went offline"]
    assert world.buffered("#general")[-1]["content"] == "bob went offline"


def test_row_18_channel_messages_go_back_to_their_sender() -> None:
    world = World(REFERENCE)
    alice, bob = pair(world)
    msg_id = world.say(alice, "#general", "hello")
    assert_sent(alice, "MSG", from_=alice.id, content="hello", msg_id=msg_id)
    assert_sent(bob, "MSG", content="hello", msg_id=msg_id)
    msg_id = world.say(alice, bob.id, "psst")
    assert_sent(alice, "MSG", to=bob.id, content="psst", msg_id=msg_id)
    assert_sent(bob, "MSG", content="psst")
    world.say(alice, alice.id, "note")
    assert_sent(alice, "MSG", content="note")
    assert_silent(alice, bob)


@ANY_PROFILE
def test_row_19_every_chat_message_has_an_id(profile: str) -> None:
    world = World(profile)
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="hello")
    assert assert_sent(bob, "MSG")["msg_id"]


def test_row_21_not_being_a_member_has_its_own_code() -> None:
    world = World(REFERENCE)
    alice, bob = pair(world)
    world.send(alice, "LEAVE", channel="#help")
    world.hush()
    world.send(alice, "MSG", to="#help", content="hello")
    assert_refused(alice, "NOT_INVITED")
    world.advance(1)
    world.send(alice, "MSG", to="#nowhere", content="hello")
    assert_refused(alice, "CHANNEL_NOT_FOUND")
    assert_silent(bob)


def test_row_22_nine_channels_exist_at_start() -> None:
    world = World(REFERENCE)
    guest = world.connect()
    world.send(guest, "LIST_CHANNELS")
    channels = assert_sent(guest, "CHANNELS")["list"]
    assert [channel["name"] for channel in channels] == [
        "#general",
        "#engineering",
        "#pull-requests",
        "#help",
        "#love",
        "#agents",
        "#discovery",
        "#bounties",
        "#ops",
    ]
    assert [channel.get("verifiedOnly", False) for channel in channels] == [False] * 8 + [True]


@ANY_PROFILE
def test_rows_20_23_and_46_are_not_taken_what_the_seeds_ask_for_works_in_both(profile: str) -> None:
    world = World(profile)
    alice, bob = world.agent("alice"), world.agent("bob")
    world.hush()
    world.send(alice, "MSG", to=bob.id, content="psst")
    assert_sent(bob, "MSG", to=bob.id, content="psst")
    world.send(alice, "FILE_CHUNK", to=bob.id, content="x")
    assert_sent(bob, "FILE_CHUNK", content="x")
    alice.read()
    world.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    assert_sent(alice, "JOINED")


def test_rows_14_and_23_who_comes_is_announced_in_a_bounded_number_of_channels() -> None:
    """There only verified agents make channels; here anybody could make one arrival cost megabytes."""
    world = World(REFERENCE, no_limits=True)
    alice = world.agent("alice")
    for number in range(300):
        world.send(alice, "CREATE_CHANNEL", channel=f"#room{number}")
    assert alice.read()[-1]["code"] == "INVALID_MSG"
    world.agent("bob")
    assert len([message for message in alice.read() if message["type"] == "AGENT_JOINED"]) <= 200


def test_row_24_the_buffer_holds_200() -> None:
    world = World(REFERENCE, no_limits=True)
    alice, _ = pair(world)
    for number in range(250):
        world.send(alice, "MSG", to="#help", content=str(number))
    assert len(world.hall.channels.find("#help").buffer) == 200


def test_row_25_the_idle_prompt_comes_after_an_hour() -> None:
    world = World(REFERENCE)
    _, bob = pair(world)
    world.advance(3599)
    assert_silent(bob)
    world.advance(61)
    assert bob.read()


def test_what_needs_a_key_is_answered_signature_required() -> None:
    world = World(REFERENCE)
    guest = world.agent()
    world.send(guest, "ACCEPT", proposal_id="prop_x", sig="s")
    assert_refused(guest, "SIGNATURE_REQUIRED")


def test_row_56_the_allow_list_lets_others_in_unless_it_is_strict() -> None:
    world = World(REFERENCE, allowlist=True, approved=[ALICE])
    world.agent("bob", key=BOB)
    world.agent("visitor")
    strict = World(REFERENCE, allowlist=True, allowlist_strict=True)
    guest = strict.connect()
    strict.identify(guest)
    assert_refused(guest, "NOT_ALLOWED")


# -- agentchat wire 18.1: what an unmodified client expects, in both profiles --------------------------


@ANY_PROFILE
def test_18_1_point_1_identify_is_the_first_thing_a_client_says_with_a_null_key(profile: str) -> None:
    world = World(profile)
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="visitor", pubkey=None)
    assert_sent(guest, "WELCOME")


@ANY_PROFILE
def test_18_1_point_2_a_failed_proof_is_an_error_and_a_good_one_a_welcome_with_nothing_before(
    profile: str,
) -> None:
    world = World(profile)
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"), signature="nonsense")
    assert_refused(guest, "VERIFICATION_FAILED")
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"))
    assert_sent(guest, "WELCOME")


@ANY_PROFILE
@pytest.mark.parametrize("request_type", ["JOIN", "CREATE_CHANNEL"])
def test_18_1_point_3_one_joined_per_request_and_none_unasked(profile: str, request_type: str) -> None:
    world = World(profile)
    guest = world.agent("alice", key=ALICE)
    other = world.agent("bob", key=BOB)
    channel = "#general" if request_type == "JOIN" else "#new"
    world.send(guest, request_type, channel=channel)
    joined = [message for message in guest.link.messages if message["type"] == "JOINED"]
    assert [message["channel"] for message in joined] == [channel]
    assert "JOINED" not in [message["type"] for message in other.link.messages]
    world.send(guest, "JOIN", channel="#nowhere")
    assert guest.read()[-1]["code"] == "CHANNEL_NOT_FOUND"


@ANY_PROFILE
def test_18_1_point_6_verify_is_answered_with_the_asked_id(profile: str) -> None:
    world = World(profile)
    alice, bob = pair(world)
    for sig, kind, field in (
        (BOB.sign("0" * 32), "VERIFY_SUCCESS", "agent"),
        (ALICE.sign("0" * 32), "VERIFY_FAILED", "target"),
    ):
        world.send(alice, "VERIFY_REQUEST", target=bob.id, nonce="0" * 32)
        assert_sent(alice, "VERIFY_REQUEST")
        request = assert_sent(bob, "VERIFY_REQUEST")
        world.send(bob, "VERIFY_RESPONSE", request_id=request["request_id"], nonce="0" * 32, sig=sig)
        assert_sent(alice, kind, **{field: bob.id})
        bob.read()
    world.send(alice, "VERIFY_REQUEST", target=bob.id, nonce="0" * 32)
    alice.read()
    world.advance(30)
    assert_sent(alice, "VERIFY_FAILED", target=bob.id)


@ANY_PROFILE
def test_18_1_point_7_lists_are_in_the_field_list(profile: str) -> None:
    world = World(profile)
    alice, _ = pair(world)
    world.send(alice, "LIST_CHANNELS")
    assert assert_sent(alice, "CHANNELS")["list"]
    world.send(alice, "LIST_AGENTS", channel="#general")
    entries = assert_sent(alice, "AGENTS")["list"]
    assert {"id", "name", "presence", "status_text", "verified"} == set(entries[0])


@ANY_PROFILE
def test_18_1_point_10_no_error_where_the_reference_sends_none(profile: str) -> None:
    world = World(profile)
    for guest in (world.connect(), world.agent()):
        guest.read()
        world.send(guest, "TYPING", channel="#nowhere")
        world.send(guest, "RESPONDING_TO", msg_id="m", channel="#nowhere", started_at=1)
        assert_silent(guest)
    world.send(guest, "LEAVE", channel="#nowhere")
    assert_silent(guest)


@ANY_PROFILE
def test_18_1_point_11_history_is_sent_once_per_join(profile: str) -> None:
    world = World(profile)
    alice, bob = pair(world)
    world.say(alice, "#general", "hello")
    bob.read()
    world.send(bob, "JOIN", channel="#general")
    assert [message.get("content") for message in bob.read()].count("hello") == 1


@ANY_PROFILE
def test_18_1_point_12_messages_sent_before_identify_are_refused_and_identify_still_works(
    profile: str,
) -> None:
    world = World(profile)
    guest = world.connect()
    world.send(guest, "JOIN", channel="#general")
    world.send(guest, "MSG", to="#general", content="queued")
    for _ in range(2):
        assert_refused(guest, "AUTH_REQUIRED")
    world.identify(guest, "alice", key=ALICE)
    assert_sent(guest, "WELCOME")


@ANY_PROFILE
def test_row_8_takeover_says_so_before_it_closes(profile: str) -> None:
    """Without SESSION_DISPLACED the MCP client fights for the session."""
    world = World(profile)
    old = world.agent("alice", key=ALICE)
    new = world.connect("192.0.2.2")
    world.identify(new, "alice", key=ALICE)
    world.advance(world.settings.takeover_delay)
    assert_sent(old, "SESSION_DISPLACED", new_ip="192.0.2.2")
    assert_closed(old, 1000, "Identity claimed by verified connection")
    assert_open(new)
    assert_consistent(world)


@ANY_PROFILE
def test_rows_33_and_34_both_names_of_floor_messages_and_fields_are_sent(profile: str) -> None:
    world = World(profile)
    alice, bob = pair(world)
    msg_id = world.say(alice, "#general", "who knows?")
    world.hush()
    world.send(alice, "RESPONDING_TO", msg_id=msg_id, channel="#general", started_at=1)
    assert_sent(bob, "RESPONDING_TO", from_=alice.id)
    assert_sent(bob, "FLOOR_CLAIMED", holder=alice.id, holder_name="alice")
    world.send(bob, "RESPONDING_TO", msg_id=msg_id, channel="#general", started_at=2)
    assert_sent(bob, "YIELD", winner=alice.id, holder=alice.id, holder_started_at=1)


@ANY_PROFILE
def test_a_kick_looks_the_same_in_both(profile: str) -> None:
    world = World(profile, admin_key=ADMIN_KEY)
    alice, bob = pair(world)
    world.send(alice, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=bob.id)
    assert_sent(alice, "ADMIN_RESULT", action="kick", agentId=bob.id)
    assert_sent(bob, "KICKED")
    assert_closed(bob, 1000, "Kicked by admin")
    assert_consistent(world)
