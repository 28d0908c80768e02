"""Letters: retried with a new nonce, given up, continued, brought back after a restart."""

import asyncio
import time
from functools import partial
from pathlib import Path

import pytest

from moothall.errors import NodeRefused
from moothall.market.node_books import Letter
from moothall.node import DeliveryFailed
from moothall.node.posting import NO_PEER
from moothall.node.units import done
from moothall.p2p import bilateral
from moothall.p2p.multistream import line
from moothall.p2p.yamux_streams import Stream
from moothall.wire.mesh.announcements import Advertise
from moothall.wire.mesh.envelope import Envelope, decode
from moothall.wire.mesh.frames import ACK
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.offers import Propose
from tests.support.network import MadeUpTime, Stranger
from tests.support.nodes import TALK, Life, deal, do, life, met, moved, options, two, until

PROPOSED = line(bilateral.PROTOCOL)
OFFER = Propose(amount=5, message="x").encode()


class Silent(Stranger):
    """A peer that reads envelopes and closes their streams without an ACK, as often as it is told."""

    def __init__(self, alive: Life) -> None:
        super().__init__("silent")
        assert alive.node.address is not None
        self.address = alive.node.address
        self.host = alive.node._host

    async def come(self) -> None:
        await self.dial(self)  # type: ignore[arg-type]  # it has the address and the host

    async def take(self, *, acks: bool) -> Envelope:
        """The next envelope."""
        await self.read_until(self._offered)
        stream = self.accept(bilateral.PROTOCOL)
        request = bilateral.Request()
        seen = self.said[stream].index(PROPOSED) + len(PROPOSED)
        while request.envelope is None:
            await self.read_until(partial(self._has_more, stream, seen))
            piece = self.said[stream][seen:]
            seen += len(piece)
            request.receive(piece)
        if acks:
            self.say(stream, ACK)
        self.session.finish(stream)
        self.flush()
        del self.said[stream]
        return decode(request.envelope)

    def _has_more(self, stream: Stream, seen: int) -> bool:
        return len(self.said[stream]) > seen

    def _offered(self) -> bool:
        return any(PROPOSED in said and not each.is_gone for each, said in self.said.items())


