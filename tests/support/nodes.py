"""Nodes of the mesh on loopback."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from moothall.network.outside import Outside
from moothall.network.rules import Rules
from moothall.node import Event, Node, NodeOptions, Received
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh.msg_types import MsgType
from moothall.wire.mesh.notaries import Judgement, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Deliver, Feedback, Outcome
from tests.support.server import PATIENCE

LOOPBACK: Final = Multiaddr.parse("/ip4/127.0.0.1/tcp/0")
TALK: Final = bytes(range(16))
AMOUNT: Final = 2_000_000
QUICK: Final = Rules(redial=50, redial_most=200, closing=500, tick=50, first_heartbeat=100, heartbeat=200)


def seed(name: str) -> bytes:
    return name.encode().ljust(32, b".")


class Life:
    """A node, and what it has told so far."""

    def __init__(
        self,
        options: NodeOptions,
        clock: Callable[[], float] = time.time,
        outside: Outside | None = None,
    ) -> None:
        self.node = Node(options, clock=clock, outside=outside)
        self.events: list[Event] = []
        self.node.watch(self._hear)

    def _hear(self, event: Event) -> None:
        self.events.append(event)

    @property
    def id(self) -> bytes:
        return self.node.agent_id

    @property
    def received(self) -> list[Received]:
        """Without BEACONs."""
        return [
            event
            for event in self.events
            if isinstance(event, Received) and event.envelope.msg_type is not MsgType.BEACON
        ]

    @property
    def types(self) -> list[str]:
        return [each.envelope.msg_type.name for each in self.received]

    def knows(self, other: "Life | bytes") -> bool:
        key = other if isinstance(other, bytes) else other.id
        return any(agent.agent_id == key for agent in self.node.peers())


async def until(is_so: Callable[[], object]) -> None:
    """Sockets, threads and timers of real programs are under way: they have their turn."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110  # they have no event in common
            await asyncio.sleep(0.002)


def options(
    folder: Path, name: str, *bootstrap: Multiaddr, address: Multiaddr | None = LOOPBACK, rules: Rules = QUICK
) -> NodeOptions:
    return NodeOptions(
        seed=seed(name),
        log_dir=folder / name,
        agent_name=name,
        listen_addr=address,
        bootstrap=bootstrap,
        network=rules,
    )


@asynccontextmanager
async def life(
    chosen: NodeOptions, clock: Callable[[], float] = time.time, outside: Outside | None = None
) -> AsyncIterator[Life]:
    alive = Life(chosen, clock, outside)
    await alive.node.start()
    try:
        yield alive
    finally:
        await alive.node.close()


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[tuple[Life, Life]]:
    """Alice and Bob, who know each other."""
    async with life(options(folder, "alice")) as alice:
        assert alice.node.address is not None
        async with life(options(folder, "bob", alice.node.address)) as bob:
            await met(alice, bob)
            yield alice, bob


async def met(one: Life, other: Life) -> None:
    await until(lambda: one.knows(other) and other.knows(one))


def moved(address: Multiaddr | None) -> Multiaddr:
    """The address without its key, to listen on it again."""
    assert address is not None
    return msgspec.structs.replace(address, agent_id=None)


# A whole deal: who sends, which type, and what. Alice asks, Bob works.
Step = tuple[str, MsgType, bytes]


def deal(alice: bytes, bob: bytes, talk: bytes = TALK) -> list[Step]:
    def rating(target: bytes) -> bytes:
        return Feedback(
            conversation_id=talk, target_agent=target, score=80, outcome=Outcome.POSITIVE
        ).encode()

    return [
        ("alice", MsgType.PROPOSE, Propose(amount=AMOUNT - 1, message="logo").encode()),
        ("bob", MsgType.COUNTER, Counter(amount=AMOUNT, round=1).encode()),
        ("alice", MsgType.ACCEPT, Accept(amount=AMOUNT).encode()),
        ("bob", MsgType.DELIVER, Deliver(conversation_id=talk, inline=b"logo.svg").encode()),
        ("alice", MsgType.VERDICT, Verdict(Judgement.APPROVE, alice, bob).encode()),
        ("alice", MsgType.FEEDBACK, rating(bob)),
        ("bob", MsgType.FEEDBACK, rating(alice)),
    ]


async def do(step: Step, lives: dict[str, Life], talk: bytes = TALK) -> None:
    """Send one step of a deal, and wait until the other one has it."""
    name, msg_type, payload = step
    sender = lives[name]
    other = next(each for each in lives.values() if each is not sender)
    before = len(other.received)
    await sender.node.send(msg_type, payload, recipient=other.id, conversation_id=talk)
    await until(lambda: len(other.received) > before)
    assert other.received[-1].envelope.msg_type is msg_type
    assert other.received[-1].out_of_order is None
