"""The keeper of a crew: one process on the host that runs the hall, and restarts what has died.

It has an understudy, a second process that takes its place when it is killed. Nothing that it started is its own to
lose: agents and hall are detached, and what is wanted of them is on disk.

SIGTERM ends the keeper and its understudy, and leaves the crew as it is. `moothall worker up` starts another one.
"""

import asyncio
import os
import resource
import signal
import sys
import time
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.daemon import lock
from moothall.errors import MoothallError
from moothall.worker import entry
from moothall.worker.crew import sockets
from moothall.worker.crew.control import MAX_LINE, Counter
from moothall.worker.crew.desk import Desk, Over
from moothall.worker.crew.places import Places
from moothall.worker.crew.understudies import Understudy
from moothall.worker.crew.understudy import TAKEOVER
from moothall.worker.log_lines import LogFile

USAGE: Final = "usage: python -m moothall.worker.crew.keeper FOLDER; `moothall worker up` starts it"
LOCK_PATIENCE: Final = 0.2  # seconds; a command that looks for a keeper has the lock for a moment
TAKEOVER_PATIENCE: Final = 30.0  # seconds; a command may act for the crew in between
MOST_FILES: Final = 65536  # more than the doors of the largest crew have open
IDLE: Final = 60.0  # seconds; a keeper that gets no order to start anything ends then


def main() -> int:
    """Keep the crew until it is stopped. Return the exit code."""
    return entry.run("keeper", USAGE, _keep, 1)


def _keep(arguments: list[str]) -> int:
    places, is_takeover = Places(Path(arguments[0]).absolute()), TAKEOVER in arguments
    if _has_lock(places, TAKEOVER_PATIENCE if is_takeover else 0):
        _raise_limit()
        asyncio.run(Keeper(places, is_takeover=is_takeover).run())  # the lock ends with the process
    return 0


def _raise_limit() -> None:
    """The usual 1,024 open files are not enough for four agents that keep all connections of their doors busy."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _has_lock(places: Places, patience: float) -> bool:
    """True when this process has the lock. False if another keeper has it, or it is not free in so many seconds."""
    deadline = time.monotonic() + patience
    while lock.take(places.lock, LOCK_PATIENCE) is None:
        if time.monotonic() >= deadline or _is_served(places):
            return False
    return True


def _is_served(places: Places) -> bool:
    try:
        sockets.connect(places.socket).close()
    except OSError:
        return False
    return True


class Keeper:
    def __init__(self, places: Places, *, is_takeover: bool) -> None:
        self._places = places
        self._is_takeover = is_takeover
        self._log = LogFile(places.log).say
        self._ending = asyncio.Event()

    async def run(self) -> None:
        """Until the crew has ended, or SIGTERM. Raises MoothallError or OSError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.set)
        desk = Desk(self._places, os.environ)
        understudy = Understudy(self._places.root, self._log)
        understudy.start()
        self._log(f"the keeper begins, pid {os.getpid()}")
        try:
            await self._try(desk.take_over(self._log, finish=self._is_takeover))
            counter = Counter(desk, self._log, lambda: self._ending.set() if desk.is_over else None)
            server = await asyncio.start_unix_server(
                counter.serve, sock=sockets.listen(self._places.socket), limit=MAX_LINE
            )
            await self._tend(desk)
            server.close()
            await counter.close()
            await desk.close()
        finally:
            understudy.dismiss()
        self._log("the keeper ends")

    async def _tend(self, desk: Desk) -> None:
        began = time.monotonic()
        while not desk.is_over and not self._ending.is_set():
            if desk.is_idle and time.monotonic() - began > IDLE:
                return
            await self._try(desk.tend(self._log))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), desk.period)

    async def _try(self, step: Awaitable[None]) -> None:
        """A step that fails now may work later: a full disk has room again."""
        try:
            await step
        except Over:
            return  # it is ending: the loop above sees that itself
        except (MoothallError, OSError) as error:
            self._log(f"error: {error}")


if __name__ == "__main__":
    sys.exit(main())
