"""Agents who want to know each other's key (agentchat wire 5.3, 6.3)."""

import re

import pytest

from moothall.hall.peers import MAX_AWAITED, MAX_PENDING
from moothall.identity import PrivateKey
from moothall.settings.limits import Rate
from tests.identity.vectors import ALICE, BOB, VECTORS
from tests.support.world import (
    ABSENT,
    Guest,
    World,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)

NONCE: str = VECTORS["peer_verification"]["nonce"]


def asked(world: World, asker_key: PrivateKey | None = None) -> tuple[Guest, Guest, str]:
    """Somebody asks bob to prove his key: the asker, bob, and the id of the request."""
    asker, bob = world.agent("asker", key=asker_key), world.agent("bob", key=BOB)
    world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    request_id: str = assert_sent(bob, "VERIFY_REQUEST", from_=asker.id, nonce=NONCE, status=ABSENT)[
        "request_id"
    ]
    assert_sent(asker, "VERIFY_REQUEST", target=bob.id, status="pending", request_id=request_id, nonce=ABSENT)
    return asker, bob, request_id


def respond(world: World, guest: Guest, request_id: str, nonce: str = NONCE, sig: str | None = None) -> None:
    sig = sig if sig is not None else BOB.sign(nonce)
    world.send(guest, "VERIFY_RESPONSE", request_id=request_id, nonce=nonce, sig=sig)


def test_a_request_is_passed_to_its_target() -> None:
    _, _, request_id = asked(World())
    assert re.fullmatch(r"verify_[0-9a-z]+_[0-9a-f]{8}", request_id)


@pytest.mark.parametrize("asker_key", [None, ALICE], ids=["ephemeral", "keyed"])
def test_the_signature_of_the_nonce_proves_the_key(asker_key: PrivateKey | None) -> None:
    world = World()
    asker, bob, request_id = asked(world, asker_key)
    respond(world, bob, request_id, sig=VECTORS["peer_verification"]["sig"])
    assert_sent(
        asker,
        "VERIFY_SUCCESS",
        request_id=request_id,
        agent=bob.id,
        pubkey=BOB.public.pem,
        verified=ABSENT,
    )
    assert_sent(bob, "VERIFY_SUCCESS", request_id=request_id, verified=True, pubkey=ABSENT)
    assert_silent(asker, bob)
    world.advance(60)
    assert_silent(asker, bob)


def test_a_wrong_signature_fails_for_both() -> None:
    world = World()
    asker, bob, request_id = asked(world)
    respond(world, bob, request_id, sig=ALICE.sign(NONCE))
    failed = assert_sent(asker, "VERIFY_FAILED", request_id=request_id, target=bob.id)
    assert "failed" in failed["reason"]
    assert_sent(bob, "VERIFY_FAILED", request_id=request_id, verified=False)
    respond(world, bob, request_id)
    assert_refused(bob, "VERIFICATION_EXPIRED")
    assert world.log.find("peer_verification_failed") == [{"ip": "192.0.2.1", "agent": bob.id[1:]}]


def test_no_answer_in_30_seconds_fails() -> None:
    world = World()
    asker, bob, request_id = asked(world)
    world.advance(29.9)
    assert_silent(asker)
    world.advance(0.1)
    failed = assert_sent(asker, "VERIFY_FAILED", request_id=request_id, target=bob.id)
    assert "timed out" in failed["reason"]
    respond(world, bob, request_id)
    assert_refused(bob, "VERIFICATION_EXPIRED")
    assert_consistent(world)


def test_a_target_that_leaves_fails_at_once() -> None:
    world = World()
    asker, bob, request_id = asked(world)
    world.disconnect(bob)
    failed = assert_sent(asker, "VERIFY_FAILED", request_id=request_id, target=bob.id)
    assert "failed" in failed["reason"]
    world.advance(60)
    assert_silent(asker)
    assert_consistent(world)


def test_who_answers_an_asker_that_left_is_not_refused() -> None:
    """An ERROR that nobody waits for ends the reference's client, which answers by itself (agentchat wire 18.1)."""
    world = World()
    asker, bob, request_id = asked(world)
    world.disconnect(asker)
    respond(world, bob, request_id)
    assert_sent(bob, "VERIFY_SUCCESS", request_id=request_id, verified=True)
    assert_silent(asker, bob)
    assert len(world.hall.peer_requests) == 0
    assert_consistent(world)


def test_a_wrong_answer_to_an_asker_that_left_fails() -> None:
    world = World()
    asker, bob, request_id = asked(world)
    world.disconnect(asker)
    respond(world, bob, request_id, sig=ALICE.sign(NONCE))
    assert_sent(bob, "VERIFY_FAILED", request_id=request_id, verified=False)
    assert_silent(asker, bob)


def test_a_request_whose_asker_left_times_out() -> None:
    world = World()
    asker, bob, _ = asked(world, ALICE)
    world.disconnect(asker)
    again = world.agent("asker", key=ALICE)
    world.advance(30)
    assert_silent(asker, again, bob)
    assert len(world.hall.peer_requests) == 0
    assert_consistent(world)


