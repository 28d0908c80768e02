"""IDENTIFY, the challenge, the captcha, WELCOME (seed 000, connection lifecycle; agentchat wire 4)."""

import re
from hashlib import sha256
from typing import Any

import pytest

from moothall.hall.access import Ban
from moothall.hall.captcha import Difficulty
from moothall.hall.handshake import CaptchaTest
from moothall.hall.session import Tier
from moothall.identity import PrivateKey
from moothall.settings import PROFILES
from moothall.wire.agentchat.signing import unbound_time
from tests.identity.vectors import ALICE, BOB, SEEDS, VECTORS
from tests.support.world import (
    ABSENT,
    HALL_KEY,
    NOON,
    TWIN_ID,
    TWINS,
    Guest,
    Message,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

ALICE_ID = "@b8de75d1"
PRIVATE_PEM = (
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPDccsWXQ+oNVRySKRpFn+6tAs9RrfH1qpR/UrY3uHL1\n"
    "-----END PRIVATE KEY-----\n"
)


def roster(world: World) -> list[str]:
    return [agent.address for agent in world.hall.roster.agents.values()]


def challenged(world: World, key: PrivateKey = ALICE, **where: Any) -> tuple[Guest, Message]:
    """A guest that has sent IDENTIFY with its key, and the CHALLENGE it got."""
    guest = world.connect(**where)
    guest.key = key
    world.send(guest, "IDENTIFY", name="alice", pubkey=key.public.pem)
    return guest, assert_sent(guest, "CHALLENGE")


# -- seed 000, connect (ephemeral agent) ---------------------------------------------------------------


def test_connect_ephemeral_step_1_the_hall_waits_for_the_agent_to_speak() -> None:
    world = World()
    guest = world.connect()
    assert_open(guest)
    assert_silent(guest)


def test_connect_ephemeral_step_2_too_many_connections_from_one_ip_are_closed_1008() -> None:
    world = World(max_connections_per_ip=2)
    for _ in range(2):
        assert_open(world.connect("203.0.113.9"))
    rejected = world.connect("203.0.113.9")
    assert rejected.link.closed == (1008, "Too many connections from this IP")
    assert world.log.find("ip_connection_limit") == [{"ip": "203.0.113.9"}]
    assert_open(world.connect("203.0.113.10"))


def test_who_calls_without_end_is_counted_each_time_and_fills_no_log() -> None:
    world = World(max_connections_per_ip=2)
    for spell in (1, 2):
        guests = [world.connect("203.0.113.9") for _ in range(2)]
        for _ in range(10):
            world.connect("203.0.113.9")
        assert len(world.log.find("ip_connection_limit")) == spell
        for guest in guests:
            world.disconnect(guest)
    assert world.hall.tally.security["ip_connection_limit"] == 20
    assert world.hall.door.connections._told == set()


def test_connect_ephemeral_step_3_before_identification_it_has_no_id() -> None:
    world = World()
    guest = world.connect()
    assert guest.session.tier is Tier.STRANGER
    assert roster(world) == []
    world.send(guest, "MSG", to="#general", content="hello?")
    assert_refused(guest, "AUTH_REQUIRED")


def test_connect_ephemeral_step_3_the_eleventh_frame_in_ten_seconds_closes() -> None:
    world = World()
    guest = world.connect()
    for _ in range(10):
        world.send(guest, "PING")
        assert_sent(guest, "PONG")
    world.send(guest, "PING")
    assert_silent(guest)
    assert_closed(guest, 1008, "Rate limit exceeded")


@pytest.mark.parametrize("without", [{}, {"pubkey": None}], ids=["absent", "null"])
def test_connect_ephemeral_step_4_identify_without_a_key(without: Message) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="visitor", **without)
    assert_sent(guest, "WELCOME", name="visitor")


def test_connect_ephemeral_step_5_an_allow_list_rejects_who_has_no_key() -> None:
    world = World(allowlist=True)
    guest = world.connect()
    world.identify(guest)
    assert_refused(guest, "NOT_ALLOWED")
    assert_open(guest)
    assert roster(world) == []


def test_connect_ephemeral_step_6_the_id_is_eight_random_letters_and_digits() -> None:
    world = World(no_limits=True)
    ids = {world.agent().id for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"@[a-z0-9]{8}", agent_id) for agent_id in ids)


