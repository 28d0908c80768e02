"""Python functions as listeners of events: what `App.on_hook` registers (see `moothall.market.courier`)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final

from msgspec import Struct

from moothall.hall.outside import Log
from moothall.market.courier import Told
from moothall.market.hooks import Subscription
from moothall.market.records import HookEvent

CALL_SECONDS: Final = 60.0  # after which a coroutine is cancelled, and called again later
CLOSING_SECONDS: Final = 2.0


class Event(Struct, frozen=True, kw_only=True):
    """Something that happened to a deal. `body` is what a webhook gets; `attempt` counts from 1."""

    id: str
    name: str
    body: dict[str, Any]
    attempt: int


Hook = Callable[[Event], Awaitable[object] | object]


class HookListener:
    """One function. Its calls never overlap."""

    hands = 1
    patience = CALL_SECONDS

    def __init__(self, hook: Hook, subscription: Subscription, log: Log) -> None:
        self.subscription = subscription
        self.shown_as = subscription.listener
        self._hook = hook
        self._log = log
        self._task: asyncio.Task[None] | None = None

    def deliver(self, event: HookEvent, attempt: int, told: Told) -> None:
        seen = Event(id=event.id, name=event.name, body=json.loads(event.body), attempt=attempt)
        self._task = asyncio.get_running_loop().create_task(self._call(seen))
        self._task.add_done_callback(lambda done: told(self._outcome(done)))

    async def close(self) -> None:
        if self._task is not None:
            _, late = await asyncio.wait((self._task,), timeout=CLOSING_SECONDS)
            for task in late:
                task.cancel()
                await asyncio.wait((task,), timeout=CLOSING_SECONDS)

    async def _call(self, event: Event) -> None:
        async with asyncio.timeout(CALL_SECONDS):
            answer = self._hook(event)
            if isawaitable(answer):
                await answer

    def _outcome(self, task: "asyncio.Task[None]") -> str | None:
        if task.cancelled():
            return "it was cancelled"
        error = task.exception()
        if error is None:
            return None
        self._log.warning("hook_raised", listener=self.shown_as, exc_info=error)
        return repr(error)


def name_of(hook: Hook) -> str:
    """Where it is defined: the same after a restart, so that what is kept for it finds it again."""
    named = hook if hasattr(hook, "__qualname__") else type(hook)
    return f"python:{named.__module__}.{named.__qualname__}"
