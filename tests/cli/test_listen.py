import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from moothall import Agent, Message, PrivateKey, ReplyTimeout
from moothall.cli.listen import Printer, next_message
from moothall.cli.main import app
from moothall.identity import save
from moothall.identity.keyfile import Identity
from tests.support.faults import FaultProxy
from tests.support.server import PROGRAM, HallProcess, environment, running_hall

PATIENCE: Final = 15.0
ALICE = PrivateKey(bytes(range(32)))
CAROL = PrivateKey(bytes(range(2, 34)))
NASTY: Final = "\x1b[2J\x1b]0;pwned\x07 \x9b31m one\n12:00:00 #general bob: two \u202e"


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


class Listen:
    """`moothall listen` as a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        assert process.stdout is not None
        self.output = process.stdout

    async def line(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return (await self.output.readline()).decode()

    async def object(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.line())
        return message

    async def end(self) -> tuple[int | None, str, str]:
        """Exit code, what else was printed, what was complained about."""
        async with asyncio.timeout(PATIENCE):
            output, errors = await self.process.communicate()
        return self.process.returncode, output.decode(), errors.decode()


@asynccontextmanager
async def listening(*arguments: str) -> AsyncIterator[Listen]:
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "listen",
        *arguments,
        env=environment(TZ="UTC"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Listen(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


class Speaker:
    """Somebody in the channel who speaks when the listener has come."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._arrivals: asyncio.Queue[str] = asyncio.Queue()
        agent.on_join(self._arrived)

    async def _arrived(self, arrival: Any) -> None:
        self._arrivals.put_nowait(arrival.member.id)

    async def arrival(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return await self._arrivals.get()

    async def say(self, *contents: str) -> None:
        for content in contents:
            await self.agent.send("#general", content)


@asynccontextmanager
async def speaker(hall: HallProcess) -> AsyncIterator[Speaker]:
    agent = Agent("bob", channels=["#general"])
    bob = Speaker(agent)
    async with agent.connected(hall.url):
        yield bob


async def test_every_message_is_a_json_line_at_once(hall: HallProcess) -> None:
    async with speaker(hall) as bob, listening(hall.url, "general", "--json") as listen:
        await bob.arrival()
        for content in ("hello", NASTY, "grüße 👋"):
            await bob.say(content)
            line = await listen.line()
            message = json.loads(line)
            assert message["content"] == content
            assert message["from"] == bob.agent.address
            assert message["type"] == "MSG"
            assert line.isascii()
            assert line.rstrip("\n").isprintable()


async def test_it_ends_after_so_many_messages(hall: HallProcess) -> None:
    async with speaker(hall) as bob, listening("-m", "2", hall.url, "general", "--json") as listen:
        await bob.arrival()
        await bob.say("one", "two", "three")
        code, output, errors = await listen.end()
        assert [json.loads(line)["content"] for line in output.splitlines()] == ["one", "two"]
        assert code == 0
        assert_connected(errors, hall)


async def test_people_get_text_that_cannot_steer_their_terminal(hall: HallProcess) -> None:
    async with speaker(hall) as bob, listening(hall.url) as listen:
        address = await bob.arrival()
        await bob.say("hello")
        assert (await listen.line())[8:] == " #general bob: hello\n"
        await bob.say(NASTY)
        assert (await listen.line())[8:] == " #general bob: [2J]0;pwned 31m one\n"
        assert await listen.line() == " " * 9 + "12:00:00 #general bob: two \n"
        await bob.agent.send(address, "psst")
        assert (await listen.line())[8:] == " (to you) bob: psst\n"


async def test_lines_of_the_hall_are_marked(tmp_path: Path) -> None:
    """No name has a star or an @, so no agent's line looks like this."""
    with running_hall(tmp_path, "--set", "service_lines=true") as hall:
        async with speaker(hall) as bob, listening(hall.url, "-n", "ear") as listen:
            await bob.arrival()
            assert (await listen.line())[8:] == " #general * @server: ear joined #general\n"
            await bob.say("hello")
            assert (await listen.line())[8:] == " #general bob: hello\n"


async def test_history_comes_first_if_asked_for(hall: HallProcess) -> None:
    async with speaker(hall) as bob:
        await bob.say("once upon a time")
        async with listening(hall.url, "--history", "--json") as listen:
            while (message := await listen.object())["content"] != "once upon a time":
                assert message["replay"] is True
            await bob.say("now")
            assert (await listen.object())["content"] == "now"


# how it ends


@pytest.mark.parametrize("number", [signal.SIGINT])
async def test_ctrl_c_is_a_clean_end(hall: HallProcess, number: signal.Signals) -> None:
    async with speaker(hall) as bob, listening(hall.url) as listen:
        await bob.arrival()
        listen.process.send_signal(number)
        code, output, errors = await listen.end()
        assert (code, output) == (0, "")
        assert_connected(errors, hall)


async def test_a_reader_that_leaves_is_a_clean_end(hall: HallProcess) -> None:
    """Also when nothing more is said: `moothall listen | head -1` must not stay for ever."""
    async with speaker(hall) as bob:
        process = await asyncio.create_subprocess_shell(
            f"({PROGRAM} listen {hall.url} --json; echo $? >&2) | head -1",
            env=environment(),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        await bob.arrival()
        await bob.say("the only line")
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate()
        assert json.loads(output)["content"] == "the only line"
        connected, code = errors.decode().splitlines()
        assert code == "0"
        assert_connected(connected, hall)


async def test_silence_is_exit_code_5(hall: HallProcess) -> None:
    async with listening(hall.url, "--timeout", "0.5") as listen:
        code, output, errors = await listen.end()
        assert (code, output) == (5, "")
        assert errors.endswith("\nerror: nothing was said for 0.5 s; a longer --timeout waits longer\n")


async def test_no_such_channel_is_exit_code_4(hall: HallProcess) -> None:
    async with listening(hall.url, "nowhere") as listen:
        code, _, errors = await listen.end()
        assert code == 4
        *connected, error = errors.splitlines()
        assert error.startswith("error: CHANNEL_NOT_FOUND")
        assert len(connected) <= 1


async def test_no_hall_is_exit_code_3() -> None:
    async with listening("ws://127.0.0.1:1") as listen:
        code, _, errors = await listen.end()
        assert code == 3
        assert errors.count("\n") == 1


async def test_being_displaced_ends_it(hall: HallProcess, tmp_path: Path) -> None:
    path = tmp_path / "alice.json"
    save(Identity(ALICE, name="alice"), path)
    async with speaker(hall) as bob, listening(hall.url, "-i", str(path)) as listen:
        await bob.arrival()
        async with Agent("alice", identity=ALICE).connected(hall.url):
            code, _, errors = await listen.end()
        assert code == 3
        connected, error = errors.splitlines()
        assert_connected(connected, hall)
        assert error.startswith("error: ")


@pytest.mark.parametrize("history", [(), ("--history",)], ids=["live", "history"])
async def test_what_was_said_during_a_break_is_caught_up(hall: HallProcess, history: tuple[str, ...]) -> None:
    before, during, after = (f"{when} the break {history}" for when in ("before", "during", "after"))
    async with (
        speaker(hall) as bob,
        FaultProxy(hall.port) as line,
        listening(line.url, "--json", *history) as listen,
    ):
        await bob.arrival()
        await bob.say(before)
        while (await listen.object())["content"] != before:
            assert history
        line.drop()
        await bob.say(during)  # it comes back after most of a second at the earliest
        await bob.arrival()
        await bob.say(after)
        heard = [(await listen.object())["content"], (await listen.object())["content"]]
        assert sorted(heard) == [after, during]
        listen.process.send_signal(signal.SIGINT)
        code, output, errors = await listen.end()
        assert (code, output) == (0, "")
        connected, lost, back = errors.splitlines()
        assert connected.startswith(f"connected to {line.url} as @")
        assert lost.startswith(f"disconnected: the connection to {line.url} was lost")
        assert back == f"re{connected}".replace(connected.split()[4], back.split()[4])  # an id for each time


# everything else that happens


async def test_events_are_streamed_for_programs(hall: HallProcess, tmp_path: Path) -> None:
    save(Identity(ALICE, name="alice"), tmp_path / "alice.json")
    key = ("-i", str(tmp_path / "alice.json"))
    async with (
        Agent("carol", identity=CAROL, channels=["#general"]).connected(hall.url) as carol,
        listening(hall.url, "--json", "--events", *key) as listen,
    ):
        bob = Speaker(carol)
        alice = await bob.arrival()
        await carol.set_presence("busy", "thinking")
        await carol.send("#general", "hello")
        deal = await carol.propose(alice, "paint the hall")
        seen = [await listen.object()]
        while not {frame["type"] for frame in seen} >= {"PRESENCE_CHANGED", "MSG", "PROPOSAL"}:
            seen.append(await listen.object())
        offered = next(frame for frame in seen if frame["type"] == "PROPOSAL")
        assert (offered["proposal_id"], offered["task"]) == (deal.id, "paint the hall")
        listen.process.send_signal(signal.SIGINT)
        await listen.end()
        async with Agent("alice", identity=ALICE).connected(hall.url) as party:
            await party.accept(deal.id)
        async with listening(hall.url, "--json", "--events", *key) as listen:
            await bob.arrival()
            dispute = await carol.file_dispute(deal.id, "still grey")  # there are no arbiters
            await carol.dispute(deal.id, "still grey")
            frames: dict[str, dict[str, Any]] = {}
            async with Agent("dave", channels=["#general"]).connected(hall.url):
                while not frames.keys() >= {"DISPUTE_FALLBACK", "DISPUTE", "AGENT_JOINED"}:
                    frame = await listen.object()
                    frames[frame["type"]] = frame
            assert frames["DISPUTE_FALLBACK"]["dispute_id"] == dispute.dispute_id
            assert frames.keys() - {"MSG"} == {"DISPUTE_FALLBACK", "DISPUTE", "AGENT_JOINED"}


async def test_an_event_is_no_silence(capsys: pytest.CaptureFixture[str]) -> None:
    async def never() -> AsyncIterator[Message]:
        await asyncio.Event().wait()
        yield  # type: ignore[misc]

    printer = Printer(as_json=True, limit=None)
    now = asyncio.get_running_loop().time()
    printer.last = now - 1000
    printer.show_event({"type": "TYPING"})
    assert printer.last >= now
    assert capsys.readouterr().out == '{"type": "TYPING"}\n'
    printer.last = now - 1000
    with pytest.raises(ReplyTimeout, match="nothing was said for 999 s"):
        await next_message(never(), 999, printer)


def test_events_are_not_for_people() -> None:
    result = CliRunner().invoke(app, ["listen", "--events"])
    assert (result.exit_code, "add --json" in result.stderr) == (2, True)


def assert_connected(line: str, hall: HallProcess) -> None:
    assert re.fullmatch(rf"connected to {hall.url} as @[0-9a-z]{{8}} \(\w+\)\n?", line)
