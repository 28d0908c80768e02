"""`serve --nodes`: one hall as several node processes on one machine, behind one port.

The supervising process keeps the store, gives the turns to write to it, holds the ports, and starts the nodes. It
serves no agents itself. A node that dies takes its own connections with it and is started again. The nodes end when
the supervising process is gone, however it ended (see `node`).
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from secrets import token_hex
from time import monotonic
from typing import Final

from moothall.bus.embedded import USER, EmbeddedNats
from moothall.bus.opening import name_node
from moothall.errors import UsageError
from moothall.gateways.gathering import merged
from moothall.gateways.stopping import stop_at_signals
from moothall.gateways.whereabouts import Whereabouts
from moothall.hall.outside import Log
from moothall.processes.control import orders
from moothall.processes.ports import HeldPort
from moothall.processes.process import GRACE, NodeProcess
from moothall.settings import Settings
from moothall.store.files import DataDirectory
from moothall.store.opening import keep_store, read_hall_key
from moothall.store.turn_keeper import TurnKeeper

BUS_FOLDER: Final = "bus"  # in the data directory: what the nats-server needs while it runs
NAME_BYTES: Final = 3  # that tell the processes of one node apart
FIRST_PAUSE: Final = 0.1  # seconds before a node that died is started again
LONGEST_PAUSE: Final = 30.0  # each pause is twice the one before
HEALTHY: Final = 60.0  # seconds of life after which the next pause is the first again


class Supervisor:
    def __init__(self, settings: Settings, nodes: int, log: Log) -> None:
        self._settings = settings
        prefix = f"{name_node(settings)}-" if settings.bus or settings.node_name else "node"
        self._names = [f"{prefix}{number}" for number in range(1, nodes + 1)]
        self._log = log
        self._processes: dict[str, NodeProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._gathering: set[asyncio.Task[None]] = set()
        self._go = asyncio.Event()
        self._stopping = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Whereabouts]:
        """All nodes are ready inside. They have ended afterwards. Raises UsageError if one cannot start."""
        async with AsyncExitStack() as opened:
            directory = DataDirectory(self._settings.data_dir, self._log)
            directory.claim()
            opened.callback(directory.release)
            kept = keep_store(directory, self._settings.store, self._log)
            opened.callback(kept.close)
            # Before the nodes, which would all make one.
            read_hall_key(directory, self._settings.store, self._settings.store_secret, os.urandom, self._log)
            settings = await self._open_bus(opened, directory, self._hold_ports(opened))
            self._keeper = TurnKeeper(kept.changed, self._overdue, self._log)
            opened.push_async_callback(self._stop)
            whereabouts = await self._start(directory, settings)
            yield whereabouts

    def _hold_ports(self, opened: AsyncExitStack) -> Settings:
        settings = self._settings
        port = HeldPort(settings.host, settings.port, advice="; choose another with --port")
        opened.callback(port.close)
        settings = replace(settings, port=port.port)
        if settings.keep:
            keep = HeldPort(
                settings.keep_host or settings.host,
                settings.keep_port,
                purpose=" for keep clients",
                advice="; choose another with --keep-port, or leave them out with --no-keep",
            )
            opened.callback(keep.close)
            settings = replace(settings, keep_port=keep.port)
        return settings

    async def _open_bus(
        self, opened: AsyncExitStack, directory: DataDirectory, settings: Settings
    ) -> Settings:
        """A nats-server of our own, unless the operator names one."""
        if settings.bus:
            return settings
        bus = EmbeddedNats(directory.path / BUS_FOLDER, self._log)
        await bus.start()
        opened.push_async_callback(bus.stop)
        return replace(settings, bus=(bus.url,), bus_user=USER, bus_password=bus.access.password)

    async def _start(self, directory: DataDirectory, settings: Settings) -> Whereabouts:
        """The first node opens alone: it finds what is wrong with the settings, and says it once."""
        now = asyncio.Event()
        now.set()
        # One key is one peer: the first node has the connections to the mesh's network.
        alone = replace(settings, mesh_port=None, mesh_peers=())
        first, *others = [
            self._supervised(name, directory, alone if number else settings, self._go if number else now)
            for number, name in enumerate(self._names)
        ]
        whereabouts = await _opened(first)
        self._go.set()
        await asyncio.gather(*map(_opened, others))
        return whereabouts

    def _supervised(
        self, name: str, directory: DataDirectory, settings: Settings, go: asyncio.Event
    ) -> NodeProcess:
        process = self._new_process(name, directory, settings, go)
        self._tasks.add(asyncio.create_task(self._supervise(process, directory, settings)))
        return process

    def _note_ready(self, process: NodeProcess, ready: "asyncio.Future[Whereabouts | None]") -> None:
        if ready.result() is not None:
            self._log.info("node_ready", node=process.name, pid=process.pid)

    def _new_process(
        self, name: str, directory: DataDirectory, settings: Settings, go: asyncio.Event
    ) -> NodeProcess:
        # On the bus, each process is another node: the others see the end of the one before, and none of its agents
        # seems to be back.
        own = replace(settings, node_name=f"{name}-{token_hex(NAME_BYTES)}")
        process = NodeProcess(orders(name, own), self._keeper, directory.claimed, go, self._gather)
        process.ready.add_done_callback(partial(self._note_ready, process))
        self._processes[name] = process
        return process

    async def _supervise(self, process: NodeProcess, directory: DataDirectory, settings: Settings) -> None:
        """Run a node, and again when it has ended, until this process is to end."""
        pause = FIRST_PAUSE
        was_ready = False
        while True:
            began = monotonic()
            code = await process.run()
            was_ready = was_ready or process.was_ready
            if self._stopping.is_set() or not was_ready:
                return
            if monotonic() - began > HEALTHY:
                pause = FIRST_PAUSE
            self._log.warning(
                "node_ended", node=process.name, code=code, reason=process.reason, again_in=pause
            )
            if await self._stopped_within(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE)
            process = self._new_process(process.name, directory, settings, self._go)

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True

    async def _stop(self) -> None:
        """End the nodes: each says goodbye to its agents. One that takes too long is killed."""
        self._stopping.set()
        self._signal(signal.SIGTERM)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=GRACE)
            if late:
                self._signal(signal.SIGKILL)
                await asyncio.wait(late)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._processes.values():
            process.signal(number)

    def _overdue(self, name: str) -> None:
        """All others wait for this node, which does not go on."""
        self._log.warning("node_killed", node=name, reason="it kept the store from the other nodes")
        self._processes[name].signal(signal.SIGKILL)

    # -- metrics -----------------------------------------------------------------------------------

    def _gather(self, asking: NodeProcess, number: int) -> None:
        task = asyncio.create_task(self._tell_all(asking, number))
        self._gathering.add(task)
        task.add_done_callback(self._gathering.discard)

    async def _tell_all(self, asking: NodeProcess, number: int) -> None:
        ready = [process for process in self._processes.values() if process.is_ready]
        texts: Sequence[str] = await asyncio.gather(*(process.report() for process in ready))
        asking.tell(number, merged({process.name: text for process, text in zip(ready, texts, strict=True)}))


async def _opened(process: NodeProcess) -> Whereabouts:
    whereabouts = await process.ready
    if whereabouts is None:
        raise UsageError(process.reason or f"{process.name} could not start: the log says why")
    return whereabouts


async def supervise(settings: Settings, nodes: int, log: Log, ready: Callable[[Whereabouts], None]) -> None:
    """Run a hall of several nodes until SIGTERM or SIGINT, or until its terminal is closed. `ready` is called when
    all nodes serve agents."""
    stop = stop_at_signals()
    async with Supervisor(settings, nodes, log).running() as whereabouts:
        ready(whereabouts)
        await stop.wait()
        log.info("server_stop")
