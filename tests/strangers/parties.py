"""Parties to a deal, each in its own program: a node with the interface of the reference, or an agent in a hall."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final, Protocol

from moothall.identity import PrivateKey
from moothall.wire.mesh.announcements import Beacon, Discover
from moothall.wire.mesh.envelope import NO_CONVERSATION, NO_RECIPIENT
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import Judgement, Verdict
from moothall.wire.mesh.offers import Accept, Counter, Propose
from moothall.wire.mesh.outcomes import Feedback, Outcome
from tests.strangers.node_program import NodeProgram
from tests.support.mesh_peer import MeshPeer, mesh_peer

BEACONS: Final = 20
BEACON_PATIENCE: Final = 3  # seconds
ASKED: Final = 1_000_000
AGREED: Final = 1_500_000
WORK: Final = b"Hola, mundo"


class Party(Protocol):
    @property
    def id(self) -> bytes: ...

    async def say(self, msg_type: MsgType, payload: bytes, to: bytes, talk: bytes) -> None: ...

    async def hears(self, msg_type: MsgType, sender: bytes, talk: bytes) -> bytes:
        """The payload of such an envelope, now or when it comes."""


class NodeParty:
    """The program of a node: it talks to the node's HTTP interface."""

    def __init__(self, node: NodeProgram) -> None:
        self.node = node

    @property
    def id(self) -> bytes:
        return self.node.id

    async def say(self, msg_type: MsgType, payload: bytes, to: bytes, talk: bytes) -> None:
        recipient = to if msg_type in BILATERAL else None
        await self.node.send(msg_type.name, payload, recipient=recipient, conversation_id=talk)

    async def hears(self, msg_type: MsgType, sender: bytes, talk: bytes) -> bytes:
        wanted = {"msg_type": msg_type.name, "sender": sender.hex(), "conversation_id": talk.hex()}

        def found() -> list[str]:
            return [got["payload_b64"] for got in self.node.inbox if wanted.items() <= got.items()]

        await self.node.until(found)
        return base64.b64decode(found()[-1])


class HallParty:
    """An agent on `/mesh` of a hall."""

    def __init__(self, peer: MeshPeer) -> None:
        self._peer = peer

    @property
    def id(self) -> bytes:
        return self._peer.id

    async def say(self, msg_type: MsgType, payload: bytes, to: bytes, talk: bytes) -> None:
        answer = await self._peer.send(
            msg_type, payload, to=to if msg_type in BILATERAL else NO_RECIPIENT, talk=talk
        )
        assert answer["type"] == "accepted", answer

    async def hears(self, msg_type: MsgType, sender: bytes, talk: bytes) -> bytes:
        while True:
            envelope = await self._peer.envelope(msg_type)
            if (envelope.sender, envelope.conversation_id) == (sender, talk):
                return envelope.payload

    async def introduce(self, *nodes: NodeProgram) -> None:
        """Nodes learn from a BEACON which hall reaches this agent.

        One that the hall has just met may not be in its part of the topic yet: it gets a later one.
        """
        for _ in range(BEACONS):
            await self._peer.post(self._peer.seal(MsgType.BEACON, Beacon(self.id, "agent").encode()))
            with suppress(TimeoutError):
                async with asyncio.timeout(BEACON_PATIENCE):
                    await asyncio.gather(*(node.knows(self.id) for node in nodes))
                    return
        raise AssertionError("the nodes do not know the agent")


@asynccontextmanager
async def in_hall(url: str, key: PrivateKey) -> AsyncIterator[HallParty]:
    async with mesh_peer(url, key) as peer:
        yield HallParty(peer)


Interruptions = Mapping[MsgType, Callable[[], Awaitable[None]]]


async def deal(
    requester: Callable[[], Party],
    provider: Callable[[], Party],
    talk: bytes,
    *,
    on_the_way: Interruptions | None = None,
    afterwards: Interruptions | None = None,
) -> None:
    """From DISCOVER to FEEDBACK. Interruptions come when the message of that type was sent, or when it has arrived.

    A party may be another object after an interruption: its program was started again.
    """
    names = requester().id, provider().id
    discover = Discover("translation").encode()
    verdict = Verdict(Judgement.APPROVE, *names).encode()
    feedback = Feedback(
        conversation_id=talk, target_agent=names[1], score=90, outcome=Outcome.POSITIVE
    ).encode()
    steps = (
        (MsgType.DISCOVER, discover, True),
        (MsgType.PROPOSE, Propose(amount=ASKED, message="translate").encode(), True),
        (MsgType.COUNTER, Counter(amount=AGREED, round=1, message="more").encode(), False),
        (MsgType.ACCEPT, Accept(amount=AGREED, message="yes").encode(), True),
        (MsgType.DELIVER, WORK, False),
        (MsgType.VERDICT, verdict, True),
        (MsgType.FEEDBACK, feedback, True),
    )
    for msg_type, payload, is_requester in steps:
        about = NO_CONVERSATION if msg_type is MsgType.DISCOVER else talk
        speaker, listener = (requester, provider) if is_requester else (provider, requester)
        await speaker().say(msg_type, payload, listener().id, about)
        if on_the_way is not None and msg_type in on_the_way:
            await on_the_way[msg_type]()
        heard = await listener().hears(msg_type, speaker().id, about)
        assert payload in heard if msg_type is MsgType.DELIVER else heard == payload
        if afterwards is not None and msg_type in afterwards:
            await afterwards[msg_type]()
