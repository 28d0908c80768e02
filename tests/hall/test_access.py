"""Who may come in: approved keys, bans, connections per address (agentchat wire 16.2, 16.3)."""

import json

import pytest

from moothall.errors import InvalidMessage, UsageError
from moothall.hall.access import Allowlist, Approval, Ban, Bans, decode_allowlist, decode_bans
from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from tests.identity.vectors import ALICE, BOB, VECTORS
from tests.support.world import (
    ABSENT,
    ADMIN_KEY,
    TWIN_ID,
    TWINS,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
)

# -- the allow list ------------------------------------------------------------------------------------


def test_off_everybody_may_come_in() -> None:
    world = World(approved=[ALICE])
    world.agent("bob", key=BOB)
    world.agent("visitor")


@pytest.mark.parametrize("key", [None, BOB], ids=["ephemeral", "not approved"])
def test_strict_only_approved_keys(key: PrivateKey | None) -> None:
    world = World(allowlist=True, approved=[ALICE])
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="x", pubkey=key and key.public.pem)
    assert_refused(guest, "NOT_ALLOWED")
    assert_open(guest)
    world.identify(guest, "alice", key=ALICE)
    assert_sent(guest, "WELCOME", verified=True)


@pytest.mark.parametrize("verified_means", ["proof", "grant"])
def test_not_strict_lets_others_in(verified_means: str) -> None:
    world = World(allowlist=True, allowlist_strict=False, approved=[ALICE], verified_means=verified_means)
    for key, verified in ((ALICE, True), (BOB, verified_means == "proof"), (None, ABSENT)):
        guest = world.connect()
        world.identify(guest, key=key)
        assert_sent(guest, "WELCOME", verified=verified)


def test_approval_shows_as_verified_only_while_the_list_is_on() -> None:
    """Agentchat wire 4.7."""
    world = World(allowlist=False, approved=[ALICE], verified_means="grant")
    guest = world.connect()
    world.identify(guest, key=ALICE)
    assert_sent(guest, "WELCOME", verified=False)


@pytest.mark.parametrize("sign", ["", "@"])
def test_the_genesis_id_is_always_shown_as_verified(sign: str) -> None:
    world = World(verified_means="grant", genesis_agent_id=sign + ALICE.public.agent_id())
    for key, verified in ((ALICE, True), (BOB, False)):
        guest = world.connect()
        world.identify(guest, key=key)
        assert_sent(guest, "WELCOME", verified=verified)


@pytest.mark.parametrize(
    "variant", VECTORS["pem_text_variants"]["variants"], ids=lambda variant: variant["label"]
)
def test_an_entry_means_the_key_however_it_is_spelled(variant: dict[str, str]) -> None:
    approved = Allowlist([Approval(pubkey=variant["pem"])])
    assert ALICE.public in approved
    assert approved.entries()[0].pubkey == ALICE.public.pem
    assert approved.revoke(pubkey=variant["pem"], agent_id=None)
    assert ALICE.public not in approved


def test_approving_twice_keeps_one_entry() -> None:
    approved = Allowlist()
    for note in ("first", "second"):
        approved.approve(Approval(pubkey=ALICE.public.pem, note=note))
    assert len(approved) == 1
    assert approved.entries()[0].note == "second"


def test_revoking_what_is_not_there_changes_nothing() -> None:
    approved = Allowlist([Approval(pubkey=ALICE.public.pem)])
    assert not approved.revoke(pubkey=BOB.public.pem, agent_id=None)
    assert not approved.revoke(pubkey="not a key", agent_id="deadbeef")
    assert not approved.revoke(pubkey=None, agent_id=None)
    assert len(approved) == 1


def test_the_file_is_the_references() -> None:
    """Agentchat wire 16.2: the id is recomputed when it is read."""
    entry = {
        "pubkey": ALICE.public.pem,
        "agentId": "wrong",
        "approvedAt": "2026-01-02T03:04:05.678Z",
        "approvedBy": "admin",
        "note": None,
    }
    approved = decode_allowlist(json.dumps([entry]).encode())
    assert ALICE.public in approved
    assert json.loads(approved.encode()) == [{**entry, "agentId": ALICE.public.fingerprint}]
    assert decode_allowlist(approved.encode()).encode() == approved.encode()


@pytest.mark.parametrize(
    "content", [b"", b"{", b"{}", b"[1]", b'[{"pubkey":"x"}]', b'[{"pubkey":1}]', b"\xff"]
)
def test_an_allow_list_that_cannot_be_read_is_the_operators_to_mend(content: bytes) -> None:
    with pytest.raises(UsageError):
        decode_allowlist(content)


# -- bans ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("banned_as", [ALICE.public.agent_id(8), ALICE.public.fingerprint])
@pytest.mark.parametrize("id_length", [8, 16])
def test_a_banned_key_is_told_and_closed_once_it_has_proven_itself(banned_as: str, id_length: int) -> None:
    world = World(banned=[banned_as], id_length=id_length)
    guest = world.connect()
    world.identify(guest, key=ALICE)
    assert_refused(guest, "BANNED")
    assert_closed(guest, 1000, "Banned")
    assert world.hall.roster.agents == {}
    assert world.log.find("banned_connect") == [{"ip": "192.0.2.1", "agent": ALICE.public.fingerprint}]
    assert_open(world.agent("bob", key=BOB))