def test_connect_ephemeral_step_6_an_id_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    present = world.agent()
    drawn = iter([present.id[1:], "fresh123"])
    monkeypatch.setattr(world.hall.ids, "ephemeral_id", lambda: next(drawn))
    assert world.agent().id == "@fresh123"


def test_connect_ephemeral_step_7_the_agent_is_in_the_roster_and_not_verified() -> None:
    world = World()
    guest = world.agent("visitor")
    assert roster(world) == [guest.id]
    agent = world.hall.roster.agents[guest.id[1:]]
    assert (agent.name, agent.verified, agent.key, agent.presence) == ("visitor", False, None, "online")
    assert guest.session.tier is Tier.ANONYMOUS


def test_connect_ephemeral_step_8_welcome() -> None:
    world = World(server_name="the hall")
    guest = world.connect()
    world.identify(guest, "visitor")
    welcome = assert_sent(
        guest, "WELCOME", name="visitor", server="the hall", verified=ABSENT, lurk=ABSENT, motd=ABSENT
    )
    assert roster(world) == [welcome["agent_id"]]
    assert welcome["ts"] == NOON * 1000
    assert welcome["disclaimer"]
    assert "release" in welcome["features"]
    assert_silent(guest)


def test_connect_ephemeral_step_9_the_limit_is_now_sixty_in_ten_seconds() -> None:
    world = World()
    guest = world.agent()
    for _ in range(60):
        world.send(guest, "PING")
        assert_sent(guest, "PONG")
    world.send(guest, "PING")
    assert_refused(guest, "RATE_LIMITED")
    assert_open(guest)


# -- seed 000, connect (pubkey agent) ------------------------------------------------------------------


def test_connect_pubkey_steps_1_to_4_begin_like_those_without_a_key() -> None:
    world = World(max_connections_per_ip=1)
    guest, _ = challenged(world)
    assert guest.session.tier is Tier.STRANGER
    assert world.connect().link.closed == (1008, "Too many connections from this IP")


def test_connect_pubkey_step_5_the_allow_list_is_asked_before_any_challenge() -> None:
    world = World(allowlist=True, approved=[ALICE])
    stranger = world.connect()
    world.send(stranger, "IDENTIFY", name="bob", pubkey=BOB.public.pem)
    assert_refused(stranger, "NOT_ALLOWED")
    assert_silent(stranger)
    assert_open(stranger)
    assert world.agent("alice", key=ALICE).id == ALICE_ID


def test_connect_pubkey_step_6_no_agent_before_the_proof() -> None:
    world = World()
    guest, challenge = challenged(world)
    assert roster(world) == []
    assert world.hall.waiting == {challenge["challenge_id"]: guest.session}
    world.send(guest, "JOIN", channel="#general")
    assert_refused(guest, "AUTH_REQUIRED")


def test_connect_pubkey_step_7_challenge() -> None:
    world = World()
    _, challenge = challenged(world)
    assert re.fullmatch(r"chal_[0-9a-z]+_[0-9a-f]{8}", challenge["challenge_id"])
    assert re.fullmatch(r"[0-9a-f]{32}", challenge["nonce"])
    assert challenge["expires_at"] == challenge["ts"] + 30_000


def test_the_challenge_names_its_hall_and_its_nonce_follows_from_that() -> None:
    world = World()
    _, challenge = challenged(world, host="Hall.test:6667")
    name = (challenge["hall_key"], challenge["hall_random"], challenge["hall_host"])
    assert name[0] == HALL_KEY.public.raw.hex()
    assert re.fullmatch(r"[0-9a-f]{32}", name[1])
    assert name[2] == "Hall.test:6667"
    assert challenge["nonce"] == sha256("|".join(name).encode()).hexdigest()[:32]


@pytest.mark.parametrize(
    ("public_url", "name"),
    [("wss://hall.example.org", "hall.example.org"), ("ws://[::1]:7000/", "[::1]:7000")],
)
def test_the_operator_names_the_hall_whatever_host_is_asked_for(public_url: str, name: str) -> None:
    _, challenge = challenged(World(public_url=public_url), host="evil.example.org")
    assert challenge["hall_host"] == name


