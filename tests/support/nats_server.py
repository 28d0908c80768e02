"""A real nats-server, with JetStream, on a free port of this machine. It can be killed and started again."""

import os
import re
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from signal import Signals
from time import monotonic, sleep
from types import TracebackType
from typing import Final, Self

PROGRAM: Final = Path(sys.executable).with_name("nats-server")
PATIENCE: Final = 30.0  # seconds until it must be ready


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class NatsServer:
    """`config` is added to its configuration file."""

    def __init__(
        self, folder: Path, config: str = "", port: int | None = None, address: str = "127.0.0.1"
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.address = address
        self.port = port or free_port()
        self._config = folder / "nats.conf"
        self._log = folder / "nats.log"
        self._config.write_text(
            f'listen: "{address}:{self.port}"\nlog_file: "{self._log}"\n'
            f'jetstream {{ store_dir: "{folder}" }}\n{config}\n'
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{self.address}:{self.port}"

    def start(self) -> None:
        self._log.unlink(missing_ok=True)
        self._process = subprocess.Popen([PROGRAM, "-c", self._config], stderr=subprocess.DEVNULL)
        end = monotonic() + PATIENCE
        while not re.search("Server is ready", self._text()):
            assert self._process.poll() is None, self._text()
            assert monotonic() < end, self._text()
            sleep(0.01)

    def signal(self, number: Signals) -> None:
        """After SIGSTOP, wait until it has stopped: on a busy machine it may go on for a moment."""
        assert self._process is not None
        self._process.send_signal(number)
        if number == Signals.SIGSTOP:
            os.waitpid(self._process.pid, os.WUNTRACED)

    def kill(self) -> None:
        """As by `kill -9`. What it had on disk stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Remove what it had on disk."""
        assert self._process is None
        shutil.rmtree(self.folder / "jetstream", ignore_errors=True)

    def _text(self) -> str:
        with suppress(FileNotFoundError):
            return self._log.read_text()
        return ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()


def nats_cluster(folder: Path, count: int) -> list[NatsServer]:
    """Servers that are one NATS. They have not been started."""
    routes = [f"nats://127.0.0.1:{free_port()}" for _ in range(count)]
    known = ", ".join(f'"{route}"' for route in routes)
    return [
        NatsServer(
            folder / f"nats{number}",
            f"server_name: nats{number}\n"
            f'cluster {{ name: hall, listen: "{route.removeprefix("nats://")}", routes: [{known}] }}',
        )
        for number, route in enumerate(routes)
    ]
