"""Tells the hall what a worker spends, and ends its session when the hall says that it is too much.

The kernel tells when the guard has written its counts, so nothing runs in between. A report is made after a change,
at most every `PERIOD` seconds. What the session before used after its last report is reported first: its server had
ended by then.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from moothall.client import Budget
from moothall.client.logs import log
from moothall.client.presence import BUDGETS
from moothall.daemon import inotify
from moothall.errors import Banned, BudgetExceeded, Displaced, Kicked, MoothallError
from moothall.tools.budget_file import BudgetFile, read_budget
from moothall.tools.session import Session

PERIOD: Final = 5.0  # seconds between two reports; and between two looks, where the kernel does not tell
RETRY: Final = 30.0  # seconds after a report that failed

_AWAY: Final = (Displaced, Kicked, Banned)  # the agent comes back when the model says so, and reports then


@asynccontextmanager
async def reporting(session: Session) -> AsyncIterator[None]:
    """Report for the length of the block, if the user's options name a file."""
    if session.options.budget_file is None:
        yield
        return
    reports = BudgetReports(session, session.options.budget_file)
    reports.start()
    try:
        yield
    finally:
        await reports.close()


class BudgetReports:
    def __init__(self, session: Session, path: Path) -> None:
        self._session = session
        self._file = BudgetFile(path)
        self._reported: Budget | None = None
        self._brought: Budget | None = None  # what the session before did not report
        self._next = 0.0  # when the next report may be made
        self._look_again = False
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor: int | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        folder = self._file.path.parent
        self._descriptor = inotify.watch(folder, inotify.IN_MOVED_TO | inotify.IN_ONLYDIR)
        if self._descriptor is None:
            log.warning("%s cannot be watched: looking there every %g s", folder, PERIOD)
            self._poll()
        else:
            self._loop.add_reader(self._descriptor, self._changed, self._descriptor)
        self._session.watchers.append(self._told)
        self.look()

    async def close(self) -> None:
        self._session.watchers.remove(self._told)
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def look(self) -> None:
        """Report what is new, now or as soon as it may be."""
        self._look_again = True
        if self._task is None:
            self._task = asyncio.create_task(self._work())

    # -- what happens ------------------------------------------------------------------------------

    def _changed(self, descriptor: int) -> None:
        inotify.drain(descriptor)
        self.look()

    def _told(self, what: str) -> None:
        if what == "agents" and self._session.connected is not None:
            self.look()  # the hall can be reached again

    def _poll(self) -> None:
        self.look()
        self._timer = self._loop.call_later(PERIOD, self._poll)

    def _try_later(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(RETRY, self._retry)

    def _retry(self) -> None:
        self._timer = None
        self.look()

    # -- reports -----------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            while self._look_again:
                self._look_again = False
                await self._report_all()
        except _AWAY as error:
            log.debug("what the session used is not reported: %s", error)
        except MoothallError as error:
            log.debug("what the session used is not reported yet: %s", error)
            self._try_later()
        finally:
            self._task = None

    async def _report_all(self) -> None:
        before = read_budget(self._file.previous)
        if before in (None, self._brought) and read_budget(self._file.path) in (None, self._reported):
            return
        if BUDGETS not in (await self._session.agent()).features:
            return
        if before is not None and before != self._brought:
            await self._report(before)
            self._brought = before
            self._forget(self._file.previous)
        await asyncio.sleep(self._next - self._loop.time())
        now = read_budget(self._file.path)
        if now is not None and now != self._reported:
            await self._report(now)
            self._reported = now

    async def _report(self, budget: Budget) -> None:
        agent = await self._session.agent()
        self._next = self._loop.time() + PERIOD
        try:
            await agent.report_budget(budget)
        except BudgetExceeded as refusal:
            log.warning("%s", refusal)
            self._end(str(refusal))

    def _forget(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed, and may be reported again: %s", file, error.strerror)

    def _end(self, reason: str) -> None:
        try:
            self._file.abort(reason)
        except OSError as error:
            log.warning("the session cannot be ended: %s: %s", error.filename, error.strerror)
