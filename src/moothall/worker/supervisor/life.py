"""The life of a supervised agent, as a table. Pure: the clock and what happened are handed in.

A supervisor starts the runner, and waits for its end. After an end it waits, each time twice as long as before,
up to five minutes. A run of more than five minutes begins the row anew (seed 000, agent lifecycle). A user can end
the wait. A stop request
ends everything, at any time: a runner that lives gets SIGTERM, and SIGKILL after the grace.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

SHORTEST_WAIT: Final = 5.0  # seconds
LONGEST_WAIT: Final = 300.0  # seconds; seed 000, crash and restart
GOOD_RUN: Final = 300.0  # seconds; a longer run makes the next wait the shortest one
GRACE: Final = 8.0  # seconds between SIGTERM and SIGKILL (agentchat wire 19.3)
QUICK: Final = 10.0  # seconds; a failure after a shorter run counts towards giving up

UNRECOVERABLE: Final = 2  # the exit code of a runner that need not be started again (agentchat wire 19.4)


class Phase(StrEnum):
    LOOKING = "looking"  # for a stop request, before a run
    RUNNING = "running"
    STOPPING = "stopping"  # the runner has SIGTERM, and has not ended
    KILLING = "killing"  # the runner has SIGKILL, and has not ended
    WAITING = "waiting"
    ENDED = "ended"


class Event(StrEnum):
    CLEAR = "clear"  # no stop request is there
    RAN = "ran"  # the runner has ended, and is worth another start
    FAILED_FOR_GOOD = "failed for good"
    STOP = "stop"
    DUE = "due"  # the time of the phase is over


class Status(StrEnum):
    """The `status` in state.json (agentchat wire 19.3)."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"
    KILLED = "killed"
    CRASHED = "crashed"
    FATAL = "fatal"
    FAILED = "failed"


class Order(StrEnum):
    """What the supervisor has to do when a phase begins."""

    START = "start"
    TERMINATE = "terminate"
    KILL = "kill"


# What is not here leaves the phase as it is: an end is an end, and a second stop request changes nothing.
TRANSITIONS: Final[dict[tuple[Phase, Event], tuple[Phase, Order | None]]] = {
    (Phase.LOOKING, Event.STOP): (Phase.ENDED, None),
    (Phase.LOOKING, Event.CLEAR): (Phase.RUNNING, Order.START),
    (Phase.RUNNING, Event.STOP): (Phase.STOPPING, Order.TERMINATE),
    (Phase.RUNNING, Event.RAN): (Phase.WAITING, None),
    (Phase.RUNNING, Event.FAILED_FOR_GOOD): (Phase.ENDED, None),
    (Phase.STOPPING, Event.DUE): (Phase.KILLING, Order.KILL),
    (Phase.STOPPING, Event.RAN): (Phase.ENDED, None),
    (Phase.KILLING, Event.RAN): (Phase.ENDED, None),
    (Phase.WAITING, Event.STOP): (Phase.ENDED, None),
    (Phase.WAITING, Event.DUE): (Phase.LOOKING, None),
}


@dataclass(frozen=True, slots=True)
class Life:
    """Where a supervised agent stands. Each method returns the next one, and what to do for it."""

    phase: Phase = Phase.LOOKING
    status: Status = Status.STARTING
    last_error: str = ""
    guard_reason: str | None = None  # why the guard has ended the last run
    restart_count: int = 0  # ends since the last good run
    backoff: float = 0.0  # seconds between the last end and the next start
    since: float = 0.0  # when the run began
    due: float | None = None  # when `tick` has something to do
    give_up_after: int = 0  # quick failures in a row; 0: never give up

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.ENDED

    @property
    def exit_code(self) -> int:
        """What the supervisor returns: 1 after giving up, else 0. A container that ends with 0 is not restarted,
        and a run without money or a valid token must not be."""
        return 1 if self.status is Status.FAILED else 0

    def tick(self, now: float, *, stop: bool) -> "tuple[Life, Order | None]":
        """What to do at this moment. `stop` is True while a stop request is there."""
        if stop and (self.phase, Event.STOP) in TRANSITIONS:
            return _enter(self, Event.STOP, now)
        if self.phase is Phase.LOOKING:
            return _enter(self, Event.CLEAR, now)
        if self.due is not None and now >= self.due:
            return _enter(self, Event.DUE, now)
        return self, None

    def woken(self, now: float) -> "Life":
        """The next run begins now, if this is the wait before it."""
        return replace(self, due=now) if self.phase is Phase.WAITING else self

    def ended(self, now: float, code: int, guard_reason: str | None) -> "Life":
        """The runner has ended with this exit code. `guard_reason` is why the guard ended it, if it did."""
        if self.phase is not Phase.RUNNING:
            return _enter(self, Event.RAN, now)[0]
        after = self._counted(now, code, guard_reason)
        if after.status in (Status.FATAL, Status.FAILED):
            return _enter(after, Event.FAILED_FOR_GOOD, now)[0]
        return _enter(after, Event.RAN, now)[0]

    def not_started(self, now: float, reason: str) -> "Life":
        """The runner could not be started at all: an end like others, with another error."""
        return replace(self.ended(now, 1, None), last_error=reason)

    def _counted(self, now: float, code: int, guard_reason: str | None) -> "Life":
        ran = now - self.since
        is_good = ran > GOOD_RUN
        after = replace(
            self,
            guard_reason=guard_reason,
            restart_count=0 if is_good else self.restart_count + 1,
            backoff=SHORTEST_WAIT if is_good else min(max(self.backoff * 2, SHORTEST_WAIT), LONGEST_WAIT),
        )
        if code == UNRECOVERABLE:
            return replace(after, status=Status.FATAL, last_error=f"exit_code={code}")
        if guard_reason is not None:
            return replace(after, status=Status.KILLED, last_error=f"niki_reason={guard_reason}")
        if code == 0:
            return replace(after, status=Status.STARTING, last_error="")
        if 0 < self.give_up_after <= self.restart_count and ran <= QUICK:
            return replace(after, status=Status.FAILED, last_error="too_many_crashes")
        return replace(after, status=Status.CRASHED, last_error=f"exit_code={code}")


def _enter(life: Life, event: Event, now: float) -> tuple[Life, Order | None]:
    phase, order = TRANSITIONS[life.phase, event]
    after = replace(life, phase=phase, due=None)
    if phase is Phase.RUNNING:
        return replace(after, status=Status.RUNNING, since=now), order
    if phase is Phase.STOPPING:
        return replace(after, due=now + GRACE), order
    if phase is Phase.WAITING:
        return replace(after, due=now + life.backoff), order
    if phase is Phase.LOOKING:
        return replace(after, status=Status.STARTING), order
    if phase is Phase.ENDED and event is not Event.FAILED_FOR_GOOD:
        return replace(after, status=Status.STOPPED, last_error=""), order
    return after, order
