"""`moothall demo` as a process of its own, fast: the whole play, a guest, and what is left when it ends."""

import asyncio
import json
import re
import secrets
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import pytest

from moothall import Agent, Message, PrivateKey
from moothall.keep import AsyncKeepClient
from moothall.known_halls import PATH_VARIABLE
from tests.support.server import PATIENCE, PROGRAM, Printed, complaint, environment, run_moothall

HASTE: Final = "0.02"
FLAGS: Final = ("--port", "0", "--keep-port", "0", "--pace", HASTE)


class Demo:
    """The process. All that it writes is below `folder`."""

    def __init__(self, folder: Path, *flags: str, **variables: str) -> None:
        self.folder = folder
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [PROGRAM, "demo", *flags],
            cwd=folder,
            env=environment(TMPDIR=str(self.temporary), HOME=str(folder), **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout, self.stderr = Printed(self.process.stdout), Printed(self.process.stderr)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line that has it."""
        for _ in range(4):  # the play takes its time on a busy machine
            line = self.stdout.wait_for(lambda line: re.search(pattern, line) is not None)
            if line is not None or self.process.poll() is not None:
                break
        assert line is not None, f"{pattern}:\n{self.stdout.text}{self.stderr.text}"
        found = re.search(pattern, line)
        assert found is not None
        return found

    @property
    def port(self) -> int:
        return int(self.wait_for(r"Open http://127\.0\.0\.1:(\d+)/")[1])

    @property
    def keep_port(self) -> int:
        return int(self.wait_for(r"keep .*:(\d+): pulse")[1])

    def read(self, route: str) -> Any:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/api/v1/{route}")
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == 200, content
        return json.loads(content)

    def stop(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        try:
            return self.process.wait(2 * PATIENCE)
        finally:
            self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.stdout.finish()
        self.stderr.finish()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    running = Demo(tmp_path_factory.mktemp("demo"), *FLAGS, "--no-browser")
    try:
        running.wait_for("verdict in")
        yield running
    finally:
        running.kill()


def test_there_are_six_agents_on_three_wires(demo: Demo) -> None:
    wires = sorted(agent["wire"] for agent in demo.read("agents")["items"] if agent["name"] != "zoe")
    assert wires.count("keep") == 1
    assert wires.count("agentchat") >= 3
    assert wires.count("mesh") == 2


def test_a_message_came_by_each_wire(demo: Demo) -> None:
    messages = demo.read("channels/general/messages?limit=100")["items"]
    assert {message.get("via") for message in messages} == {None, "keep", "mesh"}


def test_agents_took_turns(demo: Demo) -> None:
    demo.wait_for(r"bruno answered ada; clara yielded")


def test_a_file_arrived(demo: Demo) -> None:
    demo.wait_for(r"bruno received parser-fix\.patch from ada")


def test_a_deal_with_stakes_was_settled(demo: Demo) -> None:
    deals = demo.read("deals?limit=100")
    assert deals["whose"] == "all"
    assert any(deal["status"] == "completed" and deal["proposer_stake"] == 20 for deal in deals["items"]), (
        deals
    )


def test_a_conversation_of_the_mesh_is_closed(demo: Demo) -> None:
    demo.wait_for("closed their conversation on the mesh")
    conversations = demo.read("mesh/conversations")["items"]
    assert conversations[-1]["state"] == "CLOSED"


def test_court_verify_accepts_the_verdict(demo: Demo, tmp_path: Path) -> None:
    case = next(each for each in demo.read("cases")["items"] if each["verdict"])
    assert len(case["arbiters"]) == 3
    file = demo.read(f"cases/{case['id']}")
    (tmp_path / "case.json").write_text(json.dumps(file))
    verified = run_moothall(tmp_path, "court", "verify", "case.json", "--hall", file["hall_key"])
    assert verified.returncode == 0, verified.stdout + verified.stderr


def guest(name: str, **options: Any) -> Agent:
    return Agent(name, identity=PrivateKey(secrets.token_bytes(32)), human=True, **options)


async def heard(agent: Agent, url: str, text: str, *, to: str = "#general") -> list[Message]:
    """The answers to a line of the guest, until a second line of it was answered as well."""
    answers: dict[str | None, list[Message]] = {}
    arrived = asyncio.Event()

    @agent.on_message
    async def hear(message: Message) -> None:
        answers.setdefault(message.in_reply_to, []).append(message)
        arrived.set()

    async def until(wanted: Callable[[], bool]) -> None:
        async with asyncio.timeout(4 * PATIENCE):
            while not wanted():
                arrived.clear()
                await arrived.wait()

    async with agent.connected(url):
        first = await agent.send(to, text)
        await until(lambda: first in answers)
        second = await agent.send(to, "and again: hello")
        await until(lambda: second in answers)
    return answers[first]


async def test_one_agent_answers_a_person(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "known.json"))
    url = f"ws://127.0.0.1:{demo.port}"
    answers = await heard(guest("zoe", channels=["#general"]), url, "hello, how do deals work?")
    assert len(answers) == 1
    assert "zoe" in answers[0].content
    (answer,) = await heard(guest("zoe", channels=["#general"]), url, "@pulse what do you do?")
    assert answer.via == "keep"


async def test_an_agent_of_the_mesh_answers_when_it_is_mentioned(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "known.json"))
    visitor = guest("zoe", channels=["#general"])
    answered = asyncio.Event()

    @visitor.on_message
    async def hear(message: Message) -> None:
        if message.via == "mesh" and "zoe" in message.content:
            answered.set()

    async with visitor.connected(f"ws://127.0.0.1:{demo.port}"):
        for _ in range(4):  # mika may be on the way back from court
            await visitor.send("#general", "@mika which wire are you on?")
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await answered.wait()
                    break
    assert answered.is_set()


async def test_agents_take_offers_and_files_of_a_person(
    demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "known.json"))
    ada = next(agent["id"] for agent in demo.read("agents")["items"] if agent["name"] == "ada")
    note = tmp_path / "note.txt"
    note.write_text("hello")
    large = tmp_path / "large.bin"
    large.write_bytes(secrets.token_bytes(1_500_000))
    visitor = guest("zoe")
    async with visitor.connected(f"ws://127.0.0.1:{demo.port}"):
        deal = await visitor.propose(ada, "Say hello")
        changes: asyncio.Queue[str] = asyncio.Queue()

        @visitor.on_deal
        async def note_change(change: Any) -> None:
            await changes.put(change.proposal.status)

        if deal.status == "pending":
            async with asyncio.timeout(2 * PATIENCE):
                assert await changes.get() == "accepted"
        await deal.complete()
        await visitor.send_files(ada, [note])
        with pytest.raises(Exception, match="at most 1 MB"):
            await visitor.send_files(ada, [large])


async def test_a_keep_client_finds_the_agent_of_its_wire(demo: Demo) -> None:
    async with AsyncKeepClient("127.0.0.1", demo.keep_port) as client:
        assert "bot:pulse" in await client.discover_agents()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    """The page is opened in the program that BROWSER names; an earlier hall at the port is known as before.

    Also as a background job of a script: a shell lets these ignore SIGINT.
    """
    opener = tmp_path / "browser"
    opened = tmp_path / "opened"
    opener.write_text(f'#!/bin/sh\nprintf %s "$1" > {opened}.part && mv {opened}.part {opened}\n')
    opener.chmod(0o755)
    known = tmp_path / "known.json"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pins = {f"localhost:{port}": {"key": "ab" * 32, "since": "2026-01-01T00:00:00Z"}}
    known.write_text(json.dumps(pins))
    known.chmod(0o600)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        demo = Demo(
            tmp_path,
            *("--port", str(port), "--keep-port", "0", "--pace", HASTE),
            BROWSER=f"{opener} %s",
            **{PATH_VARIABLE: str(known)},
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        demo.wait_for("answered")
        assert json.loads(known.read_text()) != pins
        assert list(demo.temporary.iterdir()) != []
        code = demo.stop(number)
    finally:
        demo.kill()
    assert (code, demo.stderr.text) == (0, "")
    assert opened.read_text() == f"http://127.0.0.1:{port}/"
    assert json.loads(known.read_text()) == pins
    assert list(demo.temporary.iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_what_a_killed_demo_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    known = tmp_path / "known.json"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    pins = {f"localhost:{port}": {"key": "ab" * 32, "since": "2026-01-01T00:00:00Z"}}
    known.write_text(json.dumps(pins))
    known.chmod(0o600)
    variables = {PATH_VARIABLE: str(known)}
    killed = Demo(tmp_path, "--no-browser", "--port", str(port), "--keep-port", "0", **variables)
    try:
        assert killed.port == port
    finally:
        killed.kill()
    [left] = killed.temporary.glob("moothall-demo-*")
    assert json.loads(known.read_text()) != pins
    following = Demo(tmp_path, "--no-browser", *FLAGS, **variables)
    try:
        assert following.port != port
        assert not left.exists()
        assert json.loads(known.read_text()) == pins
        assert following.stop(signal.SIGINT) == 0
    finally:
        following.kill()
    assert list(following.temporary.iterdir()) == []


@pytest.mark.parametrize("flag", ["--port", "--keep-port"])
def test_a_port_that_is_taken(tmp_path: Path, flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        words = {"--port": "0", "--keep-port": "0", flag: str(port)}
        result = run_moothall(
            tmp_path,
            *("demo", "--no-browser", *(word for pair in words.items() for word in pair)),
            environ={"TMPDIR": str(tmp_path)},
        )
    assert f"cannot listen on 127.0.0.1:{port}" in complaint(result)
    assert list(tmp_path.glob("moothall-demo-*")) == []
