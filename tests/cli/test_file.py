"""`moothall file`: files from one terminal to another."""

import asyncio
import hashlib
import json
import os
import re
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from moothall import Agent, FileOffer, Progress
from moothall.cli._progress import as_text
from moothall.cli.main import app
from moothall.daemon.folder import Folder
from moothall.daemon.inbox import Inbox
from moothall.files.control import Offer, OfferedFile, encode
from tests.client.meeting import Heard, soon
from tests.support.server import PROGRAM, HallProcess, environment, running_hall

BAD = "# --- SLURP v4 ---\n\n=== ../up ===\nx\n=== END ../up ===\n\n=== good ===\nx\n=== END good ===\n"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


async def run(hall: HallProcess, *arguments: str) -> Result:
    """A command, on a thread of its own because it has its own event loop."""
    order = ["file", arguments[0], "--url", hall.url, *arguments[1:]]
    result = await asyncio.to_thread(CliRunner().invoke, app, order)
    assert "Traceback" not in result.output
    return result


class Waiting:
    """A command that waits for files, in a process of its own."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._first = ""

    @classmethod
    async def begun(cls, hall: HallProcess, command: str, *arguments: str) -> "Waiting":
        order = [PROGRAM, "file", command, "--url", hall.url, *arguments]
        return cls(await asyncio.create_subprocess_exec(*order, env=environment(), stdout=PIPE, stderr=PIPE))

    async def address(self) -> str:
        """Its id, which it tells when it is connected."""
        assert self._process.stderr is not None
        self._first = (await soon(self._process.stderr.readline())).decode()
        found = re.fullmatch(r"waiting for (?:files|offers) as (@\w+) \(.*\)\n", self._first)
        assert found is not None
        return found[1]

    async def ended(self) -> tuple[int | None, str, str]:
        """Its exit code, and what it wrote to standard output and standard error."""
        output, errors = await soon(self._process.communicate())
        return self._process.returncode, output.decode(), self._first + errors.decode()


async def test_from_one_terminal_to_another(hall: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "blob").write_bytes(os.urandom(300_000))
    (tmp_path / "folder" / "link").symlink_to("/etc/passwd")
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "notes.txt").write_text("old\n")
    into = str(tmp_path / "inbox")
    taker = await Waiting.begun(hall, "receive", "--into", into, "--name", "taker")
    address = await taker.address()
    sent = await run(hall, "send", address, str(tmp_path / "notes.txt"), str(tmp_path / "folder"))
    code, output, errors = await taker.ended()
    assert (sent.exit_code, code) == (0, 0)
    assert sent.stdout.startswith(f"sent 2 files (293.0 KB) to {address} in ")
    assert "link" in sent.stderr
    assert output == f"{into}/notes (2).txt\n{into}/folder/blob\n"
    assert "notes.txt was there already, and is kept" in errors
    assert (tmp_path / "inbox" / "notes.txt").read_text() == "old\n"
    assert (tmp_path / "inbox" / "folder" / "blob").read_bytes() == (
        tmp_path / "folder" / "blob"
    ).read_bytes()


async def test_as_json(hall: HallProcess, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a\n")
    taker = Agent("json-taker")

    @taker.on_file_offer
    async def take(offer: FileOffer) -> None:
        await offer.accept(tmp_path / "one")

    async with taker.connected(hall.url):
        sent = await run(hall, "send", taker.address, str(path), "--json")
        found = json.loads(sent.stdout)
        assert (found["to"], found["files"]) == (taker.address, [{"name": "a", "size": 2}])
        folder = tmp_path / "two"
        waiting = await Waiting.begun(
            hall, "receive", "--into", str(folder), "--from", taker.address, "--json"
        )
        await taker.send_files(await waiting.address(), path)
        received = json.loads((await waiting.ended())[1])
        assert received["files"] == [{"name": "a", "path": str(folder / "a"), "size": 2}]
        assert (received["skipped"], received["more_skipped"]) == ([], 0)


async def test_a_transfer_that_is_rejected(hall: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    taker = Agent("unwilling")

    @taker.on_file_offer
    async def decline(offer: FileOffer) -> None:
        await offer.reject("\x1b[2Jno")

    async with taker.connected(hall.url):
        result = await run(hall, "send", taker.address, str(tmp_path / "a"))
    assert result.exit_code == 1
    assert result.stderr.endswith(f"error: {taker.address} rejected the files: [2Jno\n")


async def test_nothing_happens_in_time(hall: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    async with Agent("silent").connected(hall.url) as silent:
        result = await run(hall, "send", silent.address, str(tmp_path / "a"), "--timeout", "0.2")
        assert (result.exit_code, "may have no file support" in result.stderr) == (6, True)
    for command in ("receive", "offers"):
        result = await run(hall, command, "--timeout", "0.2")
        assert result.exit_code == 6
        assert result.stderr.endswith("error: no files were offered within 0.2 s\n")


async def test_mistakes(hall: HallProcess, tmp_path: Path) -> None:
    async with Agent("mistaken").connected(hall.url) as agent:
        result = await run(hall, "send", agent.address, str(tmp_path / "missing"))
        assert (result.exit_code, "there is no file or folder" in result.stderr) == (2, True)
        result = await run(hall, "send", "#general", str(tmp_path))
        assert (result.exit_code, "files go to an agent" in result.stderr) == (4, True)
        (tmp_path / "taken").write_text("a file\n")
        result = await run(hall, "receive", "--into", str(tmp_path / "taken"), "--timeout", "0.2")
        assert (result.exit_code, "is not a folder" in result.stderr) == (2, True)
        result = await run(hall, "offers", "--daemon", "default")
        assert (result.exit_code, "leave out --url" in result.stderr) == (2, True)


async def test_skipped_entries_are_reported(hall: HallProcess, tmp_path: Path) -> None:
    async with Agent("bad").connected(hall.url) as bad:
        answers: Heard[dict[str, Any]] = Heard()
        bad.on_event("MSG")(answers)
        waiting = await Waiting.begun(hall, "receive", "feed", "--into", str(tmp_path))
        to = await waiting.address()
        digest = hashlib.sha256(BAD.encode()).hexdigest()
        await bad.send(to, encode(Offer("other", [], 1, digest, 1)))  # not the one that is waited for
        await bad.send(to, encode(Offer("feed", [], 1, digest, 1)))
        assert json.loads((await answers.next())["content"]) == {"_ft": "accept", "tid": "feed"}
        chunk = {"_ft": "chunk", "tid": "feed", "idx": 0, "total": 1, "data": BAD}
        await bad.send_chunk(to, json.dumps(chunk))
        await bad.send(to, json.dumps({"_ft": "complete", "tid": "feed", "sha256": digest}))
        code, output, errors = await waiting.ended()
    assert (code, output) == (1, f"{tmp_path}/good\n")
    assert "skipped '../up': its path leads out of the folder\n" in errors


async def test_offers_that_come(hall: HallProcess, tmp_path: Path) -> None:
    (tmp_path / "ab").write_text("a\n")
    async with Agent("offering").connected(hall.url) as agent:
        waiting = await Waiting.begun(hall, "offers")
        transfer = await agent.offer_files(await waiting.address(), tmp_path / "ab")
        code, output, _ = await waiting.ended()
        assert code == 0
        assert output.split()[:4] == [transfer.transfer_id, agent.address, "offering", "1"]
        waiting = await Waiting.begun(hall, "offers", "--json")
        transfer = await agent.offer_files(await waiting.address(), tmp_path / "ab")
        (found,) = json.loads((await waiting.ended())[1])
        assert (found["transfer_id"], found["from"]) == (transfer.transfer_id, agent.address)
        assert found["files"] == [{"name": "ab", "size": 2}]


def test_offers_in_the_inbox_of_a_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = Folder.of("default")
    folder.make()
    now = round(time.time() * 1000)
    offer = Offer("feed", [OfferedFile("\x1b[2Ja", 1)], 1, "0" * 64, 1, more=2)

    def heard(content: str, ts: object = now) -> dict[str, Any]:
        return {
            "type": "MSG",
            "from": "@1f3a9c02",
            "from_name": "bob",
            "to": "@me",
            "content": content,
            "ts": ts,
        }

    old = heard(encode(Offer("old", [], 1, "0" * 64, 1)), now - 1_800_001)
    large = heard(encode(Offer("large", [], 2**40, "0" * 64, 1)))
    back = [heard(encode(Offer("back", [], 1, "0" * 64, 1))), heard('{"_ft":"cancel","tid":"back"}')]
    odd = [heard("hello"), heard(encode(offer), "yesterday"), {"type": "YIELD"}]
    Inbox(folder).append([old, large, *back, *odd, heard(encode(offer))])
    result = CliRunner().invoke(app, ["file", "offers", "--daemon", "default"])
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    assert "\x1b" not in result.stdout
    assert result.stdout.split()[:6] == ["feed", "@1f3a9c02", "bob", "3", "1", "B"]
    result = CliRunner().invoke(app, ["file", "offers", "--daemon", "empty"])
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize(
    ("progress", "width", "text"),
    [
        (Progress(0, 4, 1024, 0.0), 60, "[" + "." * 40 + "]   0%  0 B/s"),
        (Progress(2, 4, 1024 * 1024, 10.0), 41, "[#####.....]  50%  51.2 KB/s  0:10 left"),
        (Progress(1, 100, 1024, 10.0), 20, "  1%  1 B/s  16:30 l"),
    ],
)
def test_the_bar(progress: Progress, width: int, text: str) -> None:
    assert as_text(progress, width) == text
    assert len(text) <= width
