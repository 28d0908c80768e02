import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner, Result
from websockets.asyncio.server import ServerConnection, serve

from moothall import Agent, Identity, Message, PrivateKey
from moothall.cli import _exits
from moothall.cli.main import app
from moothall.identity import load, save
from tests.support.server import PROGRAM, HallProcess, environment, running_hall

PATIENCE: Final = 15.0
ALICE: Final = PrivateKey(bytes(range(32)))


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as hall:
        yield hall


class Listener:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._heard: asyncio.Queue[Message] = asyncio.Queue()
        agent.on_message()(self._hear)

    async def _hear(self, message: Message) -> None:
        self._heard.put_nowait(message)

    async def next(self) -> Message:
        async with asyncio.timeout(PATIENCE):
            return await self._heard.get()


@asynccontextmanager
async def listener(hall: HallProcess) -> AsyncIterator[Listener]:
    agent = Agent("bob", channels=["#general"])
    ears = Listener(agent)
    async with agent.connected(hall.url):
        yield ears


async def send(*arguments: str, typed: str | bytes | None = None) -> Result:
    """`moothall send`, on a thread of its own because it has its own event loop."""
    result = await asyncio.to_thread(CliRunner().invoke, app, ["send", *arguments], input=typed)
    assert "Traceback" not in result.output
    return result


async def said(hall: HallProcess, *arguments: str, typed: str | bytes | None = None) -> Message:
    """What others hear of a `send` that succeeded."""
    async with listener(hall) as bob:
        result = await send(*arguments, typed=typed)
        assert (result.exit_code, result.output) == (0, "")
        return await bob.next()


async def complaint(code: int, *arguments: str) -> str:
    result = await send(*arguments)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


# what arrives


@pytest.mark.parametrize(
    "order",
    [
        ("{url}", "#general", "hello"),
        ("#general", "hello", "--url", "{url}"),
        ("-n", "carol", "{url}", "general", "hello"),
        ("--name=carol", "-u{url}", "general", "hello"),
        ("--timeout", "9", "{url}", "general", "hello"),
    ],
)
async def test_the_address_may_come_first(hall: HallProcess, order: tuple[str, ...]) -> None:
    message = await said(hall, *(word.replace("{url}", hall.url) for word in order))
    assert (message.to, message.content) == ("#general", "hello")
    assert message.sender_name == ("carol" if any("carol" in word for word in order) else "agent")


