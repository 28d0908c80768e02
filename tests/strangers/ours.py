"""Hosts of ours among strangers, in real time."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Protocol

from moothall.hall.mesh.network import Settle
from moothall.identity.signatures import expand, sign_expanded
from moothall.network.host import Host
from moothall.network.rules import Rules
from moothall.p2p.identify import Identification
from moothall.p2p.pubsub import Message
from moothall.wire.mesh.envelope import MICROSECONDS, NO_CONVERSATION, NO_RECIPIENT, Envelope, seal
from moothall.wire.mesh.msg_types import MsgType
from tests.strangers.sandbox import PATIENCE
from tests.support.network import LOOPBACK, Resident


class Watchful(Resident):
    """A test can wait until something has happened."""

    def __init__(self) -> None:
        super().__init__()
        self._news = asyncio.Event()

    async def until(self, is_so: Callable[[], object]) -> None:
        """Asks whenever the host has told something."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    def connected(self, peer: bytes) -> None:
        super().connected(peer)
        self._news.set()

    def identified(self, peer: bytes, told: Identification) -> None:
        super().identified(peer, told)
        self._news.set()

    def disconnected(self, peer: bytes, reason: str) -> None:
        super().disconnected(peer, reason)
        self._news.set()

    def joined(self, peer: bytes, topic: str) -> None:
        super().joined(peer, topic)
        self._news.set()

    def message(self, relay: bytes, message: Message) -> None:
        super().message(relay, message)
        self._news.set()

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        super().envelope(peer, envelope, settle)
        self._news.set()


class Ours:
    """A host that listens, and its resident."""

    def __init__(self, name: str, rules: Rules | None, seed: bytes | None) -> None:
        self._secret = expand(seed or name.encode().ljust(32, b"."))
        self._nonces = count(time.time_ns() // 1000)
        self.resident = Watchful()
        self.host = Host(self._secret, self.resident, agent_version=f"test/{name}", rules=rules)
        self.id = self.host.agent_id
        self.until = self.resident.until
        self.address = LOOPBACK

    def seal(
        self,
        msg_type: MsgType,
        payload: bytes,
        recipient: bytes = NO_RECIPIENT,
        conversation_id: bytes = NO_CONVERSATION,
        now: int | None = None,
    ) -> Envelope:
        """`now` is Unix seconds."""
        return seal(
            msg_type,
            payload,
            sender=self.id,
            sign=partial(sign_expanded, self._secret),
            nonce=next(self._nonces),
            now=time.time_ns() // 1000 if now is None else now * MICROSECONDS,
            recipient=recipient,
            conversation_id=conversation_id,
        )

    def envelopes(self) -> list[bytes]:
        return [envelope for _, envelope in self.resident.envelopes]

    def messages(self) -> list[bytes]:
        return [message.data for message in self.resident.messages]


class StartHost(Protocol):
    def __call__(
        self, name: str = "ours", rules: Rules | None = None, seed: bytes | None = None
    ) -> Awaitable[Ours]: ...


@asynccontextmanager
async def our_host(name: str, rules: Rules | None, seed: bytes | None) -> AsyncIterator[Ours]:
    ours = Ours(name, rules, seed)
    ours.address = await ours.host.listen(LOOPBACK)
    try:
        yield ours
    finally:
        await ours.host.close()