def test_whoever_comes_back_leaves_without_the_requests_of_before() -> None:
    world = World()
    asker, bob, request_id = asked(world, ALICE)
    world.disconnect(asker)
    world.disconnect(world.agent("asker", key=ALICE))
    respond(world, bob, request_id)
    assert_sent(bob, "VERIFY_SUCCESS", request_id=request_id, verified=True)


def test_answers_that_one_agent_owes_are_bounded() -> None:
    world = World()
    bob = world.agent("bob", key=BOB)
    for _ in range(MAX_AWAITED // MAX_PENDING):
        asker = world.agent()
        for _ in range(MAX_PENDING):
            world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
            assert_sent(asker, "VERIFY_REQUEST")
        world.disconnect(asker)
    other = world.agent()
    world.send(other, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_refused(other, "RATE_LIMITED")
    world.advance(30)
    world.send(other, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_sent(other, "VERIFY_REQUEST")


@pytest.mark.parametrize("profile", ["seeds", "agentchat-0.36"])
def test_nobody_is_asked_out_of_the_hall(profile: str) -> None:
    """Clients answer by themselves: what others ask for does not count towards the frames of one's own."""
    world = World(profile=profile)
    bob = world.agent("bob", key=BOB)
    for _ in range(8):
        asker = world.agent()
        bob.read()
        for _ in range(MAX_PENDING):
            world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
            respond(world, bob, assert_sent(bob, "VERIFY_REQUEST")["request_id"])
            assert_sent(bob, "VERIFY_SUCCESS", verified=True)
    world.send(bob, "PING")
    assert_sent(bob, "PONG")


def test_wrong_answers_count() -> None:
    world = World(rate_post_auth=Rate(3, 10))
    asker, bob = world.agent(), world.agent("bob", key=BOB)
    for _ in range(3):
        world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
        respond(world, bob, assert_sent(bob, "VERIFY_REQUEST")["request_id"], sig=ALICE.sign(NONCE))
        assert_sent(bob, "VERIFY_FAILED", verified=False)
    world.send(bob, "PING")
    assert_refused(bob, "RATE_LIMITED")


def test_one_may_ask_oneself() -> None:
    world = World()
    bob = world.agent("bob", key=BOB)
    world.send(bob, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    request_id = assert_sent(bob, "VERIFY_REQUEST", from_=bob.id)["request_id"]
    assert_sent(bob, "VERIFY_REQUEST", status="pending")
    respond(world, bob, request_id)
    assert_sent(bob, "VERIFY_SUCCESS", agent=bob.id)
    assert_sent(bob, "VERIFY_SUCCESS", verified=True)
    world.send(bob, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    world.disconnect(bob)
    assert_consistent(world)


def test_who_can_be_asked() -> None:
    world = World()
    asker, anonymous = world.agent(), world.agent()
    world.send(asker, "VERIFY_REQUEST", target="@nobody", nonce=NONCE)
    assert_refused(asker, "AGENT_NOT_FOUND")
    world.send(asker, "VERIFY_REQUEST", target=anonymous.id, nonce=NONCE)
    assert_refused(asker, "NO_PUBKEY")
    assert_silent(anonymous)


@pytest.mark.parametrize(("length", "fits"), [(15, False), (16, True), (128, True), (129, False)])
def test_a_nonce_has_16_to_128_characters(length: int, fits: bool) -> None:
    world = World()
    asker, bob = world.agent(), world.agent(key=BOB)
    world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce="0" * length)
    if fits:
        assert_sent(asker, "VERIFY_REQUEST")
    else:
        assert_refused(asker, "INVALID_MSG", "`nonce`")


def test_who_can_answer() -> None:
    world = World()
    asker, bob, request_id = asked(world)
    respond(world, asker, request_id)
    assert_refused(asker, "SIGNATURE_REQUIRED")
    other = world.agent("alice", key=ALICE)
    respond(world, other, request_id)
    assert_refused(other, "INVALID_MSG")
    respond(world, bob, "verify_x")
    assert_refused(bob, "VERIFICATION_EXPIRED")
    respond(world, bob, request_id, nonce="f" * 32)
    assert_refused(bob, "INVALID_MSG", "`nonce`")
    respond(world, bob, request_id)
    assert_sent(bob, "VERIFY_SUCCESS")


def test_requests_one_agent_has_open_are_bounded() -> None:
    world = World()
    asker, bob = world.agent(), world.agent(key=BOB)
    for _ in range(MAX_PENDING):
        world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
        assert_sent(asker, "VERIFY_REQUEST")
    world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_refused(asker, "RATE_LIMITED")
    other = world.agent()
    world.send(other, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_sent(other, "VERIFY_REQUEST")
    respond(world, bob, bob.read()[0]["request_id"])
    asker.read()
    world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_sent(asker, "VERIFY_REQUEST")


def test_whoever_is_asked_by_many_may_still_ask() -> None:
    world = World()
    bob, alice = world.agent(key=BOB), world.agent(key=ALICE)
    for asker in (world.agent(), world.agent()):
        for _ in range(MAX_PENDING):
            world.send(asker, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    bob.read()
    world.send(bob, "VERIFY_REQUEST", target=alice.id, nonce=NONCE)
    assert_sent(bob, "VERIFY_REQUEST", status="pending")
