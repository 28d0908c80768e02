"""A key that its owner revoked is over in this hall, whoever holds it now (agentchat wire 3.7)."""

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from moothall.errors import UsageError
from moothall.hall import revocation
from moothall.hall.handshake import CaptchaTest
from moothall.hall.revocation import RevokedKeys, decode_notices
from moothall.identity import PrivateKey
from moothall.identity.certificates import revoke, rotate, verify_revocation
from moothall.market.records import Standing
from moothall.wire.websocket import NORMAL
from tests.court.books import MemoryBooks
from tests.identity.vectors import ALICE, BOB, CAROL, NOW_MS
from tests.support.deals import signed
from tests.support.world import (
    Guest,
    HeldStore,
    PromptStore,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)


def notice_of(key: PrivateKey, **changed: Any) -> dict[str, Any]:
    return {**revoke(key, now_ms=NOW_MS, reason="stolen"), **changed}


def hall_that_knows(*keys: PrivateKey, **settings: Any) -> World:
    """It has seen these keys, a long time ago."""
    books = MemoryBooks()
    books.bound = {key.public.agent_id(settings.get("id_length", 8)): key.public.raw for key in keys}
    return World(books=books, **settings)


def kept(world: World, key: PrivateKey) -> dict[str, Any]:
    """The notice in the store."""
    found: dict[str, Any] = json.loads(world.books.notices[key.public.raw])
    return found


def slow_hall(*keys: PrivateKey) -> tuple[World, HeldStore]:
    books = MemoryBooks()
    books.bound = {key.public.agent_id(): key.public.raw for key in keys}
    store = HeldStore(books)
    world = World(books=books, store=store)
    while store.waiting:  # what every hall looks at when it opens
        store.do_next()
    return world, store


def unreachable(*given: object) -> NoReturn:
    raise OSError("gone")


def bring(world: World, guest: Guest, key: PrivateKey, **changed: Any) -> None:
    world.send(guest, "REVOKE_KEY", notice=notice_of(key, **changed), ref="r")


def offer_skill(world: World, guest: Guest) -> None:
    assert guest.key is not None
    world.send(
        guest, "REGISTER_SKILLS", **signed(guest.key, "REGISTER_SKILLS", skills=[{"capability": "paint"}])
    )
    guest.read()


def found(world: World, guest: Guest) -> list[str]:
    guest.read()
    world.send(guest, "SEARCH_SKILLS", query={"capability": "paint"})
    return [result["agent_id"] for result in assert_sent(guest, "SEARCH_RESULTS")["results"]]


def test_a_stranger_with_the_notice_is_believed() -> None:
    world = hall_that_knows(ALICE)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(
        stranger,
        "KEY_REVOKED",
        agent_id=f"@{ALICE.public.agent_id()}",
        fingerprint=ALICE.public.fingerprint,
        ref="r",
    )
    assert_open(stranger)
    assert verify_revocation(kept(world, ALICE)) == ALICE.public
    assert kept(world, ALICE)["reason"] == "stolen"
    assert [facts["agent"] for facts in world.log.find("key_revoked")] == [ALICE.public.fingerprint]


def test_the_key_opens_no_door_any_more() -> None:
    world = hall_that_knows(ALICE)
    bring(world, world.connect(), ALICE)
    thief = world.connect()
    world.identify(thief, "alice", key=ALICE)
    assert_refused(thief, "VERIFICATION_FAILED", "This key was revoked")
    assert_open(thief)
    world.identify(thief, "bob", key=BOB)
    assert_sent(thief, "WELCOME")
    assert_consistent(world)


def test_nor_does_it_for_who_was_on_the_way_in() -> None:
    world = hall_that_knows(ALICE, captcha=True, captcha_difficulty="easy")
    thief = world.connect()
    world.identify(thief, "alice", key=ALICE)
    question = assert_sent(thief, "CAPTCHA_CHALLENGE")
    bring(world, world.connect(), ALICE)
    pending = thief.session.pending
    assert isinstance(pending, CaptchaTest)
    world.send(thief, "CAPTCHA_RESPONSE", captcha_id=question["captcha_id"], answer=pending.question.answer)
    assert_refused(thief, "VERIFICATION_FAILED", "This key was revoked")
    assert_consistent(world)