def test_who_only_claims_a_banned_key_learns_nothing() -> None:
    """The list is looked at after the signature (agentchat wire 4.2)."""
    world = World(banned=[ALICE.public.agent_id()])
    guest = world.connect()
    guest.key = BOB
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"))
    assert_refused(guest, "VERIFICATION_FAILED")


def test_the_ban_file_is_the_references() -> None:
    """Agentchat wire 16.3."""
    entry = {
        "agentId": "deadbeef",
        "reason": "spam",
        "bannedAt": "2026-01-02T03:04:05.678Z",
        "bannedBy": "admin",
    }
    bans = decode_bans(json.dumps([entry]).encode())
    assert json.loads(bans.encode()) == [entry]


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'[{"agentId":1}]', b"[{}]"])
def test_a_ban_list_that_cannot_be_read_is_the_operators_to_mend(content: bytes) -> None:
    with pytest.raises(UsageError):
        decode_bans(content)


def test_a_ban_may_name_its_key() -> None:
    entry = {
        "agentId": TWIN_ID,
        "reason": None,
        "bannedAt": "",
        "bannedBy": "admin",
        "pubkey": TWINS[0].public.pem,
    }
    bans = decode_bans(json.dumps([entry]).encode())
    assert json.loads(bans.encode()) == [entry]
    assert bans.find(TWINS[0].public)
    assert bans.find(TWINS[1].public) is None
    assert TWIN_ID not in bans
    with pytest.raises(UsageError, match="PEM"):
        decode_bans(json.dumps([{**entry, "pubkey": "x"}]).encode())


def test_of_two_approved_keys_with_one_id_neither_is_revoked_by_it() -> None:
    allowlist = Allowlist(Approval(pubkey=key.public.pem) for key in TWINS)
    with pytest.raises(InvalidMessage, match="pubkey"):
        allowlist.revoke(pubkey=None, agent_id=TWIN_ID)
    assert allowlist.revoke(pubkey=TWINS[0].public.pem, agent_id=None)
    assert allowlist.revoke(pubkey=None, agent_id=TWIN_ID)
    assert len(allowlist) == 0


def test_a_ban_is_lifted_by_the_id_in_either_length() -> None:
    for given in (ALICE.public.agent_id(), ALICE.public.fingerprint):
        bans = Bans([Ban(agent_id=ALICE.public.agent_id())])
        assert bans.find(ALICE.public)
        assert bans.remove(given)
        assert bans.find(ALICE.public) is None
        assert not bans.remove(given)


# -- connections per address ---------------------------------------------------------------------------


def test_disconnect_step_5_a_closed_connection_makes_room() -> None:
    world = World(max_connections_per_ip=1)
    first = world.connect()
    assert world.connect().link.closed == (1008, "Too many connections from this IP")
    world.disconnect(first)
    assert_open(world.connect())
    assert_consistent(world)


def test_two_hundred_by_default() -> None:
    world = World()
    for _ in range(200):
        assert_open(world.connect())
    assert world.connect().link.closed == (1008, "Too many connections from this IP")


def test_loopback_is_exempt() -> None:
    world = World(max_connections_per_ip=1)
    for _ in range(5):
        assert_open(world.connect("127.0.0.1", is_loopback=True))
    assert_consistent(world)
    assert list(world.hall.door.connections) == []


def test_a_network_of_ipv6_is_one_address() -> None:
    """Whoever has one address of a /64 has all of them."""
    world = World(max_connections_per_ip=2)
    guests = [world.connect(f"2001:db8::{number}") for number in range(1, 4)]
    assert [guest.link.closed is None for guest in guests] == [True, True, False]
    assert_open(world.connect("2001:db8:0:1::1"))
    world.disconnect(guests[0])
    assert_open(world.connect("2001:db8::9"))
    assert_consistent(world)


def test_an_ipv4_address_is_the_same_on_a_socket_for_both() -> None:
    world = World(max_connections_per_ip=1)
    assert_open(world.connect("::ffff:192.0.2.7"))
    assert world.connect("192.0.2.7").link.closed is not None
    assert_open(world.connect("::ffff:192.0.2.8"))


def test_wrong_admin_keys_are_counted_for_a_network_of_ipv6() -> None:
    world = World(admin_key=ADMIN_KEY, rate_admin=Rate(2, 60))
    for number in range(1, 3):
        guest = world.connect(f"2001:db8::{number}")
        world.send(guest, "ADMIN_KICK", admin_key="guess", agent_id="x")
        assert_refused(guest, "AUTH_REQUIRED")
    guest = world.connect("2001:db8::3")
    world.send(guest, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id="x")
    assert_refused(guest, "RATE_LIMITED")


@pytest.mark.parametrize("off", ["no_limits", "zero"])
def test_the_limit_can_be_turned_off(off: str) -> None:
    world = World(no_limits=True) if off == "no_limits" else World(max_connections_per_ip=0)
    for _ in range(300):
        assert_open(world.connect())
    assert_consistent(world)
