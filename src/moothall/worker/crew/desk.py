"""What can be asked of a crew: up, stop, wake, remove; and what its keeper does by itself.

What is wanted is on disk before anything is done for it. So an order that a kill has interrupted is finished by the
next keeper, and any order can be given again.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from moothall.errors import MoothallError, UsageError
from moothall.worker.crew import deleting, plan, record, runtimes, services
from moothall.worker.crew.arrival import Arrival
from moothall.worker.crew.own_hall import OwnHall
from moothall.worker.crew.places import KILL_SWITCH, Places
from moothall.worker.crew.plan import Crew
from moothall.worker.crew.record import Record, Wanted
from moothall.worker.crew.runtime import Recipe, Runtime
from moothall.worker.crew.services import Service

STOP_PATIENCE: Final = 15.0  # seconds; a supervisor itself gives its runner 8
AT_ONCE: Final = 8  # agents that are started or stopped at the same time

# Keys of [crew] that cannot change while agents run.
_FIXED: Final = ("file", "hall", "isolation")
_LOOSE: Final = ("image", "rootfs", "token", "model_url", "model_proxy")

Say = Callable[[str], None]


class Over(Exception):
    """The keeper is ending, and takes no more orders."""


@dataclass(frozen=True, slots=True)
class _Open:
    """What a crew is run with, from `up` to the end."""

    runtime: Runtime
    services: Sequence[Service]
    hall: OwnHall


class Desk:
    """One order at a time. `is_over` is True when all has ended and the keeper is to end too."""

    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        self.places = places
        self.is_over = False
        self._record = record.read(places.record)
        self._environment = environment
        self._lock = asyncio.Lock()
        self._few = asyncio.Semaphore(AT_ONCE)
        self._open = self._opened() if self._record is not None else None

    @property
    def period(self) -> float:
        """Seconds between two calls of `tend`."""
        return self._open.runtime.period if self._open is not None else 1.0

    @property
    def is_idle(self) -> bool:
        """True before the first `up`, and after all was stopped."""
        return self._record is None or (self._record.is_ending and not self._record.to_run())

    # -- orders ------------------------------------------------------------------------------------

    async def up(self, tables: Mapping[str, Any], file: Path, say: Say) -> list[str]:
        """Start what does not run. Returns the names of the agents that did not come up. Raises MoothallError."""
        async with self._turn():
            crew = plan.parse(tables, file)
            _check_kill_switch()
            running = await self._running()
            await self._take(crew, tables, running, say)
            if crew.hall is None:
                await self._open_hall(keep_port=bool(running))
            say(f"hall {self._now.hall}")
            if not self._tools.runtime.isolates:
                say(runtimes.NO_ISOLATION)
            missing = [member.name for member in crew.members if member.name not in running]
            failed = await self._start(missing, say)
            for name in running:
                say(f"{name} runs already")
            self._tell_changes(crew, running, say)
            return failed

    async def stop(self, names: Sequence[str], say: Say, *, at_once: bool) -> list[str]:
        """Stop these agents, or without names all that are not protected, and the hall.

        Returns the names of protected agents that still run. Raises MoothallError.
        """
        async with self._turn():
            for name in names:
                self._check(name)
            running = await self._running()
            spared = [] if names else [name for name in running if self._is_protected(name)]
            targets = [name for name in names or {*running, *self._now.to_run()} if name not in spared]
            await self._stop(targets, say, at_once=at_once, is_end=not names)
            await self._end_if_empty(say)
            return spared

    async def wake(self, name: str, say: Say) -> None:
        """Start the next session of an agent now; start the agent if it does not run. Raises MoothallError."""
        async with self._turn():
            self._check(name)
            if name in await self._running():
                await asyncio.to_thread(self._tools.runtime.wake, name)
                say(f"{name} is awake")
                return
            self._now.crew.member(name)
            _check_kill_switch()
            if self._now.crew.hall is None:
                await self._open_hall(keep_port=True)
            if await self._start([name], say):
                raise UsageError(f"{name} did not start: see `moothall worker logs {name} --supervisor`")

    async def remove(self, name: str, say: Say, *, with_folders: bool) -> None:
        """Remove what is left of a stopped agent, with its folders if asked. Raises MoothallError."""
        async with self._turn():
            self._check(name)
            if name in await self._running():
                raise UsageError(f"{name} runs: stop it first, with `moothall worker stop {name}`")
            await asyncio.to_thread(self._tools.runtime.remove, name)
            for folder in self.places.member(name).folders if with_folders else ():
                await asyncio.to_thread(_delete, folder)
            self._save(self._now.without(name))
            say(f"{name} removed" + (", with its folders" if with_folders else ""))

    # -- by itself ---------------------------------------------------------------------------------

    async def take_over(self, log: Say, *, finish: bool) -> None:
        """Go on where a keeper has left off. Raises MoothallError or OSError.

        `finish`: if that was the end of the crew, end it. A keeper that a command has started waits for its order.
        """
        async with self._turn():
            if self._record is None:
                return
            running = await self._running()
            for name in self._now.to_run():
                if (recipe := self._recipe(name)) is not None:
                    await self._begin(recipe)
            await self._stop([name for name in running if name not in self._now.to_run()], log)
            starting = [name for name, aim in self._now.aims.items() if aim.wanted is Wanted.STARTING]
            for name in starting:
                if name in running:
                    self._save(self._now.aimed(name, Wanted.RUNNING))
            left = [name for name in starting if name not in running]
            if left and self._now.crew.hall is None:
                await self._open_hall(keep_port=bool(running))
            await self._start([name for name in left if self._recipe(name) is not None], log)
            if finish:
                await self._end_if_empty(log)

    async def tend(self, log: Say) -> None:
        """Restart what has died, and obey the kill switch."""
        async with self._turn():
            if self.is_idle:
                return
            tools, now = self._tools, self._now
            if is_killed() and (targets := [name for name in now.to_run() if not self._is_protected(name)]):
                log(f"the kill switch is on: stopping {', '.join(targets)}")
                await self._stop(targets, log)
            port = now.port if now.crew.hall is None else None
            if port is not None and (line := await asyncio.to_thread(tools.hall.tend, port)):
                log(line)
            recipes = [recipe for name in self._now.to_run() if (recipe := self._recipe(name)) is not None]
            for line in await asyncio.to_thread(tools.runtime.tend, recipes):
                log(line)

    async def close(self) -> None:
        for service in self._open.services if self._open is not None else ():
            await service.close()

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        async with self._lock:
            if self.is_over:
                raise Over
            yield

    # -- parts of orders ---------------------------------------------------------------------------

    @property
    def _now(self) -> Record:
        if self._record is None:
            raise self.places.never_up()
        return self._record

    @property
    def _tools(self) -> _Open:
        if self._open is None:
            raise self.places.never_up()
        return self._open

    def _opened(self) -> _Open:
        now = self._now
        runtime = runtimes.open_runtime(now.isolation, now.crew, self.places)
        beside = services.services_of(self.places, isolates=runtime.isolates)
        return _Open(runtime, beside, OwnHall(self.places.hall, self._environment))

    def _save(self, after: Record) -> None:
        after.write(self.places.record)
        self._record = after

    async def _running(self) -> list[str]:
        if self._open is None:
            return []
        standings = await asyncio.to_thread(self._open.runtime.standing)
        return [each.name for each in standings if each.is_running]

    async def _take(self, crew: Crew, tables: Mapping[str, Any], running: list[str], say: Say) -> None:
        """Make the crew of the file the one that is kept."""
        before = self._record
        if before is not None and running:
            _refuse_changes(before.crew, crew)
            for key in _LOOSE:
                if getattr(crew, key) != getattr(before.crew, key):
                    say(
                        f"[crew] {key} has changed: agents that run keep the old one until they are started again"
                    )
            self._save(replace(before, crew=crew, tables=tables, is_ending=False))
            return
        await self.close()
        if before is not None and crew.hall is not None:
            await asyncio.to_thread(self._tools.hall.stop)
        isolation, note = await asyncio.to_thread(runtimes.choose, crew)
        if note is not None:
            say(note)
        port, aims = (before.port, before.aims) if before is not None else (None, {})
        self._save(Record(crew, tables, isolation, port, aims))
        self._open = self._opened()

    async def _open_hall(self, *, keep_port: bool) -> None:
        def note(port: int) -> None:
            self._save(replace(self._now, port=port))

        await asyncio.to_thread(self._tools.hall.open, self._now.port, note, keep_port=keep_port)

    def _recipe(self, name: str) -> Recipe | None:
        """None for an agent that is no longer in the crew file."""
        for member in self._now.crew.members:
            if member.name == name:
                return Recipe(self._now.crew, member, self.places.member(name), self._now.hall)
        return None

    async def _begin(self, recipe: Recipe) -> None:
        for service in self._tools.services:
            await service.begin(recipe)

    async def _start(self, names: Sequence[str], say: Say) -> list[str]:
        """Start agents that do not run, and wait until they are up. Returns those that are not."""
        recipes = [recipe for name in names if (recipe := self._recipe(name)) is not None]
        after = self._now
        for recipe in recipes:
            after = after.aimed(recipe.member.name, Wanted.STARTING, recipe.member.fields())
        self._save(after)
        are_up = await asyncio.gather(*(self._start_one(recipe, say) for recipe in recipes))
        return [recipe.member.name for recipe, is_up in zip(recipes, are_up, strict=True) if not is_up]

    async def _start_one(self, recipe: Recipe, say: Say) -> bool:
        name, runtime = recipe.member.name, self._tools.runtime
        async with self._few:
            arrival = Arrival(recipe.places, runtime)
            try:
                recipe.places.make()
                await self._begin(recipe)
                await asyncio.to_thread(runtime.start, recipe)
            except (MoothallError, OSError) as error:
                self._save(self._now.aimed(name, Wanted.STOPPED))
                say(f"{name} cannot be started: {error}")
                return False
            self._save(self._now.aimed(name, Wanted.RUNNING))
            fault = await arrival.wait()
        say(f"{name} is up" if fault is None else f"{name} is not up: {fault}")
        return fault is None

    async def _stop(
        self, names: Sequence[str], say: Say, *, at_once: bool = False, is_end: bool = False
    ) -> None:
        after = replace(self._now, is_ending=self._now.is_ending or is_end)
        for name in names:
            after = after.aimed(name, Wanted.STOPPED)
        self._save(after)
        await asyncio.gather(*(self._stop_one(name, say, at_once=at_once) for name in names))

    async def _stop_one(self, name: str, say: Say, *, at_once: bool) -> None:
        runtime = self._tools.runtime
        async with self._few:
            if at_once:
                await asyncio.to_thread(runtime.kill, name)
            else:
                await asyncio.to_thread(runtime.stop, name, STOP_PATIENCE)
            for service in self._tools.services:
                await service.end(name)
        say(f"{name} {'killed' if at_once else 'stopped'}")

    async def _end_if_empty(self, say: Say) -> None:
        """After `stop` without names, the hall and the keeper end with the last agent."""
        if not self._now.is_ending or self._now.to_run():
            return
        if await asyncio.to_thread(self._tools.hall.is_running):
            await asyncio.to_thread(self._tools.hall.stop)
            say("the hall stopped")
        self.is_over = True

    def _check(self, name: str) -> None:
        """Raises UsageError for a name that is neither in the crew nor was started."""
        if name not in self._now.aims:
            self._now.crew.member(name)

    def _is_protected(self, name: str) -> bool:
        aim, recipe = self._now.aims.get(name), self._recipe(name)
        as_started = aim is not None and aim.started_with.get("protected") is True
        return as_started or (recipe is not None and recipe.member.protected)

    def _tell_changes(self, crew: Crew, running: list[str], say: Say) -> None:
        for name, keys in self._now.changes(crew).items():
            say(
                f"{name} runs with its old {', '.join(keys)}: `moothall worker stop {name}` and"
                " `moothall worker up` start it with the new"
            )
        for name in self._now.left_over():
            if name in running:
                say(f"{name} is no longer in the file, and runs: `moothall worker stop {name}`")


def is_killed() -> bool:
    """True while the kill switch is there (agentchat wire 19.6)."""
    return os.path.lexists(Path(KILL_SWITCH).expanduser())


def _check_kill_switch() -> None:
    if is_killed():
        raise UsageError(f"the kill switch is on: remove {KILL_SWITCH} to start agents")


def _refuse_changes(before: Crew, after: Crew) -> None:
    for key in _FIXED:
        old, new = getattr(before, key), getattr(after, key)
        if old == new:
            continue
        if key == "file":
            raise UsageError(f"the crew {before.name} is up from {old}: give this one another name in [crew]")
        raise UsageError(
            f"[crew] {key} has changed while agents run: `moothall worker stop` first, then `moothall worker up`"
        )


def _delete(folder: Path) -> None:
    try:
        deleting.delete(folder)
    except OSError as error:
        raise UsageError(f"{error.filename or folder} cannot be removed: {error.strerror}") from None