def test_a_live_session_is_told_and_closed() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    bob = world.agent("bob", key=BOB, join="#general")
    alice.read()
    bring(world, bob, ALICE)
    assert_sent(alice, "KEY_REVOKED", fingerprint=ALICE.public.fingerprint)
    assert_closed(alice, NORMAL, "Key revoked")
    assert_sent(bob, "AGENT_LEFT", agent=alice.id)
    assert_sent(bob, "KEY_REVOKED", ref="r")
    assert_open(bob)
    assert_consistent(world)


def test_whoever_revokes_its_own_key_hears_that_it_is_done_before_it_has_to_go() -> None:
    world, store = slow_hall()
    alice = world.agent("alice", key=ALICE)
    bring(world, alice, ALICE)
    assert_silent(alice)
    assert_open(alice)
    store.do_next()
    assert_sent(alice, "KEY_REVOKED", agent_id=alice.id, ref="r")
    assert_closed(alice, NORMAL, "Key revoked")
    assert_consistent(world)


def test_its_skills_are_gone_when_the_answer_comes() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    offer_skill(world, alice)
    offer_skill(world, bob)
    assert set(found(world, bob)) == {alice.id, bob.id}
    bring(world, bob, ALICE)
    assert found(world, bob) == [bob.id]


def test_the_notice_and_the_skills_are_one_unit_of_work() -> None:
    """A hall that is killed leaves both or neither."""
    world, store = slow_hall()
    alice = world.agent("alice", key=ALICE)
    world.send(alice, "REGISTER_SKILLS", **signed(ALICE, "REGISTER_SKILLS", skills=[{"capability": "paint"}]))
    store.do_next()
    bring(world, alice, ALICE)
    assert len(store.waiting) == 1
    assert (list(world.books.skills), world.books.notices) == ([ALICE.public.raw], {})
    store.do_next()
    assert (world.books.skills, list(world.books.notices)) == ({}, [ALICE.public.raw])


def test_its_deals_stay_and_the_other_party_can_end_them() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    world.send(alice, "PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.id, task="review", elo_stake=10))
    deal = assert_sent(bob, "PROPOSAL")["proposal_id"]
    world.send(bob, "ACCEPT", **signed(BOB, "ACCEPT", proposal_id=deal))
    bring(world, bob, ALICE)
    bob.read()
    world.send(bob, "DISPUTE", **signed(BOB, "DISPUTE", proposal_id=deal, reason="gone"))
    assert_sent(bob, "DISPUTE", proposal_id=deal)


def test_nobody_can_make_it_an_offer_that_it_could_never_answer() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    offer_skill(world, bob)
    world.disconnect(bob)
    bring(world, alice, BOB)
    alice.read()
    world.send(alice, "PROPOSAL", **signed(ALICE, "PROPOSAL", to=bob.id, task="review"))
    assert_refused(alice, "AGENT_NOT_FOUND", "revoked")
    assert world.books.deals == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"reason": "another"},
        {"timestamp": "2030-01-01T00:00:00.000Z"},
        {"pubkey": BOB.public.pem, "agent_id": BOB.public.fingerprint, "fingerprint": BOB.public.fingerprint},
        {"fingerprint": BOB.public.fingerprint},
        {"signature": ""},
        {"signature": BOB.sign("anything")},
        {"type": "ROTATION"},
        {"pubkey": "-----BEGIN PUBLIC KEY-----\nxx\n-----END PUBLIC KEY-----\n"},
        {"reason": ["stolen"]},
    ],
    ids=lambda changed: ",".join(changed),
)
def test_a_forged_notice_does_nothing(changed: dict[str, Any]) -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    mallory = world.connect()
    bring(world, mallory, ALICE, **changed)
    assert_refused(mallory, "INVALID_SIGNATURE", "does not hold", ref="r")
    assert_open(alice, bob, mallory)
    assert len(world.hall.revoked) == 0
    assert world.books.notices == {}
    assert world.log.find("revocation_refused") == [{"ip": mallory.ip}]


