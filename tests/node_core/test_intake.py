"""What a node does not take: broken rules, other recipients, replays, floods."""

import time
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from moothall.errors import NotDelivered
from moothall.identity import PrivateKey
from moothall.network import limits
from moothall.network.announcement import FIRST, HALLS, LAST, Announcement
from moothall.network.limits import Allowance, Limits
from moothall.settings.limits import Rate
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import Envelope, encode, seal
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.offers import Propose
from tests.support.nodes import TALK, Life, two, until

OFFER = Propose(amount=5, message="x").encode()


def sealed(
    bob: Life, recipient: bytes, msg_type: MsgType = MsgType.PROPOSE, payload: bytes = OFFER
) -> Envelope:
    return bob.node._signers.seal(bob.id, msg_type, payload, recipient=recipient, conversation_id=TALK)


async def bring(bob: Life, alice: Life, raw: bytes) -> None:
    await bob.node._host.send(alice.id, raw)


async def refused(alice: Life, name: str) -> None:
    await until(lambda: alice.node.statistics().refused.get(name) == 1)
    assert alice.received == []


async def test_envelopes_that_break_a_rule_are_counted_by_its_name(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        good = sealed(bob, alice.id)
        await bring(bob, alice, b"\x8c")
        await refused(alice, "CborDecode")
        await bring(bob, alice, encode(structs.replace(good, signature=bytes(64))))
        await refused(alice, "InvalidSignature")
        await bring(bob, alice, encode(sealed(bob, b"x" * 32)))
        await refused(alice, "WrongRecipient")
        own = alice.node._signers.seal(
            alice.id, MsgType.PROPOSE, OFFER, recipient=bob.id, conversation_id=TALK
        )
        await bring(bob, alice, encode(own))
        await refused(alice, "OwnEnvelope")
        bob.node._host.publish(BROADCAST_TOPIC, encode(good))
        await refused(alice, "WrongRoute")
        old = structs.replace(good, version=2)
        await bring(bob, alice, encode(old))
        await refused(alice, "UnsupportedVersion")


async def test_a_replay_is_not_taken_also_after_a_restart(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        raw = encode(sealed(bob, alice.id))
        await bring(bob, alice, raw)
        await until(lambda: alice.types == ["PROPOSE"])
        await replayed(bob, alice, raw)
    async with two(tmp_path) as (alice, bob):
        await replayed(bob, alice, raw)


async def replayed(bob: Life, alice: Life, raw: bytes) -> None:
    await bring(bob, alice, raw)
    await until(lambda: alice.node.statistics().refused.get("NonceReplay") == 1)
    assert len(await alice.node.read_inbox(0, 10)) == 1


async def test_an_envelope_that_could_not_be_saved_may_be_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(tmp_path) as (alice, bob):
        raw = encode(sealed(bob, alice.id))
        with monkeypatch.context() as patch:
            patch.setattr(alice.node._intake._desk, "receive", _fail)
            with pytest.raises(NotDelivered):
                await bring(bob, alice, raw)
        await bring(bob, alice, raw)
        await until(lambda: alice.types == ["PROPOSE"])


def _fail(*arguments: object) -> None:
    raise OSError("no space left on device")


async def test_a_flood_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = Allowance(Rate(10, 1000), Rate(1_000_000, 1000))
    monkeypatch.setattr(limits, "Limits", lambda: Limits(sender=few))
    async with two(tmp_path) as (alice, bob):
        for _ in range(30):
            with suppress(NotDelivered):
                await bring(bob, alice, encode(sealed(bob, alice.id)))
        await until(lambda: alice.node.statistics().limited >= 15)
        assert len(alice.received) <= 12


async def test_a_hall_that_announces_an_agent_is_the_way_to_it(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        agent = b"a" * 32
        host = bob.node._host  # Bob plays a hall
        await until(lambda: alice.id in host.peers_in(HALLS))

        def announce(hall: bytes) -> None:
            host.publish(HALLS, Announcement(hall, time.time_ns() // 1000, FIRST, LAST, (agent,)).encode())

        announce(alice.id)
        host.publish(HALLS, b"nothing")
        await until(lambda: alice.node.statistics().refused.get("Announcement") == 2)
        assert alice.node._routes.find(agent) is None
        announce(bob.id)
        await until(lambda: alice.node._routes.find(agent) == bob.id)
        alice.node._intake.expire_halls(2**60)
        assert alice.node._routes.find(agent) is None


async def test_a_peer_that_brings_too_many_senders_is_limited(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        alice.node._intake._guard = ReplayGuard(most=12)
        for number in range(10):
            sender = PrivateKey(bytes((number,)) * 32)
            beacon = Beacon(sender.public.raw, "x").encode()
            now = time.time_ns() // 1000
            sent = seal(
                MsgType.BEACON, beacon, sender=sender.public.raw, sign=sender.sign_bytes, nonce=now, now=now
            )
            bob.node._host.publish(BROADCAST_TOPIC, encode(sent))
        await until(lambda: alice.node.statistics().limited >= 6)
        assert alice.node._intake._guard.windows <= 4
