"""An id belongs to the first key that had it, for ever (agentchat wire 3.2)."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import OutcomeUnknown
from moothall.hall import keyring
from moothall.hall.access import Ban, NewKeys
from moothall.hall.bindings import Holding, IdClaim, settle
from moothall.hall.keyring import Keyring
from moothall.identity import PrivateKey
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.world import (
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

KEYS = [bytes([number]) * 32 for number in range(6)]


def claim(agent_id: str, key: bytes = KEYS[0], *, may_bind: bool = True) -> IdClaim:
    return IdClaim(agent_id, key, 0, may_bind)


class FailingStore:
    """A database that cannot be reached, until it is mended."""

    def __init__(self, books: MemoryBooks) -> None:
        self._mended = HeldStore(books)
        self.error: BaseException | None = OSError("gone")

    def submit(self, work: Any, done: Callable[[Any], None], failed: Callable[[BaseException], None]) -> None:
        if self.error is not None:
            failed(self.error)
        else:
            self._mended.submit(work, done, failed)
            self._mended.do_next()


def slow_world(**settings: Any) -> tuple[World, HeldStore]:
    books = MemoryBooks()
    store = HeldStore(books)
    return World(books=books, key_store=store, **settings), store


def proving(world: World, key: PrivateKey, **where: Any) -> Guest:
    """A guest whose proof is on its way to the store."""
    guest = world.connect(**where)
    world.identify(guest, "someone", key=key)
    return guest


def test_the_twins_really_are_twins() -> None:
    first, second = (twin.public for twin in TWINS)
    assert first != second
    assert first.agent_id() == second.agent_id() == TWIN_ID


def test_an_id_stays_bound_to_the_first_key_that_had_it() -> None:
    """An 8-digit collision cannot take over an identity (agentchat wire 3.2)."""
    world = World()
    first = world.agent("first", key=TWINS[0])
    assert first.id == f"@{TWIN_ID}"
    second = world.connect()
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED", TWIN_ID)
    assert_open(first, second)
    assert_silent(first)
    assert world.log.find("id_collision") == [{"ip": "192.0.2.1", "agent": TWIN_ID}]
    world.disconnect(first)
    world.identify(second, "second", key=TWINS[1])
    assert_refused(second, "NOT_ALLOWED")
    assert world.agent("first", key=TWINS[0]).id == f"@{TWIN_ID}"


def test_an_id_bound_before_a_restart_stays_bound() -> None:
    books = MemoryBooks()
    World(books=books).agent("first", key=TWINS[0])
    second = proving(World(books=books), TWINS[1])
    assert_refused(second, "NOT_ALLOWED", TWIN_ID)


def test_any_number_of_later_keys_do_not_make_the_hall_forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "MAX_CACHED", 2)
    world = World(no_limits=True)
    world.disconnect(world.agent("victim", key=TWINS[0]))
    for number in range(10):
        world.disconnect(world.agent("sybil", key=PrivateKey(bytes([number]) * 32)))
    assert len(world.hall.keyring) == 2
    assert_refused(proving(world, TWINS[1]), "NOT_ALLOWED", TWIN_ID)
    assert world.agent("victim", key=TWINS[0]).id == f"@{TWIN_ID}"


def test_sixteen_digits_tell_the_twins_apart() -> None:
    world = World(id_length=16)
    assert world.agent("first", key=TWINS[0]).id != world.agent("second", key=TWINS[1]).id


# -- waiting for the store -----------------------------------------------------------------------------


def test_welcome_waits_for_the_commit() -> None:
    world, store = slow_world()
    alice = proving(world, ALICE)
    assert_silent(alice)
    assert world.hall.roster.agents == {}
    assert_consistent(world)
    store.do_next()
    assert_sent(alice, "WELCOME", agent_id=f"@{ALICE.public.agent_id()}")
    assert world.books.bound == {ALICE.public.agent_id(): ALICE.public.raw}


def test_a_known_key_costs_no_access_to_the_store() -> None:
    world, store = slow_world()
    alice = proving(world, ALICE)
    store.do_next()
    world.disconnect(alice)
    assert world.agent("alice", key=ALICE).id == f"@{ALICE.public.agent_id()}"
    assert store.waiting == []


def test_frames_that_arrive_meanwhile_are_handled_after_welcome() -> None:
    world, store = slow_world()
    alice = proving(world, ALICE)
    world.send(alice, "JOIN", channel="#general")
    world.send(alice, "PING")
    assert_silent(alice)
    store.do_next()
    assert [message["type"] for message in alice.read()] == ["WELCOME", "JOINED", "PONG"]


def test_claims_that_arrive_meanwhile_are_one_unit_of_work() -> None:
    world, store = slow_world()
    first = proving(world, ALICE)
    others = [proving(world, PrivateKey(key)) for key in KEYS]
    assert len(store.waiting) == 1
    store.do_next()
    assert_sent(first, "WELCOME")
    assert_silent(*others)
    assert len(store.waiting) == 1
    store.do_next()
    for other in others:
        assert_sent(other, "WELCOME")
    assert store.waiting == []


def test_one_unit_of_work_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring, "MAX_CLAIMS", 2)
    world, store = slow_world()
    guests = [proving(world, PrivateKey(key)) for key in KEYS]
    for units in range(4):
        assert sum(not guest.unread for guest in guests) == max(0, 6 - max(0, 2 * units - 1))
        if store.waiting:
            store.do_next()
    assert [assert_sent(guest, "WELCOME")["type"] for guest in guests] == ["WELCOME"] * 6


def test_of_two_sessions_with_one_key_the_second_takes_over() -> None:
    world, store = slow_world()
    first, second = proving(world, ALICE), proving(world, ALICE, ip="192.0.2.2")
    store.do_next()
    assert_sent(first, "WELCOME")
    store.do_next()
    assert_sent(first, "SESSION_DISPLACED", new_ip="192.0.2.2")
    assert_closed(first, 1000, "Identity claimed by verified connection")
    assert_sent(second, "WELCOME")
    assert_consistent(world)


@pytest.mark.parametrize("together", [True, False], ids=["one unit", "two units"])
def test_of_two_colliding_keys_the_first_wins(together: bool) -> None:
    world, store = slow_world()
    if together:
        proving(world, ALICE)
    first, second = proving(world, TWINS[0]), proving(world, TWINS[1])
    while store.waiting:
        store.do_next()
    assert_sent(first, "WELCOME", agent_id=f"@{TWIN_ID}")
    assert_refused(second, "NOT_ALLOWED", TWIN_ID)
    assert_open(second)
    assert world.books.bound[TWIN_ID] == TWINS[0].public.raw


def test_a_session_that_leaves_while_it_waits_does_not_appear() -> None:
    world, store = slow_world()
    alice, bob = proving(world, ALICE), proving(world, BOB)
    world.disconnect(alice)
    store.do_next()
    store.do_next()
    assert_sent(bob, "WELCOME")
    assert list(world.hall.roster.agents) == [BOB.public.agent_id()]
    assert world.books.bound[ALICE.public.agent_id()] == ALICE.public.raw
    assert_consistent(world)


def test_a_session_that_waits_too_long_is_closed() -> None:
    world, store = slow_world(identify_timeout=5.0)
    alice = proving(world, ALICE)
    world.advance(6)
    assert_closed(alice, 1008, "Identify first")
    store.do_next()
    assert world.hall.roster.agents == {}
    assert_consistent(world)


def test_a_ban_that_comes_while_it_waits_holds() -> None:
    world, store = slow_world()
    alice = proving(world, ALICE)
    world.hall.bans.add(Ban(agent_id=ALICE.public.agent_id()))
    store.do_next()
    assert_refused(alice, "BANNED")
    assert world.hall.roster.agents == {}


@pytest.mark.parametrize("error", [OSError("gone"), OutcomeUnknown("lost")], ids=["failed", "uncertain"])
def test_a_store_that_fails_lets_nobody_in_half(error: BaseException) -> None:
    books = MemoryBooks()
    store = FailingStore(books)
    store.error = error
    world = World(books=books, key_store=store, new_keys_per_hour=1)
    alice = proving(world, ALICE)
    assert_refused(alice, "INTERNAL_ERROR")
    assert_open(alice)
    assert world.hall.roster.agents == {}
    assert books.bound == {}
    assert_consistent(world)
    store.error = None
    world.identify(alice, "alice", key=ALICE)  # the attempt that failed did not count as a new key
    assert_sent(alice, "WELCOME")


# -- a full store --------------------------------------------------------------------------------------


def test_a_full_store_refuses_new_keys_and_knows_the_old_ones() -> None:
    world = World(max_known_keys=2)
    for key in (ALICE, BOB):
        world.disconnect(world.agent(key=key))
    carol = proving(world, CAROL)
    assert_refused(carol, "NOT_ALLOWED", "max_known_keys")
    assert_open(carol)
    assert len(world.log.find("key_store_full")) == 1
    again = World(books=world.books, max_known_keys=2)
    assert again.agent("alice", key=ALICE).id == f"@{ALICE.public.agent_id()}"
    assert again.agent("bob", key=BOB).id == f"@{BOB.public.agent_id()}"


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 5), st.booleans()), max_size=40),
    st.integers(0, 5),
    st.integers(1, 7),
)
def test_a_bound_id_never_changes_hands(
    attempts: list[tuple[str, int, bool]], capacity: int, at_once: int
) -> None:
    books = MemoryBooks()
    owners: dict[str, bytes] = {}
    for start in range(0, len(attempts), at_once):
        claims = [claim(name, KEYS[n], may_bind=b) for name, n, b in attempts[start : start + at_once]]
        for each, holding in zip(claims, settle(books, claims, capacity), strict=True):
            known = owners.get(each.agent_id)
            if known is None and each.may_bind and len(owners) < capacity:
                owners[each.agent_id] = each.key
                assert holding == Holding(each.key, is_new=True)
            else:
                assert holding == Holding(known)
        assert books.bound == owners


def test_the_cache_answers_for_ids_of_others_too() -> None:
    books = MemoryBooks()
    store = HeldStore(books)
    ring = Keyring(store, 10)
    heard: list[Holding] = []
    failures: list[BaseException] = []
    ring.claim(claim("a", KEYS[0]), heard.append, failures.append)
    store.do_next()
    ring.claim(claim("a", KEYS[1]), heard.append, failures.append)
    assert failures == []
    assert heard == [Holding(KEYS[0], is_new=True), Holding(KEYS[0])]
    assert store.waiting == []
    assert ring.knows("a", KEYS[0])
    assert not ring.knows("a", KEYS[1])


# -- new keys of one address ---------------------------------------------------------------------------


def test_new_keys_of_an_address_are_limited() -> None:
    world = World(new_keys_per_hour=2)
    for key in (ALICE, BOB):
        world.disconnect(world.agent(key=key))
    third = world.connect()
    world.send(third, "IDENTIFY", name="carol", pubkey=CAROL.public.pem)
    assert_refused(third, "RATE_LIMITED", "new keys")
    assert_silent(third)  # no challenge: nothing was verified
    assert_open(third)
    assert CAROL.public.agent_id() not in world.books.bound
    assert world.agent("carol", key=CAROL, ip="192.0.2.2").id == f"@{CAROL.public.agent_id()}"


def test_known_keys_are_never_refused_for_it() -> None:
    books = MemoryBooks()
    World(books=books).agent("alice", key=ALICE)
    world = World(books=books, new_keys_per_hour=1)
    world.agent("bob", key=BOB)
    assert world.agent("bob", key=BOB).id == f"@{BOB.public.agent_id()}"  # in the cache
    assert world.agent("alice", key=ALICE).id == f"@{ALICE.public.agent_id()}"  # in the store
    for _ in range(3):
        assert_refused_at_the_door(world, CAROL)


def assert_refused_at_the_door(world: World, key: PrivateKey) -> None:
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="someone", pubkey=key.public.pem)
    assert_refused(guest, "RATE_LIMITED")


def test_known_keys_do_not_count_as_new() -> None:
    books = MemoryBooks()
    World(books=books).agent("alice", key=ALICE)
    world = World(books=books, new_keys_per_hour=1)
    world.agent("alice", key=ALICE)
    world.agent("bob", key=BOB)


def test_an_hour_later_there_is_room_again() -> None:
    world = World(new_keys_per_hour=1)
    world.agent("alice", key=ALICE)
    world.advance(3599)
    assert_refused_at_the_door(world, BOB)
    world.advance(1)
    world.agent("bob", key=BOB)


def test_handshakes_that_are_under_way_together_do_not_pass_the_limit() -> None:
    world, store = slow_world(new_keys_per_hour=1)
    guests = [world.connect() for _ in range(2)]
    challenges = []
    for guest, key in zip(guests, (ALICE, BOB), strict=True):
        guest.key = key
        world.send(guest, "IDENTIFY", name="someone", pubkey=key.public.pem)
        challenges.append(assert_sent(guest, "CHALLENGE"))
    for guest, challenge in zip(guests, challenges, strict=True):
        world.prove(guest, challenge)
    while store.waiting:
        store.do_next()
    assert_sent(guests[0], "WELCOME")
    assert_refused(guests[1], "RATE_LIMITED")
    assert list(world.books.bound) == [ALICE.public.agent_id()]


def test_a_wrong_proof_is_not_a_new_key() -> None:
    world = World(new_keys_per_hour=1)
    guest = world.connect()
    guest.key = ALICE
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.prove(guest, assert_sent(guest, "CHALLENGE"), signature="nonsense")
    assert_refused(guest, "VERIFICATION_FAILED")
    world.agent("bob", key=BOB)


def test_agents_without_a_key_are_not_concerned() -> None:
    world = World(new_keys_per_hour=1)
    world.agent("alice", key=ALICE)
    for _ in range(5):
        world.agent("visitor")


def test_no_limits_turns_it_off() -> None:
    world = World(new_keys_per_hour=1, no_limits=True)
    for key in (ALICE, BOB, CAROL):
        world.agent(key=key)


def test_loopback_has_a_hundred_times_as_many_and_is_one_address() -> None:
    keys = NewKeys(2, 100)
    assert all(keys.admit(ip, 0.0) for ip in ("127.0.0.1", "::1", "127.9.9.9") * 66 + ("::1", "::1"))
    assert not keys.admit("127.0.0.1", 0.0)
    assert not keys.has_room("127.1.2.3", 3599.0)
    assert keys.has_room("::1", 3600.0)


def test_a_network_of_ipv6_is_one_address() -> None:
    keys = NewKeys(1, 100)
    assert keys.admit("2001:db8::1", 0.0)
    assert not keys.admit("2001:db8::ffff:1", 0.0)
    assert keys.admit("2001:db8:0:1::1", 0.0)


def test_the_memory_for_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.hall.access.MAX_BINDERS", 3)
    keys = NewKeys(1, 100)
    for number in range(10):
        assert keys.admit(f"192.0.2.{number}", float(number))
    assert len(keys) == 3
    assert not keys.has_room("192.0.2.9", 9.0)
    assert keys.has_room("192.0.2.0", 9.0)  # forgotten: it has been quiet longest
    assert not keys.admit("192.0.2.7", 10.0)
    assert keys.admit("203.0.113.1", 11.0)
    assert not keys.has_room("192.0.2.7", 11.0)  # it has not been quiet
