"""A node process that is killed loses nothing that it acknowledged."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from moothall.node import Node, NodeOptions
from moothall.p2p.multiaddr import Multiaddr
from moothall.wire.mesh import merkle
from moothall.wire.mesh.epochs import log_name
from moothall.wire.mesh.frames import frames
from moothall.wire.mesh.msg_types import MSG_TYPES, MsgType
from tests.support.nodes import QUICK, TALK, Life, deal, life, options, until

NODE = "tests.node_core.test_crash"
FROM_ALICE = 4  # envelopes of a deal


class Process:
    """A node in a process of its own. It sends what a line tells, and answers when that is acknowledged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def ready(self) -> None:
        assert await self._line() == "ready"

    async def _line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def wait_for(self, count: int) -> None:
        """Until so many envelopes are in its inbox."""
        await self._ask(f"wait {count}")

    async def send(self, msg_type: int, payload: bytes, recipient: bytes) -> None:
        await self._ask(f"{msg_type} {payload.hex()} {recipient.hex()}")

    async def _ask(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        answer = await self._line()
        assert answer == "done", answer

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def process(folder: Path, name: str, peer: Multiaddr) -> AsyncIterator[Process]:
    made = Process(
        await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            NODE,
            str(folder),
            name,
            str(peer),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
    )
    try:
        await made.ready()
        yield made
    finally:
        await made.kill()


def has(alive: Life, payload: bytes) -> bool:
    return any(each.envelope.payload == payload for each in alive.received)


@pytest.mark.slow
async def test_a_kill_after_each_acknowledged_send_loses_nothing(tmp_path: Path) -> None:
    """Bob lives in a process that dies right after each send, and after each ACK. What it sent arrives, perhaps
    after its restart, and what it took is in its inbox."""
    async with life(options(tmp_path, "bob", address=None)) as first:
        bob_id = first.id
    async with life(options(tmp_path, "alice")) as alice:
        address = alice.node.address
        assert address is not None
        for name, msg_type, payload in deal(alice.id, bob_id):
            async with process(tmp_path, "bob", address) as bob:
                if name == "bob":
                    await bob.send(msg_type, payload, alice.id)
                    await bob.kill()
                else:
                    await until(lambda: alice.node.statistics().peers == 1)
                    await alice.node.send(msg_type, payload, recipient=bob_id, conversation_id=TALK)
                    await until(lambda: not alice.node.statistics().pending)  # until Bob's ACK
                    if msg_type == MsgType.FEEDBACK:
                        await bob.wait_for(FROM_ALICE)  # a topic has no ACK
                    continue
            async with process(tmp_path, "bob", address):
                await until(partial(has, alice, payload))
    async with life(options(tmp_path, "bob")) as bob_again:
        inbox = await bob_again.node.read_inbox(0, 100)
        epoch = inbox[0].slot // 86_400
        batch = await bob_again.node.batch(epoch)
        assert [each.envelope.msg_type.name for each in inbox] == ["PROPOSE", "ACCEPT", "VERDICT", "FEEDBACK"]
        assert [each.out_of_order for each in inbox] == [None] * 4
    assert batch is not None
    logged = list(frames((tmp_path / "bob" / log_name(epoch)).read_bytes()))
    assert merkle.root([merkle.leaf(each) for each in logged]) == batch.log_merkle_root


# -- in the other process ----------------------------------------------------------------------------------


async def obey(node: Node, words: list[str]) -> None:
    if words[0] == "wait":
        for _ in range(5000):
            if len(await node.read_inbox(0, 100)) >= int(words[1]):
                return
        raise AssertionError("it did not arrive")
    msg_type, payload, recipient = words
    await node.send(
        MSG_TYPES[int(msg_type)],
        bytes.fromhex(payload),
        recipient=bytes.fromhex(recipient),
        conversation_id=TALK,
    )


async def serve(folder: Path, name: str, peer: Multiaddr) -> None:
    chosen = NodeOptions(
        seed=name.encode().ljust(32, b"."),
        log_dir=folder / name,
        agent_name=name,
        listen_addr=None,
        bootstrap=(peer,),
        network=QUICK,
    )
    node = Node(chosen)
    await node.start()
    await until(node.peers)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        try:
            await obey(node, line.split())
            answer = "done"
        except Exception as error:  # noqa: BLE001  # the test shows it
            answer = repr(error)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2], Multiaddr.parse(sys.argv[3])))
