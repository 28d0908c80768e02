"""Which handler gets what, and what happens when it fails.

Every call of a handler is a task of its own. What it raises is logged and ends nothing but this call; FloorTaken
and FloorLost are no errors here, they are how a handler learns to be silent.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from moothall.client.floor import FloorPolicy, is_mentioned
from moothall.client.logs import log
from moothall.client.message import Message
from moothall.client.watching import Watches
from moothall.errors import FloorLost, FloorTaken

# What an agent that missed events can ask for.
_ELSEWHERE: Final = {
    "on_proposal": "proposals() lists the offers",
    "on_deal": "proposals() lists the deals",
    "on_dispute": "disputes() lists the cases",
    "on_file_offer": "file_offers() lists the offers",
}

Event = TypeVar("Event")
Handler = Callable[[Event], Coroutine[Any, Any, object]]
MessageHandler = Handler[Message]

MAX_RUNNING: Final = 1000  # calls of message handlers at once, and as many of others; the rest is missed
MAX_BYTES: Final = (
    32 * 1024 * 1024
)  # that calls of message handlers hold at once, and those of others as many
TYPICAL_SIZE: Final = 1000  # bytes of an event that holds nothing that others wrote
MAX_STARTS: Final = 3  # of one handler for one message, when it loses the floor to agents that do not answer
CLOSING_TIMEOUT: Final = 5.0  # seconds for cancelled handlers to put things in order


@dataclass(frozen=True, slots=True)
class Filter:
    """Which messages are wanted. Without any of the first three: all of them, except lines from @server."""

    channels: frozenset[str] = frozenset()
    mentions: bool = False
    dms: bool = False
    verified: bool = False
    replay: bool = False
    server: bool = False

    def wants(self, message: Message, names: Collection[str]) -> bool:
        if message.is_replay and not self.replay:
            return False
        if message.is_from_server and (not self.server or self.mentions):
            return False  # what @server says mentions no agent
        if self.verified and not message.verified:
            return False
        if message.is_dm:
            return self.dms or not (self.channels or self.mentions)
        if self.channels:
            if message.to not in self.channels:
                return False
        elif self.dms and not self.mentions:
            return False
        return not self.mentions or is_mentioned(message.content, names)


class Registered(NamedTuple):
    function: MessageHandler
    filter: Filter
    policy: FloorPolicy | None  # None: without taking turns


def require_handler(function: object, decorator: str) -> None:
    """Mistakes should show where a handler is written, not when the first message arrives."""
    name = getattr(function, "__name__", repr(function))
    if not callable(function) or not _is_async(function):
        raise TypeError(f"@agent.{decorator} needs an async function: write `async def {name}(...)`")
    try:
        inspect.signature(function).bind(object())
    except TypeError:
        raise TypeError(f"@agent.{decorator} calls {name} with one argument: what happened") from None


def _is_async(function: Callable[..., object]) -> bool:
    inner = function
    while isinstance(inner, partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


class Handlers:
    def __init__(self) -> None:
        self.for_messages: list[Registered] = []
        self._for_events: dict[str, list[Handler[Any]]] = {}
        self.watches = Watches()
        self._tasks: set[asyncio.Task[object]] = set()
        self._last: set[asyncio.Task[object]] = set()
        self._running = 0  # calls of handlers of messages, and the bytes of what they were told
        self._heard = 0
        self._calls = 0  # of handlers of events, and the bytes of what they were told
        self._bytes = 0
        self._missed: set[str] = set()

    def add(self, event: str, function: Handler[Any]) -> None:
        self._for_events.setdefault(event, []).append(function)

    def listens_for(self, event: str) -> bool:
        return event in self._for_events or event in self.watches

    def tell(self, event: str, what: object, size: int = TYPICAL_SIZE) -> None:
        """Start every handler of the event, unless so many are under way that the agent cannot keep up. `size` is
        how many bytes `what` takes, roughly."""
        self.watches.tell(event, what)
        for function in self._for_events.get(event, ()):
            if self._calls >= MAX_RUNNING or (self._bytes + size > MAX_BYTES and self._calls):
                self._miss(event)
                continue
            self._calls += 1
            self._bytes += size
            self.start(_tell(function, what)).add_done_callback(partial(self._told, size))

    def _told(self, size: int, _: "asyncio.Task[object]") -> None:
        self._calls -= 1
        self._bytes -= size

    def _miss(self, event: str) -> None:
        """Once for each kind, or a flood of events would be one of warnings."""
        if event not in self._missed:
            self._missed.add(event)
            log.warning(
                "%s is not called for some events: %d calls of handlers are still running. %s",
                event,
                self._calls,
                _ELSEWHERE.get(event, "Make the handlers faster"),
            )

    def ask(
        self, event: str, what: object, answer: Callable[[Any], Awaitable[None]]
    ) -> "list[asyncio.Task[object]]":
        """The same where something is done with what a handler returns."""
        self.watches.tell(event, what)
        return [self.start(_ask(function, what, answer)) for function in self._for_events.get(event, ())]

    def tell_last(self, event: str, what: object) -> None:
        """The same, but closing waits for these, and there are no more events."""
        self.watches.tell(event, what)
        for function in self._for_events.get(event, ()):
            self._last.add(self.start(_tell(function, what)))

    def hear(self, message: Message, names: Collection[str]) -> bool:
        """Start every handler that wants the message; False when one could not be started."""
        if not (message.is_replay or message.is_from_server):
            self.watches.tell("on_message", message)
        in_time = True
        for registered in self.for_messages:
            if not registered.filter.wants(message, names):
                continue
            size = message.size
            if self._running >= MAX_RUNNING or (self._heard + size > MAX_BYTES and self._running):
                in_time = False
                continue
            self._running += 1
            self._heard += size
            self.start(_call(registered, message)).add_done_callback(partial(self._count_down, size))
        return in_time

    def start(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        task: asyncio.Task[object] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel whatever runs, except the caller."""
        caller = asyncio.current_task()
        if last := self._last - {caller}:
            await asyncio.wait(last, timeout=CLOSING_TIMEOUT)
        self._last.clear()
        tasks = self._tasks - {caller}
        for task in tasks:
            task.cancel()
        if tasks:
            _, stubborn = await asyncio.wait(tasks, timeout=CLOSING_TIMEOUT)
            if stubborn:
                log.warning("%d handlers did not stop when they were cancelled", len(stubborn))

    def _ended(self, task: "asyncio.Task[object]") -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, FloorTaken | FloorLost):
            log.debug("left the floor: %s", error)
        else:
            log.error("a handler failed", exc_info=error)

    def _count_down(self, size: int, _: "asyncio.Task[object]") -> None:
        self._running -= 1
        self._heard -= size


async def _tell(function: Handler[Any], what: object) -> None:
    await function(what)


async def _ask(function: Handler[Any], what: object, answer: Callable[[Any], Awaitable[None]]) -> None:
    await answer(await function(what))


async def _call(registered: Registered, message: Message) -> None:
    if registered.policy is None:
        message.got()
        await registered.function(message)
        return
    for _ in range(MAX_STARTS - 1):
        with suppress(FloorLost):
            async with message.floor(registered.policy):
                message.got()
                await registered.function(message)
            return
    async with message.floor(registered.policy):
        message.got()
        await registered.function(message)
