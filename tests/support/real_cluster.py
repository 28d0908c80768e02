"""A hall of several nodes: real processes, with a real NATS and a real PostgreSQL, on loopback or on machines of
their own (`namespaces`)."""

import asyncio
import json
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.agentchat import AgentChat, Refused
from tests.support.namespaces import Machine
from tests.support.server import ADMIN_KEY, PATIENCE, HallProcess

LOOPBACK: Final = "127.0.0.1"
LOOK_SECONDS: Final = 0.05


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
    """One node."""

    start_seconds = 4 * PATIENCE  # several start at once

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
                await asyncio.sleep(LOOK_SECONDS)

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
        has_limits: bool = False,
    ) -> None:
        if not has_limits:
            flags = ("--no-limits", *flags)
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
            self.nodes.append(Node(name, folder / name, *flags, environment=environment, machine=machine))

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
        """Until an agent of each node sees those of all others."""
        async with AsyncExitStack() as stack, asyncio.timeout(4 * PATIENCE):
            probes = [await stack.enter_async_context(await _probe(node)) for node in self.nodes]
            ids = [probe.agent_id for probe in probes]
            for probe in probes:
                while not await _sees(probe, ids):  # noqa: ASYNC110  # another process
                    await asyncio.sleep(LOOK_SECONDS)


async def listed(asking: AgentChat, address: str) -> dict[str, Any]:
    """The agent with this address, when the node of the one that asks knows it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found: list[dict[str, Any]] = (await asking.ask("AGENTS", type="LIST_AGENTS", agents=[address]))[
                "list"
            ]
            if found:
                return found[0]
            await asyncio.sleep(LOOK_SECONDS)


async def _probe(node: Node) -> AgentChat:
    while True:
        try:
            return await AgentChat.connect(node.url, "probe")
        except Refused as refused:
            if refused.code != "UNAVAILABLE":
                raise
            await asyncio.sleep(LOOK_SECONDS)


async def _sees(probe: AgentChat, ids: list[str]) -> bool:
    listed = (await probe.ask("AGENTS", type="LIST_AGENTS", agents=ids))["list"]
    return len(listed) == len(ids)