@pytest.mark.parametrize("profile", ["seeds", "agentchat-0.36"])
def test_a_proof_for_a_challenge_that_lost_its_name_is_refused(profile: str) -> None:
    world = World(profile)
    guest, challenge = challenged(world)
    world.prove(guest, challenge, timestamp=unbound_time(world.now_ms))
    assert_refused(guest, "VERIFICATION_FAILED", "relays")
    assert roster(world) == []
    assert world.log.find("challenge_relayed") == [{"ip": "192.0.2.1", "agent": ALICE.public.fingerprint}]


def test_connect_pubkey_step_7_no_two_challenges_are_alike() -> None:
    world = World()
    made = [challenged(world)[1] for _ in range(20)]
    assert len({challenge["nonce"] for challenge in made}) == 20
    assert len({challenge["challenge_id"] for challenge in made}) == 20


def test_connect_pubkey_steps_8_to_10_the_signature_covers_nonce_challenge_and_timestamp() -> None:
    for part in ("nonce", "challenge_id"):
        world = World()
        guest, challenge = challenged(world)
        assert guest.key
        text = f"AGENTCHAT_AUTH|{challenge['nonce']}|{challenge['challenge_id']}|{world.now_ms}"
        wrong = text.replace(challenge[part], "0" * len(challenge[part]))
        world.prove(guest, challenge, signature=guest.key.sign(wrong))
        assert_refused(guest, "VERIFICATION_FAILED")
    world = World()
    guest, challenge = challenged(world)
    assert guest.key
    text = f"AGENTCHAT_AUTH|{challenge['nonce']}|{challenge['challenge_id']}|{world.now_ms}"
    world.prove(guest, challenge, signature=guest.key.sign(text), timestamp=world.now_ms + 1)
    assert_refused(guest, "VERIFICATION_FAILED")


@pytest.mark.parametrize("off", [0, 0.5, 0.123])
def test_connect_pubkey_step_8_numbers_are_signed_as_javascript_writes_them(off: float) -> None:
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge, timestamp=float(world.now_ms) + off)
    assert_sent(guest, "WELCOME")


def test_connect_pubkey_step_11_the_id_is_the_first_eight_digits_of_the_keys_hash() -> None:
    world = World()
    for vector in VECTORS["keys"]:
        guest = world.agent(vector["name"], key=PrivateKey(SEEDS[vector["name"]]))
        assert guest.id == vector["wire_id_8"]


def test_connect_pubkey_step_11_welcome_says_verified() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge)
    assert_sent(guest, "WELCOME", agent_id=ALICE_ID, verified=True)
    assert guest.session.tier is Tier.VERIFIED
    assert roster(world) == [ALICE_ID]
    assert world.hall.waiting == {}


def test_connect_pubkey_step_11_takeover_kicks_the_old_connection() -> None:
    world = World()
    old = world.agent("alice", key=ALICE, ip="192.0.2.1", join="#general")
    bob = world.agent("bob", join="#general")
    old.read()
    new, challenge = challenged(world, ip="192.0.2.2")
    assert_open(old)
    world.prove(new, challenge)
    notice = assert_sent(old, "SESSION_DISPLACED", new_ip="192.0.2.2")
    assert "Another connection" in notice["reason"]
    assert_closed(old, 1000, "Identity claimed by verified connection")
    assert_sent(bob, "AGENT_LEFT", channel="#general", agent=ALICE_ID)
    assert_sent(new, "WELCOME", agent_id=ALICE_ID)
    assert world.hall.roster.agents["b8de75d1"].session is new.session
    assert world.hall.roster.agents["b8de75d1"].channels == {}
    assert_consistent(world)


def test_connect_pubkey_step_11_an_ephemeral_agent_with_that_id_makes_room_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    monkeypatch.setattr(world.hall.ids, "ephemeral_id", lambda: ALICE_ID[1:])
    squatter = world.agent("squatter", join="#general")
    assert squatter.id == ALICE_ID
    alice = world.agent("alice", key=ALICE)
    assert_sent(squatter, "SESSION_DISPLACED")
    assert roster(world) == [alice.id]
    assert_consistent(world)


def test_connect_pubkey_step_12_a_wrong_signature_is_answered_and_leaves_no_agent() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge, signature=BOB.sign("AGENTCHAT_AUTH"))
    assert_refused(guest, "VERIFICATION_FAILED")
    assert_open(guest)
    assert roster(world) == []
    assert world.log.find("verification_failed") == [{"ip": "192.0.2.1", "agent": ALICE.public.fingerprint}]


