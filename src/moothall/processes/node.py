"""A node process of a hall: it does as the supervising process orders, and ends with it.

`python -m moothall.processes.node` is not for people. Its arguments are the descriptors that it inherits.
"""

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

import uvloop

from moothall import logs
from moothall.app import App, run
from moothall.errors import UsageError
from moothall.processes.control import (
    MAX_LINE,
    Failed,
    FromNode,
    Gather,
    Gathered,
    Orders,
    Ready,
    Report,
    Reported,
    decode_to_node,
    line,
    settings_of,
)
from moothall.store.supervised import Ends, Supervised

CANNOT_START: Final = 2
CONTROL_FAILED: Final = 70  # the exit code of a node that cannot hear its supervising process (EX_SOFTWARE)
ORPHANED: Final = 75  # of one whose supervising process is gone (EX_TEMPFAIL)


class Control:
    """The node's side of the socket to the supervising process, as `Gathering` of metrics."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._report: Callable[[], bytes] = bytes
        self._asked: dict[int, Callable[[bytes], None]] = {}
        self._numbers = 0

    async def orders(self) -> Orders | None:
        """The first line. None: the supervising process is gone."""
        said = await self._reader.readline()
        if not said:
            return None
        given = decode_to_node(said)
        assert isinstance(given, Orders)  # noqa: S101  # the first line is
        return given

    def say(self, message: FromNode) -> None:
        self._writer.write(line(message))

    async def drain(self) -> None:
        await self._writer.drain()

    def offer(self, text: Callable[[], bytes]) -> None:
        self._report = text

    def ask(self, told: Callable[[bytes], None]) -> None:
        self._numbers += 1
        self._asked[self._numbers] = told
        self.say(Gather(self._numbers))

    async def serve(self) -> None:
        """Answer until the supervising process is gone."""
        while said := await self._reader.readline():
            match decode_to_node(said):
                case Report(number):
                    self.say(Reported(number, self._report().decode()))
                case Gathered(number, text):
                    self._asked.pop(number)(text.encode())


async def main(control_socket: socket.socket, ends: Ends) -> int:
    reader, writer = await asyncio.open_unix_connection(sock=control_socket, limit=MAX_LINE)
    control = Control(reader, writer)
    given = await control.orders()
    if given is None:
        return ORPHANED
    settings = settings_of(given)
    log = logs.configure(settings).bind(node=given.name)
    app = App(settings, log, supervised=Supervised(ends, _orphaned), gathering=control)
    ready: asyncio.Future[App] = asyncio.get_running_loop().create_future()
    ready.add_done_callback(lambda opened: control.say(Ready(opened.result().whereabouts)))
    try:
        failure = await run_heard(run(app, ready), control)
    except UsageError as error:
        await _fail(control, str(error))
        return CANNOT_START
    if failure is not None:
        log.warning("control_failed", exc_info=failure)
        await _fail(control, f"the node could not handle an order of the supervising process: {failure!r}")
        return CONTROL_FAILED
    return 0


async def run_heard(hall: Coroutine[Any, Any, None], control: Control) -> Exception | None:
    """Run the hall until it ends, and answer the supervising process meanwhile.

    If an answer fails, the hall is closed, and the error is returned. The node is started again.
    """
    running = asyncio.create_task(hall)
    serving = asyncio.create_task(control.serve())
    failed: list[Exception] = []

    def look(served: "asyncio.Task[None]") -> None:
        error = None if served.cancelled() else served.exception()
        if isinstance(error, Exception):
            failed.append(error)
            running.cancel()

    serving.add_done_callback(look)
    try:
        await running
    except asyncio.CancelledError:
        if not failed:
            raise
    finally:
        serving.cancel()
    return failed[0] if failed else None


async def _fail(control: Control, reason: str) -> None:
    control.say(Failed(reason))
    with suppress(OSError):
        await control.drain()


def _orphaned() -> None:
    """Another hall may start on the same store and port. What was not acknowledged is not saved."""
    os._exit(ORPHANED)


def start(arguments: list[str]) -> int:
    control, turns, signals, _claim = map(int, arguments)  # the claim on the data directory is only held
    sockets = [socket.socket(fileno=number) for number in (control, turns, signals)]
    for number in map(int, arguments):
        os.set_inheritable(number, False)
    return uvloop.run(main(sockets[0], Ends(*sockets[1:])))


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
