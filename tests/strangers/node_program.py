"""A node in a process of its own that tests drive by its HTTP interface: the reference, or ours in its place.

Both get the same command line, the same key file and the same requests.
"""

import asyncio
import base64
import json
import re
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, ClassVar, Final

from websockets.asyncio.client import ClientConnection, connect

from moothall.identity import PrivateKey
from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.sandbox import PATIENCE

SECRET: Final = "secret-of-the-node"
PACE: Final = 0.05  # seconds between two messages: the reference loses some that come faster (mesh wire 3.2)
NOWHERE: Final = "http://127.0.0.1:1"  # refuses at once

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_ports = count(20_000)  # the network is our own, and programs that choose a port choose higher ones


def free_port() -> int:
    return next(_ports)


class NodeProgram(ABC):
    """A node that runs, or has run: it can be started again."""

    READY: ClassVar[str]  # what it prints when the interface answers

    def __init__(
        self, seed: bytes, state: Path, bootstrap: tuple[Multiaddr, ...], rpc: str = NOWHERE
    ) -> None:
        self.id = PrivateKey(seed).public.raw
        self.state = state
        state.mkdir(exist_ok=True)
        key = state / "key"
        key.touch(mode=0o600)
        key.write_bytes(seed)
        self._bootstrap = bootstrap
        self._rpc = rpc
        self._port, self._api = free_port(), free_port()
        self.address = Multiaddr.of_socket("127.0.0.1", self._port, self.id)
        self.inbox: list[dict[str, Any]] = []
        self.log: list[str] = []
        self._news = asyncio.Event()
        self._sent_at = 0.0
        self._running = AsyncExitStack()

    @abstractmethod
    async def identifies(self, peer: bytes) -> None:
        """Until it knows which connection belongs to this key."""

    @abstractmethod
    async def knows(self, agent: bytes) -> None:
        """Until it has seen a BEACON of this agent, which may be far away."""

    @abstractmethod
    def _process(self) -> AbstractAsyncContextManager[asyncio.subprocess.Process]: ...

    async def start(self) -> None:
        """With the key and the data that it had, if it has run before."""
        await self._running.enter_async_context(self._run())

    async def stop(self) -> None:
        """At once, as a power cut would."""
        await self._running.aclose()

    def forget(self) -> None:
        """What it logged and got before counts no more."""
        self.log.clear()
        self.inbox.clear()

    def flags(self, state: Path) -> list[str]:
        """`state` is where it finds its own folder."""
        flags = [
            *("--no-default-bootstrap", "--registry-8004-disabled", "--kora-url", "none"),
            *("--rpc-url", self._rpc, "--trade-rpc-url", NOWHERE, "--registry-8004-url", NOWHERE),
            *("--listen-addr", f"/ip4/127.0.0.1/tcp/{self._port}"),
            *("--api-addr", f"127.0.0.1:{self._api}", "--api-secret", SECRET),
            *("--keypair-path", str(state / "key"), "--log-dir", str(state), "--agent-name", self.state.name),
        ]
        for address in self._bootstrap:
            flags += ["--bootstrap", str(address)]
        return flags

    @asynccontextmanager
    async def watching(self, topic: str) -> AsyncIterator[None]:
        """It is in a named topic, as long as one of its clients watches it."""
        async with connect(self._uri(f"/ws/topics?topic={topic}&"), close_timeout=0.1):  # it answers no close
            yield

    async def logged(self, text: str) -> None:
        await self.until(lambda: any(text in line for line in self.log))

    async def until(self, is_so: Callable[[], object]) -> None:
        """Asks whenever the node has logged something or got an envelope."""
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def received(self, *nonces: int) -> list[dict[str, Any]]:
        """What is in its inbox under these nonces, which are different for all that a test sends."""
        await self.until(lambda: {each["nonce"] for each in self.inbox} >= set(nonces))
        return [next(each for each in self.inbox if each["nonce"] == nonce) for nonce in nonces]

    async def ask(self, route: str, body: object = None) -> Any:
        """The answer of its HTTP interface. Messages leave at the pace that the next node can bear."""
        if body is not None:
            await self.pace()
        return await asyncio.to_thread(self._ask, route, body)

    async def send(
        self, msg_type: str, payload: bytes, *, recipient: bytes | None = None, conversation_id: bytes
    ) -> Any:
        return await self.ask(
            "/envelopes/send",
            {
                "msg_type": msg_type,
                "recipient": recipient and recipient.hex(),
                "conversation_id": conversation_id.hex(),
                "payload_b64": base64.b64encode(payload).decode(),
            },
        )

    async def pace(self) -> None:
        """Waits until the next message may leave for this node, or from it."""
        now = time.monotonic()
        self._sent_at = max(now, self._sent_at + PACE)
        await asyncio.sleep(self._sent_at - now)

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        """From the first request that it answers to its end, at once."""
        async with self._process() as process:
            self.log.clear()
            reading = asyncio.create_task(self._read_log(process))
            await self.logged(self.READY)
            async with connect(self._uri(self._inbox_route()), close_timeout=0.1) as inbox:
                listening = asyncio.create_task(self._read_inbox(inbox))
                try:
                    yield
                finally:
                    listening.cancel()
                    reading.cancel()
                    await asyncio.gather(listening, reading, return_exceptions=True)

    def _inbox_route(self) -> str:
        return "/ws/inbox?"

    def _uri(self, route: str) -> str:
        return f"ws://127.0.0.1:{self._api}{route}token={SECRET}"

    def _ask(self, route: str, body: object) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._api}{route}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {SECRET}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{route}: {error.code} {error.read().decode()}") from None

    async def _read_log(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.log.append(_COLOURS.sub("", line.decode()).rstrip())
            self._news.set()

    async def _read_inbox(self, inbox: ClientConnection) -> None:
        async for line in inbox:
            self.inbox.append(json.loads(line))
            self._news.set()
