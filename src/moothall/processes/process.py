"""One node process as the supervising process sees it: started, heard of, told to end."""

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from moothall.gateways.whereabouts import Whereabouts
from moothall.processes.control import (
    MAX_LINE,
    Failed,
    Gather,
    Gathered,
    Orders,
    Ready,
    Report,
    Reported,
    ToNode,
    decode_from_node,
    line,
)
from moothall.store.supervised import line as new_line
from moothall.store.turn_keeper import TurnKeeper

# A node closes its connections, and finishes what is under way.
GRACE: Final = 20.0  # seconds to end after SIGTERM
CANNOT_START: Final = 71  # in place of an exit code (EX_OSERR)
REPORT_SECONDS: Final = 5.0


class NodeProcess:
    """It is started once. The next process of the node is another object."""

    def __init__(
        self,
        orders: Orders,
        keeper: TurnKeeper,
        claim: int,
        go: asyncio.Event,
        gather: Callable[["NodeProcess", int], None],
    ) -> None:
        """`claim` is a descriptor that keeps the data directory claimed. The node opens when `go` is set. It calls
        `gather` to ask for the metrics of all nodes."""
        self.name = orders.name
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[Whereabouts | None] = loop.create_future()  # None: it ended before
        self.reason = ""  # why it could not start, or has ended, if it said so
        self._orders = orders
        self._keeper = keeper
        self._claim = claim
        self._go = go
        self._gather = gather
        self._reports: dict[int, asyncio.Future[str]] = {}
        self._numbers = 0
        self._is_over = False
        self._writer: asyncio.StreamWriter | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._early: signal.Signals | None = None  # a signal from before it was started

    async def run(self) -> int:
        """Start it, and return its exit code when it has ended; negative is a signal."""
        try:
            return await self._run()
        except OSError as error:
            self.reason = f"the process cannot be started: {error.strerror}"
            return CANNOT_START
        finally:
            self._is_over = True
            for report in self._reports.values():
                if not report.done():
                    report.set_result("")
            if not self.ready.done():
                self.ready.set_result(None)

    async def _run(self) -> int:
        ours, theirs = socket.socketpair()
        our_ends, their_ends = new_line()
        inherited = (theirs.fileno(), their_ends.turns.fileno(), their_ends.signals.fileno(), self._claim)
        try:
            # A session of its own: Ctrl-C in a terminal is for the supervising process, which ends all in order.
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-m",
                "moothall.processes.node",
                *map(str, inherited),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=inherited,
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            our_ends.close()
            raise
        finally:
            theirs.close()
            their_ends.close()
        self._process = process
        if self._early is not None:
            self.signal(self._early)
        await self._keeper.admit(self.name, our_ends)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours, limit=MAX_LINE)
        giving = asyncio.create_task(self._give_orders())
        hearing = asyncio.create_task(self._hear(reader))
        try:
            return await process.wait()
        finally:
            giving.cancel()
            await hearing
            self._writer.close()

    @property
    def is_ready(self) -> bool:
        """True while it serves agents."""
        return not self._is_over and self.was_ready

    @property
    def was_ready(self) -> bool:
        return self.ready.done() and self.ready.result() is not None

    @property
    def pid(self) -> int | None:
        """None: it was not started yet."""
        return None if self._process is None else self._process.pid

    def signal(self, number: signal.Signals) -> None:
        if self._process is None:
            self._early = number
        else:
            with suppress(ProcessLookupError):  # it has ended
                self._process.send_signal(number)

    async def report(self) -> str:
        """Its metrics; nothing if it does not tell them in time."""
        self._numbers += 1
        number = self._numbers
        report: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reports[number] = report
        self._say(Report(number))
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                return await report
        except TimeoutError:
            return ""
        finally:
            del self._reports[number]

    def tell(self, number: int, text: str) -> None:
        """The metrics of all nodes, which it has asked for."""
        self._say(Gathered(number, text))

    async def _give_orders(self) -> None:
        await self._go.wait()
        self._say(self._orders)

    def _say(self, message: ToNode) -> None:
        if self._writer is not None:
            self._writer.write(line(message))

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):  # it was killed
            while said := await reader.readline():
                match decode_from_node(said):
                    case Ready(whereabouts):
                        self.ready.set_result(whereabouts)
                    case Failed(reason):
                        self.reason = reason
                    case Reported(number, text):
                        if number in self._reports:  # in time
                            self._reports[number].set_result(text)
                    case Gather(number):
                        self._gather(self, number)
