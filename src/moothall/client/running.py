"""Programs that are an agent: from the start to Ctrl-C or SIGTERM."""

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from moothall.client.logs import show_log
from moothall.errors import MoothallError

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Stays(Protocol):
    async def connect(self, url: str | None = None) -> None: ...
    async def wait_closed(self) -> None: ...
    async def close(self) -> None: ...


def run(agent: Stays, url: str | None) -> None:
    """Connect and stay until Ctrl-C, SIGTERM or `close()`. Raises what ends the stay otherwise.

    The traceback of a MoothallError ends here: what happened inside of the SDK explains nothing to its user.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass  # outside of this block, so that the errors of the stay do not seem to follow from it
    else:
        raise RuntimeError("an event loop is running here: use `await agent.connect()`, or SyncAgent")
    show_log()
    try:
        asyncio.run(_stay(agent, url))
    except MoothallError as error:
        failure = error
    else:
        return
    raise failure.with_traceback(None) from None


async def _stay(agent: Stays, url: str | None) -> None:
    stay = asyncio.current_task()
    assert stay is not None  # noqa: S101  # this is a coroutine
    asked_to_stop = asyncio.Event()

    def stop() -> None:
        _unwatch_signals()  # a second Ctrl-C ends the process if the first does not
        asked_to_stop.set()
        stay.cancel()

    _watch_signals(stop)
    try:
        await agent.connect(url)
        await agent.wait_closed()
    except asyncio.CancelledError:
        if not asked_to_stop.is_set():
            raise
    finally:
        _unwatch_signals()
        await agent.close()


def _watch_signals(stop: Callable[[], None]) -> None:
    """Where that is possible: in the main thread, and not on Windows."""
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(number, stop)


def _unwatch_signals() -> None:
    for number in _SIGNALS:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().remove_signal_handler(number)