def test_the_profile_names_a_forgery_as_the_reference_does() -> None:
    world = World("agentchat-0.36")
    mallory = world.connect()
    bring(world, mallory, ALICE, reason="another")
    assert_refused(mallory, "VERIFICATION_FAILED")


def test_what_stands_behind_a_key_is_not_looked_at() -> None:
    """It is not signed with the notice, and a chain of a thousand rotations would take long to verify."""
    world = hall_that_knows(ALICE)
    stranger = world.connect()
    rotations = [rotate(CAROL, ALICE.public, now_ms=NOW_MS)]
    bring(world, stranger, ALICE, rotations=[*rotations, "nonsense"], original_agent_id="nobody")
    assert_sent(stranger, "KEY_REVOKED")
    assert "rotations" not in kept(world, ALICE)


def test_a_store_that_fails_is_told_and_nothing_has_happened() -> None:
    world = hall_that_knows(ALICE)
    stranger = world.connect()
    revoke_in_store, world.books.revoke = world.books.revoke, unreachable  # type: ignore[method-assign, assignment]
    bring(world, stranger, ALICE)
    assert_refused(stranger, "INTERNAL_ERROR", ref="r")
    assert len(world.hall.revoked) == 0
    world.books.revoke = revoke_in_store  # type: ignore[method-assign]
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")


def test_a_notice_that_is_there_costs_no_access_to_the_store() -> None:
    """Any client can bring it as often as it likes."""
    world, store = slow_hall(ALICE, BOB)
    stranger, other = world.connect(), world.connect()
    bring(world, stranger, ALICE)
    bring(world, other, ALICE)
    assert_silent(stranger, other)
    while store.waiting:
        store.do_next()
    assert_sent(stranger, "KEY_REVOKED")
    assert_sent(other, "KEY_REVOKED")
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    assert store.waiting == []


def counted(name: str, method: Callable[..., Any], asked: list[str]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        asked.append(name)
        return method(*given)

    return call


def test_what_a_notice_costs_does_not_depend_on_how_many_there_are() -> None:
    keys = [PrivateKey(bytes([number]) * 32) for number in range(60)]
    world = hall_that_knows(*keys, no_limits=True)
    stranger = world.connect()
    asked: list[str] = []
    for name in ("is_revoked", "is_known", "revocations", "revoke", "revoked_since", "owners", "standing"):
        method = getattr(world.books, name)
        setattr(world.books, name, counted(name, method, asked))
    costs = []
    for key in keys:
        asked.clear()
        bring(world, stranger, key)
        assert_sent(stranger, "KEY_REVOKED")
        costs.append(list(asked))
    assert costs == [costs[0]] * 60
    assert world.books.lists == {}


def test_the_first_notice_of_a_key_stays() -> None:
    world = hall_that_knows(ALICE)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    second = revoke(ALICE, now_ms=NOW_MS + 1, reason="again")
    world.send(stranger, "REVOKE_KEY", notice=second)
    assert [message["type"] for message in stranger.read()] == ["KEY_REVOKED"] * 2
    assert kept(world, ALICE)["reason"] == "stolen"
    assert not any(row.operation == "withdraw_skills" for row in world.books.audit)


def test_a_long_notice_is_refused_before_it_is_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    def verified(notice: object) -> NoReturn:
        raise AssertionError("its signature was looked at")

    monkeypatch.setattr(revocation, "verify_revocation", verified)
    world = hall_that_knows(ALICE)
    stranger = world.connect()
    notice = revoke(ALICE, now_ms=NOW_MS, reason="x" * revocation.MAX_NOTICE)
    world.send(stranger, "REVOKE_KEY", notice=notice)
    assert_refused(stranger, "INVALID_MSG", "4096")
    assert len(world.hall.revoked) == 0


def test_a_key_that_was_never_here_is_not_revoked() -> None:
    world = hall_that_knows(BOB)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_refused(stranger, "NOT_ALLOWED", "never seen")
    assert (world.books.notices, len(world.hall.revoked)) == ({}, 0)
    world.agent("alice", key=ALICE)


def test_a_key_that_has_rows_is_known() -> None:
    world = World()
    world.books.stands[ALICE.public.raw] = Standing(key=ALICE.public.raw)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")


def test_a_key_that_is_in_the_journal_only_is_known() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE)
    world.books.bound.clear()
    bring(world, alice, ALICE)
    assert_sent(alice, "KEY_REVOKED")


