"""Hosts of ours among strangers, in real time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from moothall.identity.signatures import expand
from moothall.network.host import Host
from moothall.network.rules import Rules
from moothall.p2p.identify import Identification
from moothall.p2p.pubsub import Message
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

    def envelope(self, peer: bytes, envelope: bytes) -> None:
        super().envelope(peer, envelope)
        self._news.set()


class Ours:
    """A host that listens, and its resident."""

    def __init__(self, name: str, rules: Rules | None) -> None:
        self.seed = name.encode().ljust(32, b".")
        self.resident = Watchful()
        self.host = Host(expand(self.seed), self.resident, agent_version=f"test/{name}", rules=rules)
        self.id = self.host.agent_id
        self.until = self.resident.until
        self.address = LOOPBACK

    def envelopes(self) -> list[bytes]:
        return [envelope for _, envelope in self.resident.envelopes]

    def messages(self) -> list[bytes]:
        return [message.data for message in self.resident.messages]


class StartHost(Protocol):
    def __call__(self, name: str = "ours", rules: Rules | None = None) -> Awaitable[Ours]: ...


@asynccontextmanager
async def our_host(name: str, rules: Rules | None) -> AsyncIterator[Ours]:
    ours = Ours(name, rules)
    ours.address = await ours.host.listen(LOOPBACK)
    try:
        yield ours
    finally:
        await ours.host.close()
