"""What is stored of what the agent hears: all of it, also in a burst. What a full disk costs is told."""

import asyncio
import errno
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from moothall import Agent
from moothall.daemon import recorder as recorder_module
from moothall.daemon.folder import Folder
from moothall.daemon.inbox import INBOX, Inbox
from moothall.daemon.recorder import MAX_WAITING, Recorder

pytestmark = pytest.mark.slow

BURST = 5000
PATIENCE = 30


def frame(number: int, content: str = "") -> dict[str, Any]:
    return {
        "type": "MSG",
        "from": "@stranger",
        "from_name": "stranger",
        "to": "@visitor0",
        "content": content or f"line {number}",
        "msg_id": f"{number}-a",
        "ts": number + 1,
    }


def as_bytes(message: Mapping[str, Any]) -> bytes:
    """A frame of a server that is shorter than 64 KB."""
    payload = json.dumps(message).encode()
    return bytes((0x81, 126)) + len(payload).to_bytes(2) + payload


async def test_a_burst_is_stored_whole(tmp_path: Path) -> None:
    """More messages come in one turn than handlers may run at once."""

    async def host(socket: ServerConnection) -> None:
        async for text in socket:
            message = json.loads(text)
            if message["type"] == "IDENTIFY":
                welcome = {
                    "type": "WELCOME",
                    "agent_id": "@visitor0",
                    "name": "visitor",
                    "server": "x",
                    "ts": 1,
                }
                await socket.send(json.dumps({**welcome, "ref": message.get("ref")}))
                socket.transport.write(b"".join(as_bytes(frame(number)) for number in range(BURST)))

    inbox = Inbox(Folder(tmp_path), limit=2 * BURST)
    recorder = Recorder(inbox)
    async with serve(host, "127.0.0.1", 0, compression=None) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        agent = Agent("visitor", reconnect=False)
        agent.listen(recorder.hear)
        last = agent.wait_for("MSG", lambda heard: heard["ts"] == BURST, timeout=PATIENCE)
        async with agent.connected(f"ws://127.0.0.1:{port}"):
            await last
    recorder.flush()
    found = inbox.tail(2 * BURST, max_characters=10**9)
    assert [record.fields["ts"] for record in found.records] == list(range(1, BURST + 1))


class FullDisk(Inbox):
    is_full = False

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().append(records)


@pytest.mark.parametrize(
    ("records", "length", "most"), [(MAX_WAITING + 10, 10, MAX_WAITING), (40, 1_000_000, 16)]
)
async def test_what_a_full_disk_costs_is_told(tmp_path: Path, records: int, length: int, most: int) -> None:
    disk = FullDisk(Folder(tmp_path))
    recorder = Recorder(disk)
    disk.is_full = True
    for number in range(records):
        recorder.hear(frame(number, "x" * length))
        recorder.flush()
    disk.is_full = False
    recorder.flush()
    lines = await asyncio.to_thread((tmp_path / INBOX).read_text)
    gap, *kept = map(json.loads, lines.splitlines())
    assert (gap["since"], gap["complete"], gap["reason"]) == (1, False, "inbox not writable")
    assert kept[-1]["ts"] == records
    assert gap["until"] + 1 == kept[0]["ts"]
    assert len(kept) <= most


async def test_a_full_disk_is_tried_again_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not for each message: what waits would be encoded each time."""
    disk = FullDisk(Folder(tmp_path))
    recorder = Recorder(disk)
    tries: asyncio.Queue[list[Mapping[str, Any]]] = asyncio.Queue()
    disk.is_full = True
    recorder.hear(frame(0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    monkeypatch.setattr(disk, "append", tries.put_nowait)
    monkeypatch.setattr(recorder_module, "RETRY", 0.01)
    for number in range(1, 100):
        recorder.hear(frame(number))
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE):
        assert len(await tries.get()) == 100
    assert tries.empty()
