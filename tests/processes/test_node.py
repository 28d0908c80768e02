"""A node process that cannot hear its supervising process any more: it ends, and says why."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.processes.control import MAX_LINE, Report, Reported, decode_from_node, line
from moothall.processes.node import CONTROL_FAILED, Control, run_heard
from moothall.processes.supervisor import Supervisor
from moothall.settings import Settings
from tests.support.server import PATIENCE
from tests.support.world import LogBook

NONSENSE = b"no order\n"


class Hall:
    """It runs until it is told to end."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.is_closed = False

    async def run(self) -> None:
        try:
            await self.over.wait()
        finally:
            self.is_closed = True


class Line:
    """A control, and the end of its socket that the supervising process has."""

    def __init__(self, control: Control, end: socket.socket) -> None:
        self.control = control
        self._end = end

    async def say(self, text: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._end, text)

    async def hear(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._end, MAX_LINE)


@pytest.fixture
async def supervising() -> AsyncIterator[Line]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    reader, writer = await asyncio.open_unix_connection(sock=theirs, limit=MAX_LINE)
    yield Line(Control(reader, writer), ours)
    writer.close()
    ours.close()


@pytest.fixture
def hall() -> Hall:
    return Hall()


async def test_a_hall_is_closed_when_an_order_cannot_be_read(supervising: Line, hall: Hall) -> None:
    await supervising.say(NONSENSE)
    async with asyncio.timeout(PATIENCE):
        error = await run_heard(hall.run(), supervising.control)
    assert error is not None
    assert "malformed" in str(error)
    assert hall.is_closed


async def test_a_hall_is_closed_when_its_metrics_fail(supervising: Line, hall: Hall) -> None:
    def report() -> bytes:
        raise ZeroDivisionError

    supervising.control.offer(report)
    await supervising.say(line(Report(1)))
    async with asyncio.timeout(PATIENCE):
        assert isinstance(await run_heard(hall.run(), supervising.control), ZeroDivisionError)
    assert hall.is_closed


async def test_orders_are_answered_until_the_hall_ends(supervising: Line, hall: Hall) -> None:
    supervising.control.offer(lambda: b"metrics")
    running = asyncio.create_task(run_heard(hall.run(), supervising.control))
    await supervising.say(line(Report(7)))
    async with asyncio.timeout(PATIENCE):
        assert decode_from_node(await supervising.hear()) == Reported(7, "metrics")
        hall.over.set()
        assert await running is None


async def test_what_ends_a_hall_is_told_as_it_is(supervising: Line) -> None:
    async def fail() -> None:
        raise UsageError("no such port")

    with pytest.raises(UsageError, match="no such port"):
        await run_heard(fail(), supervising.control)


class Restarts(LogBook):
    """A log that tells when a node that has ended is ready again."""

    def __init__(self) -> None:
        super().__init__()
        self.again = asyncio.Event()

    def info(self, event: str, **facts: object) -> None:
        super().info(event, **facts)
        if event == "node_ready" and self.find("node_ended"):
            self.again.set()


@pytest.mark.slow
async def test_a_node_that_cannot_hear_is_started_again(tmp_path: Path) -> None:
    log = Restarts()
    settings = Settings(data_dir=tmp_path / "hall", port=0, keep=False)
    supervisor = Supervisor(settings, 1, log)
    async with asyncio.timeout(4 * PATIENCE), supervisor.running():
        node = supervisor._processes["node1"]
        assert node._writer is not None
        node._writer.write(NONSENSE)
        await log.again.wait()
    (ended,) = log.find("node_ended")
    assert ended["code"] == CONTROL_FAILED
    assert "could not handle an order of the supervising process" in str(ended["reason"])