def test_connect_pubkey_step_12_it_may_try_again_with_a_new_challenge() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge, signature="nonsense")
    assert_refused(guest, "VERIFICATION_FAILED")
    world.prove(guest, challenge)
    assert_refused(guest, "VERIFICATION_EXPIRED", "Challenge not found")
    world.identify(guest, "alice", key=ALICE)
    assert_sent(guest, "WELCOME", agent_id=ALICE_ID)


def test_verification_failure_step_3_without_a_proof_there_are_no_deals() -> None:
    """Seed 000, verification failure: the caller is told, and may go on without a key."""
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge, signature="nonsense")
    assert_refused(guest, "VERIFICATION_FAILED")
    world.send(guest, "PROPOSAL", to="@x", task="t", sig="s")
    assert_refused(guest, "AUTH_REQUIRED")
    world.identify(guest)
    assert_sent(guest, "WELCOME", verified=ABSENT)
    world.send(guest, "PROPOSAL", to="@x", task="t", sig="s")
    assert_refused(guest, "VERIFICATION_REQUIRED")


def test_connect_pubkey_step_12_a_failed_proof_does_not_disturb_the_old_connection() -> None:
    world = World()
    old = world.agent("alice", key=ALICE)
    thief, challenge = challenged(world)
    world.prove(thief, challenge, signature=BOB.sign("AGENTCHAT_AUTH"))
    assert_refused(thief, "VERIFICATION_FAILED")
    assert_open(old)
    assert_silent(old)


def test_connect_pubkey_step_13_an_unanswered_challenge_expires_after_30_s_and_closes() -> None:
    world = World()
    guest, _ = challenged(world)
    world.advance(29.9)
    assert_open(guest)
    world.advance(0.1)
    assert_refused(guest, "VERIFICATION_EXPIRED", "Challenge expired")
    assert_closed(guest, 1000, "Challenge expired")
    assert world.hall.waiting == {}


def test_connect_pubkey_step_13_the_timeout_is_a_setting() -> None:
    world = World(challenge_timeout=5)
    guest, challenge = challenged(world)
    assert challenge["expires_at"] == challenge["ts"] + 5000
    world.advance(5)
    assert_closed(guest, 1000, "Challenge expired")


def test_connect_pubkey_step_13_an_answer_in_time_keeps_the_connection() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.advance(29)
    world.prove(guest, challenge)
    assert_sent(guest, "WELCOME")
    world.advance(600)
    assert_open(guest)


# -- agentchat wire 4.2, and what we do better ---------------------------------------------------------


def test_an_agent_can_identify_once_per_connection() -> None:
    """Seed 001, identity."""
    world = World()
    guest = world.agent()
    world.send(guest, "IDENTIFY", name="other")
    assert_refused(guest, "INVALID_MSG", "Already identified")
    world.send(guest, "VERIFY_IDENTITY", challenge_id="chal_x", signature="x", timestamp=1)
    assert_refused(guest, "INVALID_MSG", "Already identified")
    world.send(guest, "CAPTCHA_RESPONSE", captcha_id="captcha_x", answer="x")
    assert_refused(guest, "INVALID_MSG", "Already identified")


def test_one_challenge_at_a_time() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.send(guest, "IDENTIFY", name="other")
    assert_refused(guest, "INVALID_MSG", "Challenge already pending")
    world.prove(guest, challenge)
    assert_sent(guest, "WELCOME", name="alice")


def test_a_challenge_answered_on_another_connection_is_refused_and_stays() -> None:
    world = World()
    guest, challenge = challenged(world)
    other = world.connect()
    other.key = ALICE
    world.prove(other, challenge)
    assert_refused(other, "INVALID_MSG")
    world.prove(guest, challenge)
    assert_sent(guest, "WELCOME")


def test_an_unknown_challenge_is_answered_in_words_that_clients_match() -> None:
    """Agentchat wire 7: programs look for `Challenge not found`."""
    world = World()
    guest = world.connect()
    world.send(guest, "VERIFY_IDENTITY", challenge_id="chal_x", signature="x", timestamp=1)
    assert_refused(guest, "VERIFICATION_EXPIRED", "Challenge not found")


