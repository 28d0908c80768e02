"""What operators do with the shared key (agentchat wire 16, 6.6)."""

import json
from typing import Any, NoReturn

import pytest

from moothall.hall.access import Doorkeeper
from moothall.hall.admin import MAX_BANS_LISTED, MAX_REASON_LISTED
from moothall.hall.common import BANS
from moothall.hall.session import Tier
from moothall.settings import PROFILES
from moothall.settings.limits import Rate
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB
from tests.support.world import (
    ABSENT,
    ACCESS_KEY,
    ADMIN_KEY,
    NOON,
    TWIN_ID,
    TWINS,
    Guest,
    HeldStore,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

BOTH_KEYS: dict[str, Any] = {"admin_key": ADMIN_KEY, "access_key": ACCESS_KEY}
ALICE_ID = ALICE.public.agent_id()

# Every admin operation with valid fields, but for the key.
OPERATIONS: dict[str, dict[str, Any]] = {
    "ADMIN_APPROVE": {"pubkey": ALICE.public.pem},
    "ADMIN_REVOKE": {"agent_id": "deadbeef"},
    "ADMIN_LIST": {},
    "ADMIN_KICK": {"agent_id": "deadbeef"},
    "ADMIN_BAN": {"agent_id": "deadbeef"},
    "ADMIN_UNBAN": {"agent_id": "deadbeef"},
    "ADMIN_BANS": {},
    "ADMIN_BUDGET": {},
    "ADMIN_SET_BUDGET": {"tokens": 5},
    "ADMIN_MOTD": {"motd": "hello"},
    "ADMIN_VERIFY": {"agent_id": "deadbeef", "verified": True},
}
# What only the bearer of a proven key may do, with valid fields.
NEED_A_PROVEN_KEY: dict[str, dict[str, Any]] = {
    "PROPOSAL": {"to": "@x", "task": "x", "sig": "x"},
    "ACCEPT": {"proposal_id": "p", "sig": "x"},
    "REJECT": {"proposal_id": "p", "sig": "x"},
    "COMPLETE": {"proposal_id": "p", "sig": "x"},
    "DISPUTE": {"proposal_id": "p", "reason": "x", "sig": "x"},
    "REGISTER_SKILLS": {"skills": [{"capability": "x"}], "sig": "x"},
    "DISPUTE_INTENT": {"proposal_id": "p", "reason": "x", "commitment": "x", "sig": "x"},
    "DISPUTE_REVEAL": {"proposal_id": "p", "nonce": "x", "sig": "x"},
    "EVIDENCE": {"dispute_id": "d", "items": [], "statement": "x", "sig": "x"},
    "ARBITER_ACCEPT": {"dispute_id": "d", "sig": "x"},
    "ARBITER_DECLINE": {"dispute_id": "d", "sig": "x"},
    "ARBITER_VOTE": {"dispute_id": "d", "verdict": "mutual", "reasoning": "x", "sig": "x"},
}
ACCESS_OPERATIONS = sorted(
    OPERATIONS.keys() - {"ADMIN_MOTD", "ADMIN_VERIFY", "ADMIN_BUDGET", "ADMIN_SET_BUDGET"}
)


def order(world: World, guest: Guest, operation: str, key: str = ADMIN_KEY, **fields: Any) -> None:
    world.send(guest, operation, **{**OPERATIONS[operation], **fields}, admin_key=key)


def with_allowlist(**settings: Any) -> World:
    return World(**{**BOTH_KEYS, "allowlist": True, "allowlist_strict": False, **settings})


# -- keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_a_key_in_the_settings_there_is_no_administration(operation: str) -> None:
    world = World(allowlist=True)
    guest = world.connect()
    order(world, guest, operation, key="")
    assert_refused(guest, "INVALID_MSG", "no admin key")


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("key", ["", "wrong", ADMIN_KEY + "x", ADMIN_KEY[:-1], "\ud800"])
def test_a_wrong_key_is_refused_logged_and_not_told(operation: str, key: str) -> None:
    world = with_allowlist()
    guest = world.connect()
    order(world, guest, operation, key)
    assert_refused(guest, "AUTH_REQUIRED")
    assert world.log.find("admin_refused") == [{"ip": "192.0.2.1", "operation": operation}]
    assert world.books.lists == {}
    assert world.hall.motd is None
    if key:
        assert key not in repr(world.log.entries)


@pytest.mark.parametrize("operation", ACCESS_OPERATIONS)
@pytest.mark.parametrize("key", [ADMIN_KEY, ACCESS_KEY])
def test_either_key_opens_the_lists(operation: str, key: str) -> None:
    world = with_allowlist()
    guest = world.connect()
    order(world, guest, operation, key)
    assert world.log.find("admin_operation") == [{"ip": "192.0.2.1", "operation": operation}]
    assert guest.next().get("code") in (None, "AGENT_NOT_FOUND")


@pytest.mark.parametrize("operation", ["ADMIN_MOTD", "ADMIN_VERIFY"])
def test_the_access_key_is_not_enough_for_the_rest(operation: str) -> None:
    world = with_allowlist()
    guest = world.connect()
    order(world, guest, operation, ACCESS_KEY)
    assert_refused(guest, "AUTH_REQUIRED")


def test_the_access_key_alone_is_enough_for_the_lists() -> None:
    world = with_allowlist(admin_key="")
    guest = world.connect()
    order(world, guest, "ADMIN_LIST", ACCESS_KEY)
    assert_sent(guest, "ADMIN_RESULT")
    order(world, guest, "ADMIN_MOTD", ACCESS_KEY)
    assert_refused(guest, "INVALID_MSG")


def test_strangers_and_agents_may_administer_alike() -> None:
    world = with_allowlist()
    for guest in (world.connect(), world.agent(), world.agent(key=ALICE)):
        order(world, guest, "ADMIN_LIST")
        assert_sent(guest, "ADMIN_RESULT", action="list")


def test_an_operator_who_knows_the_key_is_not_limited() -> None:
    world = with_allowlist()
    guest = world.agent()
    for _ in range(50):
        order(world, guest, "ADMIN_LIST")
        assert_sent(guest, "ADMIN_RESULT")


def test_wrong_keys_are_limited_per_address_and_then_the_right_one_is_refused_too() -> None:
    world = with_allowlist()
    guest = world.agent()
    for _ in range(10):
        order(world, guest, "ADMIN_LIST", "wrong")
    guest.read()
    order(world, guest, "ADMIN_LIST")
    assert_refused(guest, "RATE_LIMITED")
    assert world.log.find("admin_rate_limited") == [{"ip": "192.0.2.1", "operation": "ADMIN_LIST"}]
    same_address = world.connect()
    order(world, same_address, "ADMIN_LIST")
    assert_refused(same_address, "RATE_LIMITED")
    elsewhere = world.connect("192.0.2.99")
    order(world, elsewhere, "ADMIN_LIST")
    assert_sent(elsewhere, "ADMIN_RESULT")
    world.advance(60)
    order(world, guest, "ADMIN_LIST")
    assert_sent(guest, "ADMIN_RESULT")


@pytest.mark.parametrize("off", [{"no_limits": True}, {"rate_admin": Rate(0, 1)}])
def test_the_limit_of_attempts_can_be_turned_off(off: dict[str, Any]) -> None:
    world = with_allowlist(**off)
    guest = world.agent()
    for _ in range(50):
        order(world, guest, "ADMIN_LIST", "wrong")
        assert_refused(guest, "AUTH_REQUIRED")


def test_addresses_that_are_quiet_are_forgotten() -> None:
    world = with_allowlist()
    for number in range(20):
        order(world, world.connect(f"198.51.100.{number}"), "ADMIN_LIST", "wrong")
    world.advance(60)
    order(world, world.connect(), "ADMIN_LIST", "wrong")
    assert list(world.hall.door._failures) == ["192.0.2.1"]


def test_an_address_that_goes_on_failing_stays_known() -> None:
    door = Doorkeeper(max_per_ip=0, admin_key="x", access_key="", admin_rate=Rate(2, 60))
    door.admin_failed("192.0.2.1", 0)
    door.admin_failed("192.0.2.2", 30)
    door.admin_failed("192.0.2.1", 50)
    door.admin_failed("192.0.2.3", 95)  # the second is quiet now, the first is not
    assert list(door._failures) == ["192.0.2.1", "192.0.2.3"]
    door.admin_failed("192.0.2.1", 100)
    assert not door.may_attempt_admin("192.0.2.1", 100)


# -- the allow list ------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["ADMIN_APPROVE", "ADMIN_REVOKE", "ADMIN_LIST"])
def test_while_the_allow_list_is_off_it_is_not_edited(operation: str) -> None:
    world = World(admin_key=ADMIN_KEY)
    guest = world.connect()
    order(world, guest, operation)
    assert_refused(guest, "INVALID_MSG", "off")


def test_approve_lets_a_key_in() -> None:
    world = with_allowlist(allowlist_strict=True)
    admin, alice = world.connect(), world.connect()
    world.send(alice, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    assert_refused(alice, "NOT_ALLOWED")
    order(world, admin, "ADMIN_APPROVE")
    assert_sent(admin, "ADMIN_RESULT", action="approve", success=True, agentId=f"@{ALICE_ID}")
    world.identify(alice, "alice", key=ALICE)
    assert_sent(alice, "WELCOME")


@pytest.mark.parametrize(
    ("operation", "field"), [("ADMIN_BAN", "agent_id"), ("ADMIN_BAN", "reason"), ("ADMIN_APPROVE", "note")]
)
def test_half_a_character_does_not_keep_a_list_from_the_disk(operation: str, field: str) -> None:
    world = with_allowlist()
    admin = world.connect()
    order(world, admin, operation, **{field: "caf\u00e9 \ud800"})
    assert_sent(admin, "ADMIN_RESULT", success=True)
    ((record,),) = (records.values() for records in world.books.lists.values())
    assert "caf\u00e9 \ud800" in json.loads(record).values()
    content = (world.hall.bans if operation == "ADMIN_BAN" else world.hall.allowlist).encode()
    (entry,) = json.loads(content)
    assert "caf\u00e9 \ud800" in entry.values()
    assert "caf\u00e9".encode() in content


@pytest.mark.parametrize("pubkey", ["x", "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----"])
def test_approve_refuses_what_is_no_key(pubkey: str) -> None:
    world = with_allowlist()
    admin = world.connect()
    order(world, admin, "ADMIN_APPROVE", pubkey=pubkey)
    assert_refused(admin, "INVALID_MSG", "`pubkey`")


@pytest.mark.parametrize(
    "by",
    [
        {"pubkey": ALICE.public.pem},
        {"pubkey": ALICE.public.pem.strip()},
        {"agent_id": ALICE_ID},
        {"agent_id": f"@{ALICE_ID}"},
        {"agent_id": ALICE.public.fingerprint},
    ],
)
def test_revoke_by_key_or_id_keeps_out_but_disconnects_nobody(by: dict[str, str]) -> None:
    world = with_allowlist(allowlist_strict=True, approved=[ALICE])
    admin = world.connect()
    alice = world.agent("alice", key=ALICE)
    world.send(admin, "ADMIN_REVOKE", admin_key=ADMIN_KEY, **by)
    assert_sent(admin, "ADMIN_RESULT", action="revoke", success=True)
    assert_open(alice)
    again = world.connect()
    world.send(again, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    assert_refused(again, "NOT_ALLOWED")
    world.send(admin, "ADMIN_REVOKE", admin_key=ADMIN_KEY, **by)
    assert_refused(admin, "AGENT_NOT_FOUND")


def test_revoke_needs_a_key_or_an_id() -> None:
    world = with_allowlist()
    admin = world.connect()
    world.send(admin, "ADMIN_REVOKE", admin_key=ADMIN_KEY)
    assert_refused(admin, "INVALID_MSG", "agent_id")


@pytest.mark.parametrize("id_length", [8, 16])
def test_list_shows_who_is_approved(id_length: int) -> None:
    world = with_allowlist(id_length=id_length)
    admin = world.connect()
    order(world, admin, "ADMIN_APPROVE", note="a friend")
    admin.read()
    order(world, admin, "ADMIN_LIST")
    result = assert_sent(admin, "ADMIN_RESULT", action="list", enabled=True, strict=False, success=ABSENT)
    assert result["entries"] == [
        {
            "agentId": f"@{ALICE.public.agent_id(id_length)}",
            "pubkeyPrefix": ALICE.public.pem[:40] + "...",
            "approvedAt": "2025-10-09T08:53:20.000Z",
            "note": "a friend",
        }
    ]


# -- kick and ban --------------------------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "@"])
@pytest.mark.parametrize(("reason", "told"), [(None, "Kicked by admin"), ("enough", "enough")])
def test_kick_closes_one_agent(prefix: str, reason: str | None, told: str) -> None:
    world = World(**BOTH_KEYS)
    admin, alice = world.agent("admin", join="#general"), world.agent("alice", key=ALICE, join="#general")
    world.hush()
    order(world, admin, "ADMIN_KICK", agent_id=prefix + ALICE_ID, reason=reason)
    assert_sent(alice, "KICKED", reason=told)
    assert_closed(alice, 1000, "Kicked by admin")
    assert_sent(admin, "ADMIN_RESULT", action="kick", success=True, agentId=f"@{ALICE_ID}")
    assert_sent(admin, "AGENT_LEFT", agent=alice.id)
    assert world.agent("alice", key=ALICE).id == alice.id
    assert_consistent(world)


def test_kick_and_verify_of_who_is_not_there() -> None:
    world = World(**BOTH_KEYS)
    admin = world.connect()
    for operation in ("ADMIN_KICK", "ADMIN_VERIFY"):
        order(world, admin, operation)
        assert_refused(admin, "AGENT_NOT_FOUND")


@pytest.mark.parametrize("id_length", [8, 16])
@pytest.mark.parametrize("banned_as", [ALICE_ID, f"@{ALICE_ID}", ALICE.public.fingerprint])
def test_ban_closes_the_agent_and_keeps_its_key_out(id_length: int, banned_as: str) -> None:
    world = World(id_length=id_length, **BOTH_KEYS)
    admin, alice, bob = world.agent("admin"), world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    order(world, admin, "ADMIN_BAN", agent_id=banned_as, reason="spam")
    assert_sent(alice, "BANNED", reason="spam")
    assert_closed(alice, 1000, "Banned by admin")
    assert_sent(admin, "ADMIN_RESULT", action="ban", success=True, agentId=f"@{banned_as.removeprefix('@')}")
    again = world.connect()
    world.identify(again, "alice", key=ALICE)
    assert_refused(again, "BANNED", "spam")
    assert_closed(again, 1000, "Banned")
    assert_open(bob)
    assert_consistent(world)


def test_ban_works_for_who_is_offline_and_unban_lets_it_back_in() -> None:
    world = World(**BOTH_KEYS)
    admin = world.connect()
    order(world, admin, "ADMIN_BAN", agent_id=ALICE_ID)
    assert_sent(admin, "ADMIN_RESULT", action="ban")
    refused = world.connect()
    world.identify(refused, key=ALICE)
    assert_refused(refused, "BANNED")
    order(world, admin, "ADMIN_UNBAN", agent_id=f"@{ALICE_ID}")
    assert_sent(admin, "ADMIN_RESULT", action="unban", success=True, agentId=f"@{ALICE_ID}")
    world.agent("alice", key=ALICE)
    order(world, admin, "ADMIN_UNBAN", agent_id=ALICE_ID)
    assert_refused(admin, "AGENT_NOT_FOUND")


@pytest.mark.parametrize("banned_as", [8, 16])
@pytest.mark.parametrize("unbanned_as", [8, 16])
@pytest.mark.parametrize("id_length", [8, 16])
def test_unban_takes_either_length_of_an_id(id_length: int, banned_as: int, unbanned_as: int) -> None:
    world = World(id_length=id_length, **BOTH_KEYS)
    admin = world.connect()
    order(world, admin, "ADMIN_BAN", agent_id=ALICE.public.fingerprint[:banned_as])
    order(world, admin, "ADMIN_BAN", agent_id=BOB.public.fingerprint)
    admin.read()
    given = ALICE.public.fingerprint[:unbanned_as]
    order(world, admin, "ADMIN_UNBAN", agent_id=given)
    assert_sent(admin, "ADMIN_RESULT", action="unban", success=True, agentId=f"@{given}")
    world.agent("alice", key=ALICE)
    bob = world.connect()
    world.identify(bob, key=BOB)
    assert_refused(bob, "BANNED")


def test_unban_ends_every_ban_of_an_agent() -> None:
    world = World(**BOTH_KEYS)
    admin = world.connect()
    for agent_id in (ALICE_ID, ALICE.public.fingerprint):
        order(world, admin, "ADMIN_BAN", agent_id=agent_id)
    order(world, admin, "ADMIN_UNBAN", agent_id=ALICE_ID)
    world.agent("alice", key=ALICE)


@pytest.mark.parametrize("other", [ALICE_ID[:7], ALICE.public.fingerprint[:12], f"{ALICE_ID}zzzzzzzz", ""])
def test_unban_takes_no_other_beginning_of_an_id(other: str) -> None:
    world = World(**BOTH_KEYS)
    admin = world.connect()
    for agent_id in (ALICE_ID, ALICE.public.fingerprint):
        order(world, admin, "ADMIN_BAN", agent_id=agent_id)
    admin.read()
    order(world, admin, "ADMIN_UNBAN", agent_id=f"@{other}")
    assert_refused(admin, "AGENT_NOT_FOUND")


def test_a_ban_of_an_ephemeral_id_closes_its_session() -> None:
    world = World(**BOTH_KEYS)
    admin, guest = world.connect(), world.agent()
    order(world, admin, "ADMIN_BAN", agent_id=guest.id)
    assert_sent(guest, "BANNED", reason="Banned by admin")
    assert_closed(guest, 1000, "Banned by admin")


def bans_on_disk(world: World) -> list[dict[str, Any]]:
    return [json.loads(record) for record in world.books.listed(BANS)]


def test_the_key_of_an_agent_is_banned_and_not_its_digits() -> None:
    world = World(id_length=16, **BOTH_KEYS)
    admin, first = world.connect(), world.agent("first", key=TWINS[0])
    order(world, admin, "ADMIN_BAN", agent_id=TWIN_ID)
    assert_closed(first, 1000, "Banned by admin")
    (ban,) = bans_on_disk(world)
    assert (ban["agentId"], ban["pubkey"]) == (TWIN_ID, TWINS[0].public.pem)
    world.agent("second", key=TWINS[1])
    refused = world.connect()
    world.identify(refused, key=TWINS[0])
    assert_refused(refused, "BANNED")
    order(world, admin, "ADMIN_UNBAN", agent_id=TWINS[1].public.fingerprint)
    admin.read()
    assert world.hall.bans.find(TWINS[0].public)
    order(world, admin, "ADMIN_UNBAN", agent_id=TWINS[0].public.fingerprint)
    assert world.hall.bans.find(TWINS[0].public) is None


def test_the_key_of_an_agent_that_is_away_is_looked_up() -> None:
    world = World(**BOTH_KEYS)
    world.disconnect(world.agent("alice", key=ALICE))
    admin = world.connect()
    order(world, admin, "ADMIN_BAN", agent_id=ALICE_ID)
    assert_sent(admin, "ADMIN_RESULT", action="ban", success=True)
    assert bans_on_disk(world)[0]["pubkey"] == ALICE.public.pem


def test_two_agents_with_the_same_digits_are_banned_by_these() -> None:
    world = World(id_length=16, **BOTH_KEYS)
    admin, *twins = world.connect(), *(world.agent(key=key) for key in TWINS)
    order(world, admin, "ADMIN_BAN", agent_id=TWIN_ID)
    for twin in twins:
        assert_closed(twin, 1000, "Banned by admin")
    assert "pubkey" not in bans_on_disk(world)[0]
    assert all(world.hall.bans.find(key.public) for key in TWINS)


def test_a_store_that_fails_does_not_keep_an_operator_from_banning() -> None:
    world = World(**BOTH_KEYS)

    def unreachable(ids: object) -> NoReturn:
        raise OSError("gone")

    world.books.owners = unreachable  # type: ignore[method-assign]
    admin = world.connect()
    order(world, admin, "ADMIN_BAN", agent_id=ALICE_ID)
    assert_sent(admin, "ADMIN_RESULT", action="ban", success=True)
    assert world.hall.bans.find(ALICE.public)


def test_who_comes_while_its_key_is_looked_up_is_sent_away() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    world = World(books=books, key_store=store, **BOTH_KEYS)
    books.bound[ALICE_ID] = ALICE.public.raw
    alice, admin = world.connect(), world.connect()
    world.identify(alice, "alice", key=ALICE)
    order(world, admin, "ADMIN_BAN", agent_id=ALICE_ID)
    store.do_next()
    assert_sent(alice, "WELCOME")
    store.do_next()
    assert_sent(alice, "BANNED")
    assert_closed(alice, 1000, "Banned by admin")


# -- MOTD ----------------------------------------------------------------------------------------------


def test_motd_is_told_to_every_connection_and_to_those_who_come() -> None:
    world = World(**BOTH_KEYS)
    stranger, agent, admin = world.connect(), world.agent(), world.connect()
    order(world, admin, "ADMIN_MOTD", motd="tea at five")
    for guest in (stranger, agent, admin):
        assert_sent(guest, "MOTD_UPDATE", motd="tea at five")
    assert_sent(admin, "ADMIN_RESULT", action="motd", success=True, motd="tea at five", kicked=False)
    world.identify(stranger)
    assert_sent(stranger, "WELCOME", motd="tea at five")
    world.advance(10)
    assert_open(stranger, agent)


@pytest.mark.parametrize("motd", [None, ""])
def test_an_empty_motd_clears_it(motd: str | None) -> None:
    world = World(motd="old", **BOTH_KEYS)
    admin = world.connect()
    order(world, admin, "ADMIN_MOTD", motd=motd)
    assert_sent(admin, "MOTD_UPDATE", motd=None)
    assert_sent(admin, "ADMIN_RESULT", action="motd", motd=None)
    world.identify(admin)
    assert_sent(admin, "WELCOME", motd=ABSENT)


def test_motd_with_kick_closes_everybody_else_half_a_second_later() -> None:
    world = World(**BOTH_KEYS)
    stranger, agent, gone, admin = world.connect(), world.agent(join="#general"), world.agent(), world.agent()
    order(world, admin, "ADMIN_MOTD", motd="back in an hour", kick=True)
    assert_sent(admin, "MOTD_UPDATE")
    assert_sent(admin, "ADMIN_RESULT", kicked=True)
    world.disconnect(gone)
    world.advance(0.4)
    assert_open(stranger, agent, admin)
    late = world.connect()
    world.advance(0.1)
    for guest in (stranger, agent):
        assert_closed(guest, 1001, "Server maintenance")
    assert_open(admin, late)
    assert gone.link.closed == (1006, "")
    assert_consistent(world)


def test_those_who_are_sent_away_together_do_not_hear_of_each_other() -> None:
    world = World(**BOTH_KEYS)
    admin = world.agent(join="#general")
    crowd = [world.agent(join="#general") for _ in range(5)]
    world.hush()
    order(world, admin, "ADMIN_MOTD", motd="back in an hour", kick=True)
    world.advance(0.5)
    for guest in crowd:
        assert_sent(guest, "MOTD_UPDATE")
        assert_closed(guest, 1001, "Server maintenance")
        assert_silent(guest)
    left = [message["agent"] for message in admin.link.messages if message["type"] == "AGENT_LEFT"]
    assert sorted(left) == sorted(guest.id for guest in crowd)
    assert_consistent(world)


@pytest.mark.parametrize("id_length", [8, 16])
@pytest.mark.parametrize("given", [8, 16])
@pytest.mark.parametrize("operation", ["ADMIN_KICK", "ADMIN_VERIFY"])
def test_an_agent_is_found_by_its_id_in_either_length(operation: str, given: int, id_length: int) -> None:
    """ADMIN_LIST and the logs tell the long one."""
    world = World(**BOTH_KEYS, id_length=id_length)
    admin, _ = world.agent(), world.agent("alice", key=ALICE)
    order(world, admin, operation, agent_id=ALICE.public.fingerprint[:given])
    assert_sent(admin, "ADMIN_RESULT", success=True)


# -- the verified flag ---------------------------------------------------------------------------------


def test_verify_switches_what_is_shown_and_tells_the_agent() -> None:
    world = World(**BOTH_KEYS)
    admin, guest = world.agent("admin", join="#general"), world.agent("guest", join="#general")
    world.hush()
    order(world, admin, "ADMIN_VERIFY", agent_id=guest.id, verified=True)
    assert_sent(admin, "ADMIN_RESULT", action="verify", success=True, agentId=guest.id, verified=True)
    told = assert_sent(guest, "ADMIN_RESULT", action="verify", success=True, verified=True, agentId=ABSENT)
    assert told["note"]
    world.say(guest, "#general", "look")
    assert_sent(admin, "MSG", verified=True)
    order(world, admin, "ADMIN_VERIFY", agent_id=guest.id, verified=False)
    world.hush()
    world.say(guest, "#general", "oh")
    assert_sent(admin, "MSG", verified=False)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_the_flag_opens_verified_channels_and_nothing_else(profile: str) -> None:
    """Deals, skills and the court need a proven key in every profile."""
    world = World(profile, **{"verified_channels": ("#ops",), **BOTH_KEYS})
    admin, guest = world.connect(), world.agent("guest")
    order(world, admin, "ADMIN_VERIFY", agent_id=guest.id, verified=True)
    guest.read()
    world.send(guest, "JOIN", channel="#ops")
    assert_sent(guest, "JOINED", channel="#ops")
    guest.read()
    proven = [row for row in world.hall.commands if row.tier is Tier.VERIFIED]
    assert {row.name for row in proven} >= NEED_A_PROVEN_KEY.keys()
    for operation, fields in NEED_A_PROVEN_KEY.items():
        world.send(guest, operation, **fields)
        assert_refused(guest, world.settings.unverified_code)


@pytest.mark.parametrize("profile", list(PROFILES))
def test_an_agent_that_loses_the_flag_is_out_of_the_verified_channels(profile: str) -> None:
    world = World(profile, **{"verified_channels": ("#ops",), **BOTH_KEYS})
    admin = world.connect()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    for agent in (alice, bob):
        order(world, admin, "ADMIN_VERIFY", agent_id=agent.id, verified=True)
        world.send(agent, "JOIN", channel="#ops")
    world.send(alice, "RESPONDING_TO", msg_id="1-a", channel="#ops", started_at=1)
    world.hush()
    order(world, admin, "ADMIN_VERIFY", agent_id=alice.id, verified=False)
    assert_sent(alice, "LEFT", channel="#ops")
    assert_sent(alice, "ADMIN_RESULT", action="verify", verified=False)
    assert_sent(bob, "AGENT_LEFT", channel="#ops", agent=alice.id)
    world.say(bob, "#ops", "she is gone")
    world.send(bob, "TYPING", channel="#ops")
    world.send(bob, "SET_PRESENCE", status="busy")
    told = [message for message in alice.read() if message.get("channel", message.get("to")) == "#ops"]
    assert told == []
    world.send(alice, "JOIN", channel="#ops")
    assert_refused(alice, "AUTH_REQUIRED")
    assert_consistent(world)


def test_the_flag_is_not_kept() -> None:
    """Agentchat wire 16.4."""
    world = World(**BOTH_KEYS)
    admin, alice = world.connect(), world.agent("alice", key=ALICE)
    order(world, admin, "ADMIN_VERIFY", agent_id=alice.id, verified=False)
    world.disconnect(alice)
    again = world.connect()
    world.identify(again, key=ALICE)
    assert_sent(again, "WELCOME", verified=True)
    assert world.books.lists == {}
    assert world.clock.time() == NOON


def test_every_admin_result_carries_the_ref() -> None:
    world = with_allowlist()
    admin = world.connect()
    agent = world.agent("alice", key=ALICE)
    world.send(admin, "ADMIN_VERIFY", admin_key=ADMIN_KEY, agent_id=agent.id, verified=True, ref="v")
    assert_sent(admin, "ADMIN_RESULT", ref="v")
    assert_sent(agent, "ADMIN_RESULT", ref=ABSENT)
    world.send(admin, "ADMIN_MOTD", admin_key=ADMIN_KEY, motd="x", ref="m")
    assert_sent(admin, "MOTD_UPDATE", ref=ABSENT)
    assert_sent(admin, "ADMIN_RESULT", ref="m")
    assert_silent(admin)


# -- the list of bans ----------------------------------------------------------------------------------


def test_bans_are_listed_newest_first() -> None:
    world = World(**BOTH_KEYS)
    admin, alice = world.connect(), world.agent("alice", key=ALICE)
    order(world, admin, "ADMIN_BANS")
    assert_sent(admin, "ADMIN_RESULT", action="bans", bans=[], total=0)
    order(world, admin, "ADMIN_BAN", reason="first")
    world.advance(1)
    order(world, admin, "ADMIN_BAN", agent_id=alice.id)
    admin.read()
    order(world, admin, "ADMIN_BANS", ACCESS_KEY)
    result = assert_sent(admin, "ADMIN_RESULT", action="bans", total=2)
    newest, oldest = result["bans"]
    assert (newest["agentId"], newest["reason"], newest["pubkey"]) == (alice.id, None, ALICE.public.pem)
    assert (oldest["agentId"], oldest["reason"], "pubkey" in oldest) == ("@deadbeef", "first", False)
    assert newest["bannedAt"] > oldest["bannedAt"]


def test_the_list_of_bans_is_bounded() -> None:
    world = World(**BOTH_KEYS, banned=[f"{number:08x}" for number in range(MAX_BANS_LISTED + 5)])
    admin = world.connect()
    order(world, admin, "ADMIN_BAN", reason="\ud800" + "x" * 5000)
    admin.read()
    order(world, admin, "ADMIN_BANS")
    result = assert_sent(admin, "ADMIN_RESULT", total=MAX_BANS_LISTED + 6)
    assert len(result["bans"]) == MAX_BANS_LISTED
    assert len(result["bans"][0]["reason"]) == MAX_REASON_LISTED
