"""Epochs of the reference node and of ours: the same envelopes make the same log, Merkle root and batch."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from moothall.market.node_books import LogRow
from moothall.node.batches import BatchCount
from moothall.wire.mesh.envelope import NO_RECIPIENT, Envelope, decode, encode
from moothall.wire.mesh.epochs import EPOCH_SECONDS, log_name
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import BidType, Judgement, NotarizeAssign, NotarizeBid, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Feedback, Outcome
from moothall.wire.mesh.validation import topic_of
from tests.strangers.chain import Chain, chain
from tests.strangers.ours import Ours, StartHost
from tests.strangers.reference import Clock, Reference, StartReference
from tests.strangers.sandbox import PATIENCE
from tests.strangers.test_reference import EPOCH, MIDNIGHT, TOPICS, meet, pass_on
from tests.support.mesh import AGENTS, SEEDS
from tests.support.nodes import Life, life, options, seed, until

NODE: Final = "reference"
ALICE, NOTARY = AGENTS["A"], AGENTS["N"]
TALK: Final = bytes(range(16))
NOW: Final = MIDNIGHT + 10
LAST: Final = MIDNIGHT + EPOCH_SECONDS - 1
CHECK: Final = 31  # seconds until the node looks for the end of an epoch, and one more


def deal(me: bytes, other: bytes) -> Iterator[tuple[MsgType, bytes]]:
    """One message of each type that a batch looks into, more than once."""
    yield MsgType.PROPOSE, Propose(amount=2**40, message="translate").encode()
    yield MsgType.COUNTER, Counter(amount=7, round=1, message="more").encode()
    yield MsgType.ACCEPT, Accept(amount=7, message="yes").encode()
    yield MsgType.NOTARIZE_ASSIGN, NotarizeAssign(NOTARY).encode()
    yield MsgType.NOTARIZE_ASSIGN, NotarizeAssign(ALICE).encode()
    yield MsgType.NOTARIZE_ASSIGN, b"?"
    yield MsgType.VERDICT, Verdict(Judgement.APPROVE, me, other).encode()
    yield MsgType.DISPUTE, bytes(40)
    yield MsgType.ADVERTISE, b"{}"
    for target in (me, other, NOTARY):
        said = Feedback(conversation_id=TALK, target_agent=target, score=70, outcome=Outcome.POSITIVE)
        yield MsgType.FEEDBACK, said.encode()


class Day:
    """A reference node in one epoch, from its first second to its last one."""

    def __init__(self, node: Reference, clock: Clock, chain: Chain) -> None:
        self.node = node
        self._clock = clock
        self._chain = chain

    async def begin(self) -> None:
        await self._chain.set(MIDNIGHT)
        self._clock.set(NOW)
        self._clock.hurry(CHECK)
        await self.node.logged(f"Epoch {EPOCH - 1}")
        await self._chain.set(NOW)

    async def end(self) -> str:
        """The hash of its batch."""
        await self._chain.set(LAST)
        self._clock.pass_by(EPOCH_SECONDS)
        await self.node.logged(f"Epoch {EPOCH} batch finalised")
        async with asyncio.timeout(PATIENCE):  # it logs this before its interface knows it
            while True:
                answer = await self.node.ask(f"/batch/{self.node.id.hex()}/{EPOCH}")
                if "batch_hash" in answer:
                    hashed: str = answer["batch_hash"]
                    return hashed
                await self.node.pace()

    def log(self) -> bytes:
        return (self.node.state / log_name(EPOCH)).read_bytes()


@pytest.fixture
async def day(reference: StartReference, tmp_path: Path) -> AsyncIterator[Day]:
    clock = Clock(tmp_path / NODE)
    clock.set(MIDNIGHT - 20)
    async with chain() as made:
        day = Day(await reference(NODE, seed(NODE), clock=clock, rpc=made.url), clock, made)
        await day.begin()
        yield day


async def receive(host: Ours, node: Reference, made: Envelope) -> None:
    await pass_on(host, node, encode(made), topic_of(made))
    await node.received(made.nonce)


def has(ours: Life, nonce: int) -> bool:
    return any(got.envelope.nonce == nonce for got in ours.received)


async def test_the_same_envelopes_make_the_same_log_root_and_batch(
    day: Day, host: StartHost, tmp_path: Path
) -> None:
    """Both nodes have the same key, and each its own connection to Alice."""
    now = float(NOW)
    async with life(options(tmp_path / "ours", NODE), clock=lambda: now) as ours:
        alice, other = await host("A", seed=SEEDS["A"]), await host("A", seed=SEEDS["A"])
        await meet(alice, day.node)
        for topic in TOPICS:
            other.host.join(topic)
        assert ours.node.address is not None
        await other.host.dial(ours.node.address)
        await other.until(lambda: {(ours.id, topic) for topic in TOPICS} <= other.resident.joined_topics)
        for msg_type, payload in deal(ALICE, day.node.id):
            to = day.node.id if msg_type in BILATERAL else NO_RECIPIENT
            made = alice.seal(msg_type, payload, to, TALK, NOW)
            await receive(alice, day.node, made)
            if (where := topic_of(made)) is None:
                await other.host.send(ours.id, encode(made))
            else:
                other.host.publish(where, encode(made))
            await until(partial(has, ours, made.nonce))
        hashed = await day.end()
        now = LAST + 60.0
        batch = await ours.node.batch(EPOCH)
        assert batch is not None
        assert batch.batch_hash.hex() == hashed
        path = tmp_path / "ours" / NODE / log_name(EPOCH)
        await until(lambda: path.stat().st_size == len(day.log()))
        assert path.read_bytes() == day.log()


async def test_what_the_reference_sent_is_counted_as_ours(day: Day, host: StartHost) -> None:
    """It has a notary at hand, and so assigns it with the ACCEPT."""
    alice, notary = await host("A", seed=SEEDS["A"]), await host("N", seed=SEEDS["N"])
    for each in (alice, notary):
        await meet(each, day.node)
    offer = NotarizeBid(BidType.OFFER, TALK).encode()
    await receive(notary, day.node, notary.seal(MsgType.NOTARIZE_BID, offer, conversation_id=TALK, now=NOW))
    for msg_type, payload in deal(day.node.id, ALICE):
        await day.node.send(msg_type.name, payload, recipient=ALICE, conversation_id=TALK)
    await receive(alice, day.node, alice.seal(MsgType.REJECT, b"no", day.node.id, TALK, NOW))
    hashed = await day.end()
    count = BatchCount(day.node.id, EPOCH)
    for number, raw in enumerate(frames(day.log()), 1):
        is_accept = decode(raw).msg_type is MsgType.ACCEPT
        count.add(LogRow(number, EPOCH, NOW * 1000, raw, NOTARY if is_accept else None))
    assert count.finished().hash().hex() == hashed