@pytest.mark.parametrize(("off_by", "in_time"), [(-601, False), (-600, True), (600, True), (601, False)])
def test_the_timestamp_of_a_proof_must_be_within_ten_minutes(off_by: int, in_time: bool) -> None:
    world = World()
    guest, challenge = challenged(world)
    world.prove(guest, challenge, timestamp=world.now_ms + off_by * 1000)
    if in_time:
        assert_sent(guest, "WELCOME")
    else:
        assert_refused(guest, "VERIFICATION_FAILED", "clock")
        assert_open(guest)


@pytest.mark.parametrize(
    "variant", VECTORS["pem_text_variants"]["variants"], ids=lambda variant: variant["label"]
)
def test_one_key_has_one_id_however_its_text_is_spelled(variant: Message) -> None:
    world = World()
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="speller", pubkey=variant["pem"])
    world.prove(guest, assert_sent(guest, "CHALLENGE"))
    assert_sent(guest, "WELCOME", agent_id=ALICE_ID)


def test_a_private_key_sent_by_mistake_is_refused_and_never_logged() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="oops", pubkey=PRIVATE_PEM)
    error = assert_refused(guest, "INVALID_MSG", "private key")
    digits = PRIVATE_PEM.splitlines()[1]
    assert digits not in error["message"]
    assert digits not in repr(world.log.entries)
    assert_open(guest)


