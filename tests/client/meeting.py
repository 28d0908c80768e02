"""What tests of agents need again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from moothall import Agent, Backoff, FloorPolicy, Message

PATIENCE = 15.0  # seconds for what takes milliseconds on a machine with nothing else to do

QUICKLY = Backoff(first=0.01, longest=0.05)
AT_ONCE = FloorPolicy(min_delay=0, max_delay=0, settle=0.05)

Event = TypeVar("Event")
Result = TypeVar("Result")


async def soon(awaitable: Awaitable[Result]) -> Result:
    async with asyncio.timeout(PATIENCE):
        return await awaitable


class Heard(Generic[Event]):
    """A handler that remembers what it was called with."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._waiting: asyncio.Queue[Event] = asyncio.Queue()

    async def __call__(self, event: Event) -> None:
        self.events.append(event)
        self._waiting.put_nowait(event)

    async def next(self) -> Event:
        return await soon(self._waiting.get())

    async def until(self, wanted: Callable[[Event], bool]) -> Event:
        while True:
            event = await self.next()
            if wanted(event):
                return event


def listen(agent: Agent, *channels: str, dms: bool = False, replay: bool = False) -> Heard[Message]:
    heard: Heard[Message] = Heard()
    agent.on_message(*channels, dms=dms, replay=replay)(heard)
    return heard


async def claimed(agent: Agent) -> None:
    """For a handler with the floor: its claim, which is sent when it waits for the first time, is in the hall."""
    await agent.ping()
    await agent.ping()


async def settled(*agents: Agent) -> None:
    """Everything that the hall put on these agents' lines before now has been heard."""
    for agent in agents:
        await agent.ping()
