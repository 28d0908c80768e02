"""A peer on js-libp2p (`peer.mjs`), driven from a test."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Final

from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.sandbox import PACKAGES, PATIENCE, running
from tests.support.npm import Packages

_SCRIPT: Final = Path(__file__).with_name("peer.mjs")


class JsPeer:
    def __init__(self, process: asyncio.subprocess.Process, address: Multiaddr) -> None:
        self.process = process
        self.address = address
        assert address.agent_id is not None
        self.id = address.agent_id
        self._numbers = count()
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def do(self, name: str, **options: object) -> Any:
        """The answer to a command of `peer.mjs`."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": number, "name": name, **options}).encode() + b"\n")
        async with asyncio.timeout(PATIENCE):
            return await answer

    async def listen(self) -> None:
        """Reads answers until the peer ends."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            said = json.loads(line)
            answer = self._answers.pop(said["id"])
            if answer.done():
                continue
            if "error" in said:
                answer.set_exception(AssertionError(said["error"]))
            else:
                answer.set_result(said["result"])
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(AssertionError("the peer has ended"))


StartJs = Callable[[str], Awaitable[JsPeer]]


@asynccontextmanager
async def js_peer(packages: Packages, state: Path, name: str) -> AsyncIterator[JsPeer]:
    node = (
        str(PACKAGES / Path(packages.node).relative_to(packages.folder))
        if _is_own(packages)
        else packages.node
    )
    seed = name.encode().ljust(32, b".").hex()
    command = (node, "--input-type=module", "--eval", _SCRIPT.read_text(), seed)
    async with running(*command, packages=packages.folder, state=state) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            address = await process.stdout.readline()
        peer = JsPeer(process, Multiaddr.parse(address.decode().strip()))
        listening = asyncio.create_task(peer.listen())
        try:
            yield peer
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


def _is_own(packages: Packages) -> bool:
    """True if node is one of the packages."""
    return Path(packages.node).is_relative_to(packages.folder)


def content(number: int, size: int) -> bytes:
    """What `peer.mjs` sends as the message of this number."""
    return number.to_bytes(4, "big") + bytes((number % 251,)) * (size - 4)


def contents(count: int, small: int, large: int) -> list[bytes]:
    """Each hundredth is large."""
    return [content(number, small if number % 100 else large) for number in range(count)]


def digests(contents: list[bytes]) -> list[str]:
    return [sha256(each).hexdigest() for each in contents]
