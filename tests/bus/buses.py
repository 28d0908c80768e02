"""Buses of nodes that share a NATS, and what tests wait for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex
from typing import Any

from moothall.bus.access import Access
from moothall.bus.nats_bus import NatsBus
from moothall.hall.cluster.bus import Bucket, Entry
from tests.support.nats_server import NatsServer


class Inbox:
    """Keeps what comes, and lets a test wait for it."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._changed = asyncio.Event()

    def __call__(self, item: Any = None) -> None:
        self.items.append(item)
        self._changed.set()

    async def until(self, holds: Callable[[list[Any]], bool]) -> list[Any]:
        while not holds(self.items):
            self._changed.clear()
            await self._changed.wait()
        return self.items

    async def count(self, number: int) -> list[Any]:
        return await self.until(lambda items: len(items) >= number)


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []
        self.heard = Inbox()

    def info(self, event: str, **facts: object) -> None:
        self.lines.append((event, facts))
        self.heard(event)

    warning = info

    def events(self) -> list[str]:
        return [event for event, _ in self.lines]


@asynccontextmanager
async def buses(
    server: NatsServer, count: int, access: Access | None = None, hall: str = ""
) -> AsyncIterator[list[NatsBus]]:
    """Nodes of a hall that no other test has."""
    hall = hall or token_hex(8)
    async with AsyncExitStack() as stack:
        nodes = []
        for number in range(count):
            bus = NatsBus([server.url], hall, Lines(), access, name=f"node{number}")
            await bus.open()
            stack.push_async_callback(bus.close)
            nodes.append(bus)
        yield nodes


async def rises(bus: NatsBus, falls: Callable[[], None]) -> None:
    """Do what makes the bus fall, and wait until it is up again."""
    changes = Inbox()
    bus.on_change(changes)
    falls()
    await changes.until(lambda told: False in told and told[-1] is True)


async def heard(sender: NatsBus, receiver: NatsBus) -> None:
    """Wait until what the sender publishes reaches the receiver."""
    subject, came = f"probe.{token_hex(4)}", Inbox()
    stop = receiver.subscribe(subject, came)
    while not came.items:
        sender.publish(subject, b"probe")
        await asyncio.sleep(0.005)
    stop()


def answer() -> tuple[Callable[[Any], None], Callable[[BaseException], None], "asyncio.Future[Any]"]:
    """`done` and `failed` of a call, and its result. A second answer fails the test."""
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    return future.set_result, future.set_exception, future


async def get(bus: NatsBus, bucket: Bucket, key: str) -> Entry | None:
    done, failed, future = answer()
    bus.registry.get(bucket, key, done, failed)
    entry: Entry | None = await future
    return entry


async def put(bus: NatsBus, bucket: Bucket, key: str, value: bytes, revision: int) -> int | None:
    done, failed, future = answer()
    bus.registry.put(bucket, key, value, revision, done, failed)
    new: int | None = await future
    return new


async def delete(bus: NatsBus, bucket: Bucket, key: str, revision: int) -> bool:
    done, failed, future = answer()
    bus.registry.delete(bucket, key, revision, done, failed)
    is_deleted: bool = await future
    return is_deleted