@pytest.mark.parametrize("pem", ["x", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n", "\ud800"])
def test_what_is_no_key_is_refused(pem: str) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="oops", pubkey=pem)
    assert_refused(guest, "INVALID_MSG", "`pubkey`")
    assert_open(guest)


@pytest.mark.parametrize("kind", ["human", "agent"])
def test_who_says_so_is_shown_as_human(kind: str) -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    guest = world.agent("guest", kind=kind, join="#general")
    shown = "human" if kind == "human" else ABSENT
    assert_sent(alice, "AGENT_JOINED", agent=guest.id, kind=shown)
    world.say(guest, "#general", "hello")
    assert_sent(alice, "MSG", kind=shown)
    world.send(alice, "LIST_AGENTS", channel="#general")
    listed = assert_sent(alice, "AGENTS")["list"]
    assert [entry.get("kind", ABSENT) for entry in listed] == [ABSENT, shown]


def test_a_stranger_that_never_identifies_is_closed() -> None:
    world = World()
    guest = world.connect()
    world.advance(119)
    assert_open(guest)
    world.advance(1)
    assert_closed(guest, 1008, "Identify first")
    assert world.log.find("identify_timeout") == [{"ip": "192.0.2.1"}]


def test_a_failed_proof_starts_the_wait_again() -> None:
    world = World()
    guest, challenge = challenged(world)
    world.advance(20)
    world.prove(guest, challenge, signature="nonsense")
    assert_refused(guest, "VERIFICATION_FAILED")
    world.advance(119)
    assert_open(guest)
    world.advance(1)
    assert_closed(guest, 1008, "Identify first")


def test_the_wait_for_identification_can_be_turned_off() -> None:
    world = World(identify_timeout=0)
    guest = world.connect()
    world.advance(100_000)
    assert_open(guest)


def test_motd_is_in_welcome() -> None:
    world = World(motd="be kind")
    guest = world.connect()
    world.identify(guest)
    assert_sent(guest, "WELCOME", motd="be kind")


def test_ping_is_answered_in_any_state() -> None:
    """Agentchat wire 1.4."""
    world = World()
    guest, challenge = challenged(world)
    world.send(guest, "PING")
    assert_sent(guest, "PONG")
    world.prove(guest, challenge)
    assert_sent(guest, "WELCOME")
    world.send(guest, "PING")
    assert_sent(guest, "PONG")


# -- captcha (agentchat wire 4.3) ----------------------------------------------------------------------


def asked(world: World, key: PrivateKey | None = None) -> tuple[Guest, Message]:
    guest = world.connect()
    world.identify(guest, "alice", key=key)
    return guest, assert_sent(guest, "CAPTCHA_CHALLENGE")


def right_answer(guest: Guest) -> str:
    test = guest.session.pending
    assert isinstance(test, CaptchaTest)
    return test.question.answer


def answer(world: World, guest: Guest, captcha: Message, text: str) -> None:
    world.send(guest, "CAPTCHA_RESPONSE", captcha_id=captcha["captcha_id"], answer=text)


WRONG = "certainly not"


@pytest.mark.parametrize("key", [None, ALICE], ids=["ephemeral", "keyed"])
def test_the_right_answer_lets_in(key: PrivateKey | None) -> None:
    world = World(captcha=True)
    guest, captcha = asked(world, key)
    assert roster(world) == []
    assert re.fullmatch(r"captcha_[0-9a-z]+_[0-9a-f]{8}", captcha["captcha_id"])
    assert captcha["expires_at"] == captcha["ts"] + 30_000
    assert captcha["question"]
    assert captcha["hint"]
    answer(world, guest, captcha, right_answer(guest))
    welcome = assert_sent(guest, "WELCOME", name="alice", verified=ABSENT if key is None else True)
    assert roster(world) == [welcome["agent_id"]]
    world.advance(600)
    assert_open(guest)


@pytest.mark.parametrize("difficulty", list(Difficulty))
def test_every_difficulty_can_be_chosen(difficulty: Difficulty) -> None:
    world = World(captcha=True, captcha_difficulty=difficulty.value)
    guest, captcha = asked(world)
    answer(world, guest, captcha, right_answer(guest))
    assert_sent(guest, "WELCOME")


def test_the_only_attempt_failed_closes() -> None:
    world = World(captcha=True)
    guest, captcha = asked(world)
    answer(world, guest, captcha, WRONG)
    assert_refused(guest, "CAPTCHA_FAILED")
    assert_closed(guest, 1000, "Captcha failed")
    assert world.log.find("captcha_failed") == [{"ip": "192.0.2.1"}]


def test_attempts_that_are_left_keep_the_connection_and_the_question() -> None:
    world = World(captcha=True, captcha_attempts=3)
    guest, captcha = asked(world)
    for _ in range(2):
        answer(world, guest, captcha, WRONG)
        assert_refused(guest, "CAPTCHA_FAILED", "again")
        assert_open(guest)
    answer(world, guest, captcha, right_answer(guest))
    assert_sent(guest, "WELCOME")


def test_the_last_of_several_attempts_closes() -> None:
    world = World(captcha=True, captcha_attempts=2)
    guest, captcha = asked(world)
    answer(world, guest, captcha, WRONG)
    assert_refused(guest, "CAPTCHA_FAILED")
    answer(world, guest, captcha, WRONG)
    assert_refused(guest, "CAPTCHA_FAILED")
    assert_closed(guest, 1000, "Captcha failed")


def test_an_unanswered_captcha_expires_and_closes() -> None:
    world = World(captcha=True, captcha_timeout=12)
    guest, _ = asked(world)
    world.advance(11.9)
    assert_open(guest)
    world.advance(0.1)
    assert_refused(guest, "CAPTCHA_EXPIRED")
    assert_closed(guest, 1000, "Captcha expired")


def test_a_wrong_answer_buys_no_time() -> None:
    world = World(captcha=True, captcha_attempts=9)
    guest, captcha = asked(world)
    world.advance(29)
    answer(world, guest, captcha, WRONG)
    assert_refused(guest, "CAPTCHA_FAILED")
    world.advance(1)
    assert_refused(guest, "CAPTCHA_EXPIRED")
    assert_closed(guest, 1000, "Captcha expired")


def test_an_unknown_captcha_and_another_ones() -> None:
    world = World(captcha=True)
    guest, captcha = asked(world)
    other = world.connect()
    answer(world, other, captcha, right_answer(guest))
    assert_refused(other, "INVALID_MSG")
    answer(world, other, {"captcha_id": "captcha_x"}, "x")
    assert_refused(other, "CAPTCHA_EXPIRED", "Captcha not found")
    answer(world, guest, captcha, right_answer(guest))
    assert_sent(guest, "WELCOME")


def test_one_captcha_at_a_time() -> None:
    world = World(captcha=True)
    guest, _ = asked(world)
    world.send(guest, "IDENTIFY", name="other")
    assert_refused(guest, "INVALID_MSG", "already pending")


@pytest.mark.parametrize("skips", [True, False])
def test_approved_keys_are_not_asked_unless_the_operator_says_so(skips: bool) -> None:
    world = World(captcha=True, allowlist=True, approved=[ALICE], captcha_skip_allowlisted=skips)
    guest = world.connect()
    world.identify(guest, "alice", key=ALICE)
    assert_sent(guest, "WELCOME" if skips else "CAPTCHA_CHALLENGE")


def test_shadow_lurk_lets_the_failed_in_to_listen_without_its_key() -> None:
    world = World(captcha=True, captcha_fail_action="shadow_lurk")
    guest, captcha = asked(world, ALICE)
    answer(world, guest, captcha, WRONG)
    welcome = assert_sent(guest, "WELCOME", lurk=True, verified=ABSENT, name="alice")
    assert welcome["agent_id"] != ALICE_ID
    assert_open(guest)
    assert guest.session.tier is Tier.ANONYMOUS
    assert world.books.bound == {}


def test_a_lurker_listens_and_says_nothing() -> None:
    """Agentchat wire 4.4."""
    world = World(captcha=True, captcha_fail_action="shadow_lurk")
    lurker, captcha = asked(world)
    answer(world, lurker, captcha, WRONG)
    lurker.id = assert_sent(lurker, "WELCOME")["agent_id"]
    talker, captcha = asked(world)
    answer(world, talker, captcha, right_answer(talker))
    talker.id = assert_sent(talker, "WELCOME")["agent_id"]
    for guest in (lurker, talker):
        world.send(guest, "JOIN", channel="#general")
    world.hush()
    world.say(talker, "#general", "hello")
    assert_sent(lurker, "MSG", content="hello")
    world.send(lurker, "MSG", to="#general", content="hi")
    assert_refused(lurker, "LURK_MODE")
    world.send(lurker, "FILE_CHUNK", to=talker.id, content="x")
    assert_refused(lurker, "LURK_MODE")
    world.send(lurker, "TYPING", channel="#general")
    assert_sent(talker, "TYPING", from_=lurker.id)
    world.send(lurker, "LIST_AGENTS", channel="#general")
    assert_sent(lurker, "AGENTS")
    assert_silent(talker, lurker)


def test_a_ban_that_comes_while_the_question_is_open_holds() -> None:
    world = World(captcha=True)
    guest, captcha = asked(world, ALICE)
    world.hall.bans.add(Ban(agent_id=ALICE.public.agent_id(8)))
    answer(world, guest, captcha, right_answer(guest))
    assert_refused(guest, "BANNED")
    assert_closed(guest, 1000, "Banned")


def test_the_twin_that_answers_its_question_second_is_refused() -> None:
    world = World(captcha=True)
    asked_first, first_captcha = asked(world, TWINS[0])
    asked_second, second_captcha = asked(world, TWINS[1])
    answer(world, asked_first, first_captcha, right_answer(asked_first))
    assert_sent(asked_first, "WELCOME", agent_id=f"@{TWIN_ID}")
    answer(world, asked_second, second_captcha, right_answer(asked_second))
    assert_refused(asked_second, "NOT_ALLOWED")
    assert_open(asked_first, asked_second)
    assert world.books.bound == {TWIN_ID: TWINS[0].public.raw}


def test_rooms_hear_of_an_arrival_after_the_agent_was_welcomed() -> None:
    world = World()
    heard: list[tuple[str, list[str]]] = []
    guest = world.connect()
    world.hall.roster.on_arrival(
        lambda agent: heard.append((agent.address, [message["type"] for message in guest.link.messages]))
    )
    world.identify(guest, "alice", key=ALICE)
    assert heard == [(f"@{ALICE.public.agent_id()}", ["CHALLENGE", "WELCOME"])]


# -- no agent is called Server -------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", list(PROFILES))
@pytest.mark.parametrize("key", [None, ALICE], ids=["anonymous", "with a key"])
@pytest.mark.parametrize("name", ["Server", "server", "SERVER", "5erver", "_s3rver_"])
def test_the_name_of_the_hall_is_refused_as_a_nick_is(
    name: str, key: PrivateKey | None, profile: str
) -> None:
    world = World(profile)
    guest = world.connect()
    world.send(guest, "IDENTIFY", name=name, pubkey=key and key.public.pem)
    assert_refused(guest, "INVALID_NAME", name)
    assert_open(guest)
    world.identify(guest, "alice", key=key)
    assert_sent(guest, "WELCOME", name="alice")


@pytest.mark.parametrize("name", ["\uff33erver", "S\u0435rver", "Ser\u200bver"])
def test_letters_that_look_like_those_of_server_are_in_no_name(name: str) -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name=name)
    assert_refused(guest, "INVALID_MSG", "`name`")
