"""The reference node, `zerox1-node` 0.8.0, and a clock for it."""

import asyncio
import mmap
import shutil
import struct
import subprocess
import time
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import ClassVar, Final, Protocol

import pytest

from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.node_program import NOWHERE, NodeProgram
from tests.strangers.sandbox import NOBODY, PACKAGES, STATE, running
from tests.support.npm import Packages

PROGRAM: Final = Path("node_modules/@zerox1/sdk-linux-x64/bin/zerox1-node")

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


class Reference(NodeProgram):
    READY: ClassVar[str] = "API listening"

    def __init__(
        self,
        seed: bytes,
        state: Path,
        packages: Packages,
        bootstrap: tuple[Multiaddr, ...],
        clock: Clock | None,
        rpc: str,
    ) -> None:
        super().__init__(seed, state, bootstrap, rpc)
        self._packages = packages
        self._environment = {} if clock is None else {"LD_PRELOAD": str(STATE / "clock.so")}

    async def identifies(self, peer: bytes) -> None:
        await self.logged(f"mapping agent {peer.hex()}")

    async def knows(self, agent: bytes) -> None:
        wanted = {"msg_type": "BEACON", "sender": agent.hex()}
        await self.until(lambda: any(wanted.items() <= got.items() for got in self.inbox))

    def _process(self) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
        for each in self.state.iterdir():
            shutil.chown(each, NOBODY, NOBODY)
        folders = {"packages": self._packages.folder, "state": self.state}
        program = str(PACKAGES / PROGRAM)
        return running(program, *self.flags(STATE), **folders, environment=self._environment)


class StartReference(Protocol):
    def __call__(
        self, name: str, seed: bytes, *bootstrap: Multiaddr, clock: Clock | None = None, rpc: str = NOWHERE
    ) -> Awaitable[Reference]: ...
