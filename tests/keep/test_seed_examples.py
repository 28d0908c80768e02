"""The Python of seed 004, word for word, and its two test scripts, against a real hall.

Only the port is another: written into the text where the text names it, and made the default where it does not.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall import __version__
from moothall.keep import KeepClient, Packet
from tests.keep.scripted import PATIENCE, scripted
from tests.support.server import HallProcess, environment, running_hall

EXAMPLES = Path(__file__).parents[2] / "examples" / "keep"

EPHEMERAL = """
from keep.client import KeepClient

client = KeepClient("localhost", 9009)
reply = client.send(
    src="bot:your-agent-name",
    dst="server",
    body="your intent here",
)
print(reply.body)  # "done"
"""

PERSISTENT = """
from keep.client import KeepClient

# Stay connected, register identity, receive routed messages
with KeepClient(src="bot:your-agent-name") as client:
    # Register with server (first signed packet registers src)
    client.send(body="hello", dst="server", wait_reply=True)

    # Send to another agent (fire-and-forget)
    client.send(body="coordinate task", dst="bot:other-agent")

    # Listen for incoming routed packets (heartbeats auto-filtered)
    client.listen(lambda p: print(f"From {p.src}: {p.body}"), timeout=30)
"""

DISCOVERY = """
from keep.client import KeepClient

client = KeepClient("localhost", 9009)

# Server info
info = client.discover("info")   # {"version": "0.3.0", "agents_online": N, "uptime_sec": N}

# Who's connected
agents = client.discover_agents() # ["bot:alice", "bot:weather"]

# Scar barter stats
stats = client.discover("stats") # {"scar_exchanges": {...}, "total_packets": N}
"""

CACHING = """
# Save after discovery
KeepClient.cache_endpoint("localhost", 9009, info)

# Reconnect from cache
client = KeepClient.from_cache(src="bot:my-agent")
"""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as hall:
        yield hall


def start(hall: HallProcess, program: str, home: Path) -> subprocess.Popen[str]:
    default = f"('localhost', {hall.keep_port}, None, 10.0, None)"
    patch = f"from keep.client import KeepClient as K; K.__init__.__defaults__ = {default}\n"
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", patch + program.replace("9009", str(hall.keep_port))],
        env=environment(HOME=str(home)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    printed, complaints = process.communicate(timeout=PATIENCE)
    assert (process.returncode, complaints) == (0, "")
    return printed


def test_one_packet(hall: HallProcess, tmp_path: Path) -> None:
    assert output(start(hall, EPHEMERAL, tmp_path)) == "done\n"


def test_agent_to_agent(hall: HallProcess, tmp_path: Path) -> None:
    with KeepClient("127.0.0.1", hall.keep_port, src="bot:other-agent", timeout=PATIENCE) as other:
        other.send("hello", dst="server")
        process = start(hall, PERSISTENT, tmp_path)
        heard: list[Packet] = []

        def answer(packet: Packet) -> None:
            heard.append(packet)
            other.send("on it", dst=packet.src)
            # Whoever registers the name last has it: the connection of the example ends, and with it listen().
            other.send("that is me now", src=packet.src, dst="server")
            other.disconnect()

        other.listen(answer)
    assert output(process) == "From bot:other-agent: on it\n"
    assert [(packet.src, packet.body) for packet in heard] == [("bot:your-agent-name", "coordinate task")]


def test_discovery_and_the_cache(hall: HallProcess, tmp_path: Path) -> None:
    show = "\nimport json; print(json.dumps([info, agents, stats, client.src, client.port]))"
    printed = json.loads(output(start(hall, DISCOVERY + CACHING + show, tmp_path)))
    info, agents, stats, src, port = printed
    assert info["version"] == __version__
    assert info["agents_online"] >= 1
    assert info["uptime_sec"] >= 0
    assert "bot:keep-client" in agents
    assert stats["total_packets"] >= 3
    assert isinstance(stats["scar_exchanges"], dict)
    assert (src, port) == ("bot:my-agent", hall.keep_port)
    (entry,) = json.loads((tmp_path / ".keep" / "endpoints.json").read_text())["endpoints"]
    assert (entry["host"], entry["port"], entry["version"]) == ("localhost", hall.keep_port, __version__)


@pytest.mark.parametrize(
    ("script", "promise"), [("test_signed_send.py", "reply: done\n"), ("test_send.py", "timeout: ")]
)
def test_the_scripts_of_its_testing_section(hall: HallProcess, script: str, promise: str) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=EXAMPLES,
        env=environment(KEEP_PORT=str(hall.keep_port)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(promise)


def test_the_scripts_fail_when_the_promise_is_broken() -> None:
    """An echo answers everything, with the packet itself."""
    with scripted(lambda packet: [packet]) as echo:
        for script in ("test_signed_send.py", "test_send.py"):
            result = subprocess.run(
                [sys.executable, script],
                cwd=EXAMPLES,
                env=environment(KEEP_PORT=str(echo.port)),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert result.returncode == 1
            assert "expected" in result.stderr
