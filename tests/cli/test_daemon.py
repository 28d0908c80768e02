"""`moothall daemon` with a real hall: processes, files, kills."""

import asyncio
import json
import os
import random
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from moothall import Agent, Message, PrivateKey
from moothall.cli._inbox_text import as_text
from moothall.daemon.folder import Folder
from moothall.daemon.inbox import Inbox
from moothall.daemon.instance import Instance
from moothall.identity import save
from moothall.identity.keyfile import Identity
from tests.support.faults import FaultProxy
from tests.support.server import PROGRAM, HallProcess, complaint, environment, run_moothall, running_hall

PATIENCE: Final = 30.0


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


class Home:
    """A user's home, and the commands that run in it."""

    def __init__(self, path: Path, url: str) -> None:
        self.path = path
        self.environment = {"HOME": str(path), "MOOTHALL_URL": url}

    def instance(self, name: str = "default") -> Instance:
        return Instance(Folder(self.path / ".agentchat" / "daemons" / name))

    def daemon(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return run_moothall(self.path, "daemon", *arguments, environ=self.environment)

    def file(self, name: str, instance: str = "default") -> Path:
        return self.instance(instance).folder.path / name

    def told(self, name: str) -> list[dict[str, Any]]:
        path = self.file(name)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def home(tmp_path: Path, hall: HallProcess) -> Iterator[Home]:
    home = Home(tmp_path, hall.url)
    yield home
    home.daemon("stop", "--all")


@asynccontextmanager
async def foreground(home: Home, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`daemon start --foreground`, killed at the end."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "daemon",
        "start",
        "--foreground",
        *arguments,
        cwd=home.path,
        env=environment(**home.environment),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while b" ready: " not in (line := await process.stderr.readline()):
                assert line, "the daemon did not start"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@asynccontextmanager
async def listener(url: str, *channels: str) -> AsyncIterator[tuple[Agent, "asyncio.Queue[Message]"]]:
    agent = Agent("listener", channels=channels)
    heard: asyncio.Queue[Message] = asyncio.Queue()

    @agent.on_message
    async def hear(message: Message) -> None:
        heard.put_nowait(message)

    async with agent.connected(url):
        yield agent, heard


async def next_of(heard: "asyncio.Queue[Message]") -> Message:
    async with asyncio.timeout(PATIENCE):
        return await heard.get()


async def stored(home: Home, content: str) -> dict[str, Any]:
    """The record in the inbox with this content, when it is there."""
    inbox = Inbox(home.instance().folder)
    async with asyncio.timeout(PATIENCE):
        while True:
            end = inbox.tail(0).cursor
            found = inbox.tail(1, wanted=lambda fields: fields.get("content") == content).records
            if found:
                return found[0].fields
            await inbox.wait(end)


# -- starting and stopping --------------------------------------------------------------------------------


async def test_it_stores_what_it_hears_and_sends_what_it_finds(home: Home, hall: HallProcess) -> None:
    async with listener(hall.url, "general") as (agent, heard):
        started = await asyncio.to_thread(home.daemon, "start", "--name", "bob", "-c", "general")
        assert started.returncode == 0, started.stderr
        assert started.stdout.startswith("daemon default started: @")
        assert "in #general" in started.stdout
        await agent.send("general", "hello, daemon")
        record = await stored(home, "hello, daemon")
        assert (record["type"], record["from"], record["to"]) == ("MSG", agent.address, "#general")
        assert int(home.file("newdata").read_text()) > 0
        with home.file("outbox.jsonl").open("a") as file:
            file.write('{"to": "#general", "content": "by a script"}\n')
        message = await next_of(heard)
        assert (message.sender_name, message.content) == ("bob", "by a script")
        sent = await asyncio.to_thread(home.daemon, "send", "general", "by", "command")
        assert (sent.returncode, sent.stdout, sent.stderr) == (0, "", "")
        assert (await next_of(heard)).content == "by command"
        sent = await asyncio.to_thread(home.daemon, "send", agent.address, "to you", "--json")
        outcome = json.loads(sent.stdout)
        assert (outcome["recipients"], outcome["delivered"]) == (1, True)
        assert (await next_of(heard)).id == outcome["msg_id"]
    for path in home.file("").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    log = home.daemon("logs").stdout
    assert "sent a message to #general" in log
    assert "by command" not in log
    assert "hello, daemon" not in log


def test_start_status_list_stop(home: Home) -> None:
    assert home.daemon("start", "-n", "work", "-c", "general, agents").returncode == 0
    status = json.loads(home.daemon("status", "-n", "work", "--json").stdout)
    assert status["running"]
    assert status["connected"]
    assert status["channels"] == ["#agents", "#general"]
    assert status["pid"] == int(home.file("daemon.pid", "work").read_text())
    assert os.getsid(status["pid"]) not in (os.getsid(0), status["pid"])
    assert "connected, pid" in home.daemon("-n", "work", "-s").stdout
    again = complaint(home.daemon("start", "-n", "work"))
    assert "runs already" in again
    [row] = home.daemon("list").stdout.splitlines()
    assert row.startswith("work  connected")
    assert home.daemon("--stop", "-n", "work").stdout == "daemon work stopped\n"
    assert not home.file("daemon.pid", "work").exists()
    stopped = home.daemon("status", "-n", "work")
    assert stopped.returncode == 1
    assert "not running" in stopped.stdout
    assert "there is no daemon work" in complaint(home.daemon("stop", "-n", "work"))


def test_a_start_that_fails_says_why(home: Home) -> None:
    failed = home.daemon("start", "ws://127.0.0.1:9")
    assert failed.returncode == 3
    assert failed.stderr.startswith("error: cannot reach 127.0.0.1 port 9")
    assert not home.instance().is_running()
    assert "cannot reach" in home.daemon("logs").stdout


def test_channels_that_the_hall_refuses_are_left_out(home: Home) -> None:
    started = home.daemon("start", "-c", "general,nosuch")
    assert started.returncode == 0
    assert "the hall refuses #nosuch (CHANNEL_NOT_FOUND)" in started.stdout


def test_the_pid_of_another_program_is_not_believed(home: Home) -> None:
    """After a crash, daemon.pid may name a process that has nothing to do with it."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as bystander:
        home.instance().folder.make()
        home.file("daemon.pid").write_text(f"{bystander.pid}\n")
        assert home.daemon("status").returncode == 1
        assert home.daemon("stop").returncode == 2
        assert home.daemon("start", "-c", "general").returncode == 0
        assert home.daemon("stop").returncode == 0
        assert bystander.poll() is None
        bystander.communicate(b"\n")


def test_a_daemon_that_was_killed_can_be_started_again(home: Home) -> None:
    assert home.daemon("start", "-c", "general").returncode == 0
    pid = home.instance().pid()
    assert pid is not None
    process = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    assert select.select([process], [], [], PATIENCE)[0]  # until it has ended
    os.close(process)
    assert not home.instance().is_running()
    assert home.file("daemon.pid").exists()
    assert home.daemon("start", "-c", "general").returncode == 0


async def test_the_key_file_of_the_user_is_used(home: Home, hall: HallProcess) -> None:
    key = PrivateKey(bytes(range(5, 37)))
    save(Identity(key, name="carol"), home.path / "carol.json")
    home.environment["MOOTHALL_IDENTITY"] = str(home.path / "carol.json")
    started = await asyncio.to_thread(home.daemon, "start", "-c", "general")
    assert f"@{key.public.agent_id()}" in started.stdout, started.stderr
    assert "(carol)" in started.stdout


# -- losing the hall --------------------------------------------------------------------------------------


async def test_it_comes_back_and_stores_each_message_once(home: Home, hall: HallProcess) -> None:
    async with FaultProxy(hall.port) as proxy, listener(hall.url, "general") as (agent, _):
        home.environment["MOOTHALL_URL"] = proxy.url
        async with foreground(home, "-c", "general") as process:
            await agent.send("general", "before the cut")
            await stored(home, "before the cut")
            proxy.drop()
            await agent.send("general", "meanwhile")
            await stored(home, "meanwhile")
            await agent.send("general", "afterwards")
            await stored(home, "afterwards")
            process.terminate()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
        async with foreground(home, "-c", "general"):
            await agent.send("general", "after a restart")
            await stored(home, "after a restart")
    contents = [record.get("content") for record in home.told("inbox.jsonl") if record["type"] == "MSG"]
    for content in ("before the cut", "meanwhile", "afterwards", "after a restart"):
        assert contents.count(content) == 1


async def test_it_gives_up_after_a_while(home: Home, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with running_hall(tmp_path / "other") as other:
        home.environment["MOOTHALL_URL"] = other.url
        async with foreground(home, "-c", "general", "--max-reconnect-time", "0.001") as process:
            other.kill()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
    assert "no connection for 0.06 s" in home.daemon("logs").stdout


# -- sending ----------------------------------------------------------------------------------------------


def test_send_without_a_daemon_waits_for_the_next_one(home: Home) -> None:
    sent = home.daemon("send", "general", "later", "--json")
    assert sent.returncode == 3
    assert json.loads(sent.stdout)["status"] == "waiting"
    assert home.told("outbox.jsonl")[0]["content"] == "later"


def test_send_tells_a_refusal(home: Home) -> None:
    assert home.daemon("start", "-c", "general").returncode == 0
    sent = home.daemon("send", "nosuch", "hello")
    assert sent.returncode == 4
    assert sent.stderr == "refused: CHANNEL_NOT_FOUND: There is no channel #nosuch\n"
    assert "empty" in complaint(home.daemon("send", "general", " "))


WRITER: Final = """
import json, sys
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    with open(path, "a") as file:
        file.write(json.dumps({"to": "#general", "content": f"{name}-{number}"}) + "\\n")
"""


@pytest.mark.slow
async def test_killed_daemons_lose_no_line_and_send_none_twice(home: Home, hall: HallProcess) -> None:
    chance = random.Random(11)  # noqa: S311
    home.instance().folder.make()
    writers, lines, kills = 3, 60, 8
    async with listener(hall.url, "general") as (_, heard):
        running = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", WRITER, str(home.file("outbox.jsonl")), f"w{number}", str(lines)
            )
            for number in range(writers)
        ]
        contents: list[str] = []
        for _ in range(kills):
            async with foreground(home, "-c", "general") as process:
                contents += [(await next_of(heard)).content for _ in range(chance.randrange(1, 12))]
                process.kill()
        for writer in running:
            assert await writer.wait() == 0
        with home.file("outbox.jsonl").open("a") as file:
            file.write('\n{"to": "#general", "content": "last"}\n')
        async with foreground(home, "-c", "general"):
            while "last" not in contents:
                contents.append((await next_of(heard)).content)
    doubtful = [json.loads(told["line"])["content"] for told in home.told("outbox.rejected.jsonl")]
    assert all(told["status"] == "unknown" for told in home.told("outbox.rejected.jsonl"))
    assert len(doubtful) <= kills
    assert len(contents) == len(set(contents))
    wanted = {f"w{writer}-{line}" for writer in range(writers) for line in range(lines)}
    assert wanted <= set(contents) | set(doubtful)


# -- the unit of systemd ----------------------------------------------------------------------------------

UNIT: Final = Path(__file__).parents[2] / "contrib" / "moothall-daemon@.service"
INSTALLED: Final = "%h/.local/share/moothall/bin/moothall"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "moothall-daemon@work.service"
    unit.write_text(UNIT.read_text().replace(INSTALLED, "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, "")


async def test_the_unit_starts_a_daemon(home: Home) -> None:
    [command] = [line for line in UNIT.read_text().splitlines() if line.startswith("ExecStart=")]
    program, *arguments = command.removeprefix("ExecStart=").split()
    assert program == INSTALLED
    assert arguments[:3] == ["daemon", "start", "--foreground"]
    flags = [word.replace("%i", "work") for word in arguments[3:]]
    async with foreground(home, *flags):
        assert home.instance("work").is_running()


# -- what people see --------------------------------------------------------------------------------------


def test_the_inbox_is_shown(home: Home) -> None:
    home.instance().folder.make()
    inbox = Inbox(home.instance().folder)
    nasty = {
        "type": "MSG",
        "from": "@aa",
        "from_name": "eve",
        "to": "#general",
        "content": "\x1b[2Jhi\nthere",
    }
    inbox.append([nasty, {"type": "AGENT_LEFT", "agent": "@\x1bbb", "ts": 0}])
    shown = home.daemon("inbox").stdout
    assert "\x1b" not in shown
    assert "#general eve: [2Jhi\n         there\n" in shown
    assert "* AGENT_LEFT" in shown
    assert json.loads(home.daemon("inbox", "-m", "2", "--json").stdout.splitlines()[0]) == nasty
    assert home.daemon("inbox", "-m", "0").stdout == ""


@pytest.mark.parametrize("ts", [None, "x", 1e300, float("nan"), [], -1])
def test_any_time_is_shown(ts: object) -> None:
    assert as_text({"type": "MSG", "content": "hi", "ts": ts}).endswith(": hi")


def test_an_instance_that_is_not_there_is_no_empty_inbox(home: Home) -> None:
    assert "there is no daemon nosuch" in complaint(home.daemon("inbox", "-n", "nosuch"))
    waiting = home.daemon("send", "-n", "later", "general", "hello")
    assert waiting.returncode == 3
    assert "`moothall daemon start -n later`" in waiting.stderr
    assert home.daemon("inbox", "-n", "later").returncode == 0