async def test_a_missing_ack_is_retried_with_a_new_nonce_and_then_reported(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        peer = Silent(alice)
        await peer.come()
        sent = await alice.node.send(MsgType.PROPOSE, OFFER, recipient=peer.id, conversation_id=TALK)
        first = await peer.take(acks=False)
        second = await peer.take(acks=False)
        assert first.nonce == sent.nonce < second.nonce
        assert first.timestamp < second.timestamp
        assert first.payload == second.payload == OFFER
        await until(lambda: any(isinstance(event, DeliveryFailed) for event in alice.events))
        (failed,) = [event for event in alice.events if isinstance(event, DeliveryFailed)]
        assert (failed.msg_type, failed.recipient, failed.nonce) == (MsgType.PROPOSE, peer.id, second.nonce)
        assert await alice.node.read_failures(0, 10) == [failed]
        assert await alice.node.read_failures(failed.number, 10) == []
        statistics = alice.node.statistics()
        assert (statistics.retried, statistics.delivery_failed, statistics.pending) == (1, 1, 0)
        # Another message would be out of order. The same one continues the delivery.
        with pytest.raises(NodeRefused, match="out of order"):
            await alice.node.send(MsgType.PROPOSE, OFFER + b" ", recipient=peer.id, conversation_id=TALK)
        await alice.node.send(MsgType.PROPOSE, OFFER, recipient=peer.id, conversation_id=TALK)
        third = await peer.take(acks=True)
        assert third.nonce > second.nonce
        await until(lambda: alice.node.statistics().pending == 0)
        assert await alice.node.read_failures(0, 10) == []
        await peer.close()


async def test_nonces_rise_for_each_peer_also_after_a_retry(tmp_path: Path) -> None:
    """A peer of the reference drops what does not rise."""
    async with life(options(tmp_path, "alice")) as alice:
        peer = Silent(alice)
        await peer.come()
        for number in range(4):
            await alice.node.send(
                MsgType.PROPOSE, OFFER, recipient=peer.id, conversation_id=bytes([number + 1]) * 16
            )
        got = [await peer.take(acks=number != 0) for number in range(5)]
        nonces = [each.nonce for each in got]
        assert nonces == sorted(set(nonces))
        assert [each.conversation_id[0] for each in got] == [1, 1, 2, 3, 4]
        await until(lambda: alice.node.statistics().pending == 0)
        await peer.close()


async def test_a_peer_that_is_away_and_comes_back(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice")) as alice:
        assert alice.node.address is not None
        async with life(options(tmp_path, "bob", alice.node.address)) as bob:
            await met(alice, bob)
            steps = deal(alice.id, bob.id)
            await do(steps[0], {"alice": alice, "bob": bob})
        await until(lambda: alice.node.statistics().peers == 0)
        with pytest.raises(NodeRefused, match="no known peer_id for agent") as refused:
            await alice.node.send(MsgType.PROPOSE, OFFER, recipient=bob.id, conversation_id=bytes(15) + b"x")
        assert refused.value.status == 503
        async with life(options(tmp_path, "bob", alice.node.address)) as bob:
            await until(lambda: alice.node.statistics().peers == 1 and bob.knows(alice))
            for step in steps[1:]:
                await do(step, {"alice": alice, "bob": bob})


async def test_a_letter_of_the_time_before_a_restart_is_sent(tmp_path: Path) -> None:
    """It was acknowledged to the program, and by no peer."""
    async with life(options(tmp_path, "alice")) as alice:
        peer = Silent(alice)
        await peer.come()
        first = await alice.node.send(MsgType.PROPOSE, OFFER, recipient=peer.id, conversation_id=TALK)
        address = moved(alice.node.address)
        await peer.close()
    async with life(options(tmp_path, "alice", address=address)) as alice:
        peer = Silent(alice)
        await peer.come()
        again = await peer.take(acks=True)
        assert again.payload == OFFER
        assert again.nonce > first.nonce
        await until(lambda: alice.node.statistics().pending == 0)
        await peer.close()
    async with life(options(tmp_path, "alice", address=address)) as alice:
        assert alice.node.statistics().pending == 0


async def test_a_letter_that_finds_no_peer_after_a_restart_is_reported(tmp_path: Path) -> None:
    made_up, began = MadeUpTime(), time.time()
    async with life(options(tmp_path, "alice")) as alice:
        letter = Letter(0, alice.id, bytes(32 - 1) + b"1", MsgType.REJECT, TALK, True, 0, b"no")
        await done(alice.node._store, lambda books: books.put_letter(letter))
    async with life(options(tmp_path, "alice", address=None), lambda: began, made_up) as alice:
        assert alice.node.statistics().pending == 1
        for _ in range(62):
            made_up.pass_by(1000)
        await until(lambda: any(isinstance(event, DeliveryFailed) for event in alice.events))
        (failed,) = await alice.node.read_failures(0, 10)
        assert (failed.reason, failed.recipient) == (NO_PEER, letter.recipient)
        assert alice.node.statistics().pending == 0


async def test_what_is_said_to_a_topic_without_peers_is_made_anew_when_one_comes(tmp_path: Path) -> None:
    shift = [0.0]
    async with life(options(tmp_path, "alice"), lambda: time.time() + shift[0]) as alice:
        assert alice.node.address is not None
        offer = Advertise(capabilities=("x",)).encode()
        sent = await alice.node.send(MsgType.ADVERTISE, offer, conversation_id=bytes(16))
        shift[0] = 25.0  # it is old by now, and its clock is within the tolerance of Bob's
        async with life(options(tmp_path, "bob", alice.node.address)) as bob:
            await until(lambda: bob.types == ["ADVERTISE"])
            assert bob.received[0].envelope.nonce > sent.nonce
            assert bob.received[0].envelope.timestamp > (time.time() + 20) * 1_000_000
        assert alice.node.statistics().pending == 0


async def test_the_oldest_of_many_messages_to_an_empty_topic_is_given_up(tmp_path: Path) -> None:
    async with life(options(tmp_path, "alice", address=None)) as alice:
        for number in range(22):
            offer = Advertise(capabilities=(f"x{number}",)).encode()
            await alice.node.send(MsgType.ADVERTISE, offer, conversation_id=bytes(16))
        await until(lambda: alice.node.statistics().delivery_failed == 2)
        assert alice.node.statistics().pending == 20
        assert [failed.msg_type for failed in await alice.node.read_failures(0, 10)] == [
            MsgType.ADVERTISE
        ] * 2


async def test_a_caller_that_is_cancelled_has_sent_all_the_same(tmp_path: Path) -> None:
    async with two(tmp_path) as (alice, bob):
        sending = asyncio.ensure_future(
            alice.node.send(MsgType.PROPOSE, OFFER, recipient=bob.id, conversation_id=TALK)
        )
        await asyncio.sleep(0)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await until(lambda: bob.types == ["PROPOSE"])