def test_a_key_that_the_operator_approved_is_known() -> None:
    world = World(allowlist=True, approved=[ALICE])
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")


def test_keys_that_bind_no_id_count_as_new_keys() -> None:
    world = World(allowlist=True, approved=[ALICE, BOB], new_keys_per_hour=1)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    bring(world, stranger, BOB)
    assert_refused(stranger, "NOT_ALLOWED")
    other = world.connect("192.0.2.2")
    bring(world, other, BOB)
    assert_sent(other, "KEY_REVOKED")


def test_a_full_store_takes_no_more_notices() -> None:
    world = hall_that_knows(ALICE, BOB, max_known_keys=1)
    stranger = world.connect()
    bring(world, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    bring(world, stranger, BOB)
    assert_refused(stranger, "NOT_ALLOWED", "max_known_keys")


# -- other halls of the same store ---------------------------------------------------------------------


def test_what_another_hall_took_holds_here_when_it_was_read() -> None:
    books = MemoryBooks()
    here, there = World(books=books), World(books=books)
    alice = here.agent("alice", key=ALICE)
    stranger = there.connect()
    bring(there, stranger, ALICE)
    assert_sent(stranger, "KEY_REVOKED")
    assert_open(alice)
    revocation.read_again(here.hall, PromptStore(books))
    assert_sent(alice, "KEY_REVOKED", fingerprint=ALICE.public.fingerprint)
    assert_closed(alice, NORMAL, "Key revoked")
    thief = here.connect()
    here.identify(thief, "alice", key=ALICE)
    assert_refused(thief, "VERIFICATION_FAILED", "This key was revoked")


def test_a_store_that_fails_is_looked_at_again() -> None:
    books = MemoryBooks()
    world = World(books=books)
    since, books.revoked_since = books.revoked_since, unreachable  # type: ignore[method-assign, assignment]
    revocation.read_again(world.hall, PromptStore(books))
    assert len(world.log.find("revoked_keys_not_read")) == 1
    books.revoked_since = since  # type: ignore[method-assign]
    books.notices[ALICE.public.raw] = b"{}"
    revocation.read_again(world.hall, PromptStore(books))
    assert ALICE.public.raw in world.hall.revoked


def test_numbers_that_are_committed_late_are_not_missed() -> None:
    keys = RevokedKeys([(1, b"a"), (7, b"b")])
    assert keys.last_number == 7
    assert keys.read([(5, b"c"), (7, b"b")]) == [b"c"]
    assert (len(keys), keys.last_number) == (3, 7)


# -- the list of former versions -----------------------------------------------------------------------


def test_of_two_notices_of_a_key_the_first_is_read() -> None:
    first, second = notice_of(ALICE), notice_of(ALICE, reason="again")
    other = notice_of(BOB, reason="\ud800 ü")
    found = decode_notices(json.dumps([first, other, second]).encode())
    assert found == {ALICE.public.raw: first, BOB.public.raw: other}


@pytest.mark.parametrize(
    "content", [b"", b"{", b"7", b'{"a": 1}', b"[7]", b"[{}]", b'[{"pubkey": "x"}]', b"\xff"]
)
def test_a_list_that_is_none_is_one_line_for_the_operator(content: bytes) -> None:
    with pytest.raises(UsageError) as raised:
        decode_notices(content)
    assert "\n" not in str(raised.value)
