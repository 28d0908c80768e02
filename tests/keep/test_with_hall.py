"""The SDK and the command line against a real hall, and the programs of docs/keep-sdk.md."""

import asyncio
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from moothall.keep import AsyncKeepClient, KeepClient, Packet, aio
from tests.keep.scripted import PATIENCE
from tests.support.server import HallProcess, environment, run_moothall, running_hall
from tests.support.sockets import turn

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "keep-sdk.md"
# Marked `py`: unlike the programs of the other pages, these talk with port 9009.
PROGRAMS = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as hall:
        yield hall


def client(hall: HallProcess, src: str) -> KeepClient:
    return KeepClient("127.0.0.1", hall.keep_port, timeout=PATIENCE, src=src)


def test_messages_errors_and_answers(hall: HallProcess) -> None:
    with client(hall, "bot:alice") as alice, client(hall, "bot:bob") as bob:
        for agent in (alice, bob):
            agent.send("hello")
        assert {"bot:alice", "bot:bob"} <= set(alice.discover_agents())
        alice.send("to nobody", dst="bot:nobody", msg_id="m-1")
        assert alice.deliver("a question", "bot:bob", msg_id="m-2") is None
        heard: list[Packet] = []

        def answer(packet: Packet) -> None:
            heard.append(packet)
            bob.send("an answer", dst=packet.src, msg_id=packet.id)
            bob.disconnect()

        bob.listen(answer)
        assert [(packet.src, packet.body) for packet in heard] == [("bot:alice", "a question")]
        news: list[Packet] = []

        def note(packet: Packet) -> None:
            news.append(packet)
            if len(news) == 2:
                alice.disconnect()

        alice.listen(note)
        assert [(packet.id, packet.body) for packet in news] == [
            ("m-1", "error:offline"),
            ("m-2", "an answer"),
        ]


def test_threads_that_share_a_connection_each_get_their_own_answer(hall: HallProcess) -> None:
    with client(hall, "bot:busy") as busy, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: busy.send("x", msg_id=f"t-{number}"), range(200)))
    assert [answer.id for answer in answers if answer] == [f"t-{number}" for number in range(200)]


async def test_names_are_back_after_a_restart_of_the_hall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(aio, "LONGEST_PAUSE", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with running_hall(tmp_path, "--keep-port", str(port)) as hall:
        async with AsyncKeepClient("127.0.0.1", port, timeout=PATIENCE, src="bot:steady") as steady:
            await steady.send("hello")
            await steady.send("hello", src="bot:second-name")
            await asyncio.to_thread(hall.kill)
            await asyncio.to_thread(hall.restart)
            messages = aiter(steady)
            async with AsyncKeepClient("127.0.0.1", port, timeout=PATIENCE, src="bot:other") as other:
                for name in ("bot:steady", "bot:second-name"):
                    while await other.deliver("are you back?", name) is not None:
                        await turn()  # every round is a question to the hall
                    message = await anext(messages)
                    assert (message.dst, message.src, message.verified) == (name, "bot:other", True)


def test_the_command_line(hall: HallProcess, tmp_path: Path) -> None:
    port = ("--port", str(hall.keep_port))
    with client(hall, "bot:carol") as carol:
        carol.send("hello")
        listed = run_moothall(tmp_path, "keep", "agents", *port, "--json")
        assert "bot:carol" in json.loads(listed.stdout)
        sent = run_moothall(tmp_path, "keep", "send", "bot:carol", "hi", *port, "--wait", "0")
        assert (sent.returncode, sent.stdout) == (0, "sent\n")
        heard: list[str] = []

        def note(packet: Packet) -> None:
            heard.append(packet.body)
            carol.disconnect()

        carol.listen(note)
        assert heard == ["hi"]
    offline = run_moothall(tmp_path, "keep", "send", "bot:nobody", "hi", *port)
    assert (offline.returncode, offline.stdout) == (1, "")
    assert "error:offline" in offline.stderr
    info = json.loads(run_moothall(tmp_path, "keep", "discover", *port).stdout)
    assert info["agents_online"] >= 0


# docs/keep-sdk.md


def start(program: str, hall: HallProcess, folder: Path) -> subprocess.Popen[str]:
    path = folder / "program.py"
    path.write_text(
        "from moothall.keep.client import PacketClient\n"
        "from moothall.keep import AsyncKeepClient\n"
        f"PacketClient.__init__.__defaults__ = ('localhost', {hall.keep_port}, None, 10.0, None)\n"
        f"AsyncKeepClient.__init__.__defaults__ = ('localhost', {hall.keep_port}, None, 10.0, None)\n"
        + program.replace("9009", str(hall.keep_port))
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("number", "printed"), [(0, "done\n"), (1, "server error:offline\n"), (2, "error:offline\n")]
)
def test_the_scripts_of_the_page_print_what_they_promise(
    hall: HallProcess, tmp_path: Path, number: int, printed: str
) -> None:
    process = start(PROGRAMS[number], hall, tmp_path)
    assert process.communicate(timeout=PATIENCE) == (printed, "")


def test_the_agent_of_the_page_answers(hall: HallProcess, tmp_path: Path) -> None:
    process = start(PROGRAMS[3], hall, tmp_path)
    try:
        with client(hall, "bot:tourist") as tourist:
            answer = tourist.deliver("weather?", "bot:weather", wait=PATIENCE)
            while answer is not None and answer.body == "error:offline":  # it has not started yet
                answer = tourist.deliver("weather?", "bot:weather", wait=PATIENCE)
        assert answer is not None
        assert answer.body == "sunny, bot:tourist"
        assert (tmp_path / "weather.pem").exists()
    finally:
        process.kill()
        process.communicate()
    assert len(PROGRAMS) == 4
