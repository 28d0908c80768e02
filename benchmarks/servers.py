"""The servers under test: how each is started, when it is ready, and that it is gone afterwards."""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.build import SLOW_DISK

ROOT: Final = Path(__file__).parent.parent
SCRIPTS: Final = Path(sys.executable).parent
READY_WITHIN: Final = 20.0  # seconds
GONE_WITHIN: Final = 10.0
# Nothing else of the caller's environment: a MOOTHALL_ setting or a secret to redact would change the result.
HOW_TO_INSTALL: Final = {
    "redis-server": "Debian, Ubuntu: apt-get install redis-server",
    "nats-server": "pip install --require-hashes -r requirements/bench.lock",
}
PASSED_ON: Final = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


class ServerFailed(Exception):
    """A server could not be started."""


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    wire: str
    command: Callable[[int, Path], list[str]]  # from the port and a folder of its own
    is_ready: Callable[[int], bool]
    settings: tuple[tuple[str, str], ...] = ()
    is_hall: bool = False  # the program is `moothall`, of any environment


@dataclass(frozen=True, slots=True)
class RunningServer:
    server: Server
    port: int
    pid: int
    folder: Path  # all that it writes


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _relay(port: int, _folder: Path) -> list[str]:
    return [sys.executable, str(ROOT / "benchmarks" / "relay.py"), str(port)]


def _nats(port: int, _folder: Path) -> list[str]:
    return ["nats-server", "--addr", "127.0.0.1", "--port", str(port)]


def _redis(port: int, _folder: Path) -> list[str]:
    """Nothing is written to the disk. Protected mode refuses the generator, which comes from 127.0.0.2 and up."""
    place = ["--bind", "127.0.0.1", "--port", str(port), "--protected-mode", "no"]
    return ["redis-server", *place, "--save", "", "--appendonly", "no"]


def _moothall(port: int, folder: Path) -> list[str]:
    place = ["--host", "127.0.0.1", "--port", str(port), "--data-dir", str(folder / "hall")]
    return ["moothall", "serve", *place, "--no-keep", "--no-limits", "--log-format", "json"]


def _keep(port: int, folder: Path) -> list[str]:
    """The same hall, on the port of its keep clients."""
    place = ["--host", "127.0.0.1", "--port", str(free_port()), "--keep-port", str(port)]
    return [
        *("moothall", "serve", *place, "--data-dir", str(folder / "hall")),
        *("--no-limits", "--log-format", "json"),
    ]


def _echo(port: int, _folder: Path) -> list[str]:
    return [sys.executable, "-m", "tests.support.echo", str(port)]


def installed(program: str, scripts: Path = SCRIPTS) -> str:
    """Beside this Python first, or in the scripts of another environment, where `pip install` puts it."""
    path = shutil.which(program, path=str(scripts)) or shutil.which(program)
    if path is None:
        raise ServerFailed(f"{program} is not installed here. {HOW_TO_INSTALL.get(program, '')}".strip())
    return path


# Idle prompts would be deliveries that no workload counts.
_SETTINGS: Final = (("MOOTHALL_IDLE_PROMPTS", "false"),)

SERVERS: Final = {
    server.name: server
    for server in (
        Server("relay", "agentchat", _relay, _accepts),
        Server("nats", "nats", _nats, _accepts),
        Server("redis", "redis", _redis, _accepts),
        Server("moothall", "agentchat", _moothall, is_healthy, _SETTINGS, is_hall=True),
        Server(
            "moothall-slow-disk",
            "agentchat",
            _moothall,
            is_healthy,
            (*_SETTINGS, ("LD_PRELOAD", str(SLOW_DISK)), ("SLOW_DISK_US", "4000")),
            is_hall=True,
        ),
        Server("mesh", "mesh", _moothall, is_healthy, _SETTINGS, is_hall=True),
        Server("keep", "keep", _keep, _accepts, _SETTINGS, is_hall=True),
        Server("echo", "agentchat", _echo, _accepts, (("PYTHONPATH", str(ROOT)),)),
    )
}


@contextmanager
def running(server: Server, cpus: set[int], disk: Path, scripts: Path = SCRIPTS) -> Iterator[RunningServer]:
    """A fresh process of this server, on these processors, with its files in a folder of this disk."""
    with tempfile.TemporaryDirectory(prefix="moothall-bench-", dir=disk) as name:
        folder = Path(name)
        port = free_port()
        program, *arguments = server.command(port, folder)
        command = [installed(program, scripts), *arguments]
        log = folder / "log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={key: os.environ[key] for key in PASSED_ON if key in os.environ} | dict(server.settings),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: os.sched_setaffinity(0, cpus),
            )
        try:
            _wait_until_ready(server, port, process, log)
            yield RunningServer(server, port, process.pid, folder)
        finally:
            _stop(process)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_ready(server: Server, port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN
    while not server.is_ready(port):
        if process.poll() is not None:
            raise ServerFailed(f"{server.name} did not start: {_last_line(log)}")
        if time.monotonic() > deadline:
            raise ServerFailed(f"{server.name} was not ready after {READY_WITHIN:.0f} s: {_last_line(log)}")
        time.sleep(0.05)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(GONE_WITHIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