async def test_the_address_comes_from_the_environment(
    hall: HallProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", hall.url)
    assert (
        await said(hall, "general", "see", "https://example.org:443/x")
    ).content == "see https://example.org:443/x"


async def test_markers_are_not_sent(hall: HallProcess) -> None:
    assert (await said(hall, "--url", hall.url, "general", "hello @@joy:0.6@@")).content == "hello"
    assert "only markers" in await complaint(_exits.USAGE, "--url", hall.url, "general", "@@wake@@")


async def test_an_address_after_the_channel_is_part_of_the_text(hall: HallProcess) -> None:
    assert (await said(hall, hall.url, "general", "ws://example.org")).content == "ws://example.org"


async def test_a_text_that_starts_with_a_dash(hall: HallProcess) -> None:
    assert (await said(hall, hall.url, "general", "--", "-5", "degrees")).content == "-5 degrees"


async def test_standard_input_is_one_message(hall: HallProcess) -> None:
    assert (await said(hall, hall.url, "general", "-", typed="two\nlines\n")).content == "two\nlines"


async def test_each_line_can_be_a_message(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        result = await send(hall.url, "general", "-", "--lines", typed="one\r\n\ntwo")
        assert result.exit_code == 0
        assert [(await bob.next()).content, (await bob.next()).content] == ["one", "two"]


async def test_bytes_that_are_no_text_do_not_stop_the_rest(hall: HallProcess) -> None:
    assert (await said(hall, hall.url, "general", "-", typed=b"caf\xe9 ok")).content == "caf� ok"
    assert (await said(hall, hall.url, "general", "caf\udce9 ok")).content == "caf? ok"


async def test_a_text_that_is_too_long_for_the_hall_is_refused_before_it_is_sent(hall: HallProcess) -> None:
    """A frame over `max_frame` would end the connection without a reason that a person understands."""
    for text in ("x" * 4097, "x" * 300_000):
        result = await send(hall.url, "general", "-", typed=text)
        assert result.exit_code == _exits.REFUSED
        assert "at most 4096 characters" in result.stderr


async def test_a_direct_message(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        result = await send(hall.url, bob.agent.address, "psst")
        assert result.exit_code == 0
        message = await bob.next()
        assert message.is_dm
        assert message.content == "psst"


async def test_it_is_quiet_unless_asked(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        quiet = await send(hall.url, "general", "hello")
        assert (quiet.exit_code, quiet.output) == (0, "")
        await bob.next()
        result = await send(hall.url, "general", "hello", "-v", "-n", "alice")
        message = await bob.next()
        told = f"sent to #general as {message.sender} (alice), id {message.id}\n"
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", told)


async def test_json_tells_the_id(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        result = await send(hall.url, "general", "hello", "--json")
        assert json.loads(result.stdout) == {"to": "#general", "msg_id": (await bob.next()).id}


async def test_an_identity_is_used(hall: HallProcess, tmp_path: Path) -> None:
    path = tmp_path / "alice.json"
    save(Identity(ALICE, name="alice"), path)
    async with listener(hall) as bob:
        for _ in range(2):
            result = await send(hall.url, "general", "hello", "-i", str(path))
            assert (result.exit_code, result.output) == (0, "")
        for message in (await bob.next(), await bob.next()):
            assert message.sender == f"@{load(path).public.agent_id()}"
            assert message.sender_name == "alice"
            assert message.verified


# what does not


async def test_a_refusal_is_exit_code_4(hall: HallProcess) -> None:
    assert "CHANNEL_NOT_FOUND" in await complaint(4, hall.url, "nowhere", "hello")
    assert "moothall agents" in await complaint(4, hall.url, "@00000000", "hello")


async def test_no_connection_is_exit_code_3() -> None:
    assert "moothall serve" in await complaint(3, "ws://127.0.0.1:1", "general", "hello")


async def test_silence_is_exit_code_5() -> None:
    async with serve(lambda connection: connection.wait_closed(), "127.0.0.1", 0) as mute:
        url = f"ws://127.0.0.1:{mute.sockets[0].getsockname()[1]}"
        await complaint(5, url, "general", "hello", "--timeout", "0.2")


async def test_what_a_hostile_hall_calls_the_sender_does_not_steer_the_terminal() -> None:
    async def welcome(connection: ServerConnection) -> None:
        async for frame in connection:
            asked = json.loads(frame)
            reply = {
                "IDENTIFY": {"type": "WELCOME", "agent_id": "@a\x1b[2J\nb", "name": "c", "server": "d"},
                "PING": {"type": "PONG"},
            }.get(asked["type"], {"type": "ACK", "msg_id": "1\x1b[2J"})
            await connection.send(json.dumps({**reply, "ts": 1, "ref": asked.get("ref")}))

    async with serve(welcome, "127.0.0.1", 0) as hostile:
        url = f"ws://127.0.0.1:{hostile.sockets[0].getsockname()[1]}"
        result = await send("-v", url, "@0a1b2c3d", "hello")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("sent to @0a1b2c3d as @a[2J b (")
    assert len(result.stderr.splitlines()) == 1


async def test_a_key_file_that_is_open_to_others(hall: HallProcess, tmp_path: Path) -> None:
    path = tmp_path / "alice.json"
    save(Identity(ALICE), path)
    path.chmod(0o644)
    assert f"chmod 600 {path}" in await complaint(2, hall.url, "general", "hello", "-i", str(path))


async def test_a_typo_makes_no_key(hall: HallProcess, tmp_path: Path) -> None:
    path = tmp_path / "al ice.json"
    refused = await complaint(2, hall.url, "general", "hello", "-i", str(path))
    assert f"`moothall identity new '{path}'`" in refused
    assert not path.exists()


async def test_a_receipt_names_the_recipients(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        result = await send(hall.url, bob.agent.address, "hello", "--receipt")
        assert (result.exit_code, result.stderr) == (0, "")
        status, recipient, reason = result.stdout.split()
        assert status in ("DELIVERED", "SEEN")
        assert (recipient, reason) == (bob.agent.address, "-")


async def test_a_receipt_as_json(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        result = await send(hall.url, bob.agent.address, "hello", "--receipt", "--json", "-v")
        facts = json.loads(result.stdout)
        assert facts["msg_id"] == (await bob.next()).id
        assert facts["msg_id"] in result.stderr
        assert (facts["to"], facts["recipients"], facts["delivered"]) == (bob.agent.address, 1, True)
        assert facts["statuses"].keys() == {bob.agent.address}
        assert (facts["counts"], facts["reasons"]) == ({}, {})


async def test_a_receipt_of_a_message_without_recipients(hall: HallProcess) -> None:
    result = await send(hall.url, "agents", "hello", "--receipt")
    assert result.exit_code == _exits.FAILED
    assert result.stdout.startswith("UNDELIVERED  0 of 0 in #agents  No other agent is in the channel")
    assert result.stderr.startswith("error: not every recipient got it")


async def test_nothing_to_say() -> None:
    result = await send("general", "-", typed="\n")
    assert result.exit_code == 2
    assert "empty" in result.stderr


async def test_ctrl_c_ends_a_send_that_waits_for_lines(hall: HallProcess) -> None:
    async with listener(hall) as bob:
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *("send", hall.url, "general", "-", "--lines"),
            env=environment(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(b"first\n")
        assert (await bob.next()).content == "first"
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            output, errors = await process.communicate()
        assert (process.returncode, output, errors) == (130, b"", b"")
