"""The reference node, `zerox1-node` 0.8.0: its program, its HTTP interface, its inbox, and a clock for it."""

import asyncio
import base64
import json
import mmap
import re
import shutil
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final, Protocol

import pytest
from websockets.asyncio.client import ClientConnection, connect

from moothall.identity import PrivateKey
from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.sandbox import NOBODY, PACKAGES, PATIENCE, STATE, running
from tests.support.npm import Packages

PROGRAM: Final = Path("node_modules/@zerox1/sdk-linux-x64/bin/zerox1-node")
SECRET: Final = "secret-of-the-reference-node"
PACE: Final = 0.05  # seconds between two messages: it loses some that come faster (mesh wire 3.2)

_NOWHERE: Final = "http://127.0.0.1:1"  # refuses at once
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_ports = count(20_000)  # the network is our own, and programs that choose a port choose higher ones
_clock = struct.Struct("=qq")


class Clock:
    """The time of one node: what the system says, and what a test adds."""

    def __init__(self, state: Path) -> None:
        state.mkdir(exist_ok=True)
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("not run: no C compiler, for a clock that tests can set")
        source = Path(__file__).with_name("clock.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", state / "clock.so", source],
            check=True,
        )
        file = state / "clock"
        file.write_bytes(bytes(mmap.PAGESIZE))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), mmap.PAGESIZE)
        self._of_day = self._of_run = 0

    def set(self, seconds: int) -> None:
        """Another time of day. Timers do not notice."""
        self._of_day = seconds - int(time.time())
        self._write()

    def hurry(self, seconds: int) -> None:
        """What timers wait for comes earlier. The time of day stays."""
        self._of_run += seconds
        self._write()

    def pass_by(self, seconds: int) -> None:
        """Both go on."""
        self._of_day += seconds
        self.hurry(seconds)

    def _write(self) -> None:
        _clock.pack_into(self._map, 0, self._of_day, self._of_run)


class Reference:
    """A node that runs, or has run: it can be started again."""

    def __init__(self, seed: bytes, state: Path, packages: Packages) -> None:
        self.seed = seed
        self.id = PrivateKey(seed).public.raw
        self.state = state
        state.mkdir(exist_ok=True)
        self._packages = packages
        self._port, self._api = next(_ports), next(_ports)
        self.address = Multiaddr.of_socket("127.0.0.1", self._port, self.id)
        self.inbox: list[dict[str, Any]] = []
        self.log: list[str] = []
        self._news = asyncio.Event()
        self._sent_at = 0.0
        self._running = AsyncExitStack()

    async def start(self, *bootstrap: Multiaddr, clock: Clock | None = None) -> None:
        await self._running.enter_async_context(self._run(*bootstrap, clock=clock))

    async def stop(self) -> None:
        """At once. It can be started again."""
        await self._running.aclose()

    @asynccontextmanager
    async def _run(self, *bootstrap: Multiaddr, clock: Clock | None) -> AsyncIterator[None]:
        """From the first request that it answers to its end, at once."""
        key = self.state / "key"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(self.seed)
        for each in self.state.iterdir():
            shutil.chown(each, NOBODY, NOBODY)
        command = [
            *(str(PACKAGES / PROGRAM), "--no-default-bootstrap", "--registry-8004-disabled"),
            *("--rpc-url", _NOWHERE, "--trade-rpc-url", _NOWHERE, "--registry-8004-url", _NOWHERE),
            *("--kora-url", "none", "--listen-addr", f"/ip4/127.0.0.1/tcp/{self._port}"),
            *("--api-addr", f"127.0.0.1:{self._api}", "--api-secret", SECRET),
            *("--keypair-path", str(STATE / "key"), "--log-dir", str(STATE), "--agent-name", self.state.name),
        ]
        for address in bootstrap:
            command += ["--bootstrap", str(address)]
        environment = {} if clock is None else {"LD_PRELOAD": str(STATE / "clock.so")}
        folders = {"packages": self._packages.folder, "state": self.state}
        async with running(*command, **folders, environment=environment) as process:
            self.log.clear()
            reading = asyncio.create_task(self._read_log(process))
            await self.logged("API listening")
            async with connect(self._uri("/ws/inbox?"), close_timeout=0.1) as inbox:
                listening = asyncio.create_task(self._read_inbox(inbox))
                try:
                    yield
                finally:
                    listening.cancel()
                    reading.cancel()
                    await asyncio.gather(listening, reading, return_exceptions=True)

    @asynccontextmanager
    async def watching(self, topic: str) -> AsyncIterator[None]:
        """It is in a named topic, as long as one of its clients watches it."""
        async with connect(self._uri(f"/ws/topics?topic={topic}&"), close_timeout=0.1):  # it answers no close
            yield

    async def logged(self, text: str) -> None:
        await self.until(lambda: any(text in line for line in self.log))

    async def identifies(self, peer: bytes) -> None:
        """Until it knows which connection belongs to this key."""
        await self.logged(f"mapping agent {peer.hex()}")

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


class StartReference(Protocol):
    def __call__(
        self, name: str, seed: bytes, *bootstrap: Multiaddr, clock: Clock | None = None
    ) -> Awaitable[Reference]: ...
