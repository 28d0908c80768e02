"""The decisions of the guard: what is counted, when to warn, nudge and kill. Pure: moments are handed in.

Rules: agentchat wire 19.5. A number is over its limit when it is greater, a time when it has been reached.
"""

from collections import deque
from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from moothall.worker.guard.limits import WARN_AT, WINDOW, Limits
from moothall.worker.guard.usage import Calls, EventUsage, LineUsage

LONGEST_LOOK: Final = 30.0  # seconds between two looks at the use of the processor while there is no output
SHORTEST_LOOK: Final = 2.0  # for dead air; the stall timeouts may need shorter ones
_LOOKS: Final = 3  # so many within a timeout
# Looks within a long timeout of dead air: an idle agent should not be woken for a day's limit
_MOST_LOOKS: Final = 48


class Reason(StrEnum):
    """Why a command was killed: `killedBy` in the state file."""

    BUDGET = "budget"
    TIMEOUT = "timeout"
    RATE_SENDS = "rate-sends"
    RATE_TOOLS = "rate-tools"
    ABORT = "abort"
    STALL = "stall"
    DEAD_AIR = "dead-air"
    ORPHANED = "orphaned"  # this and the next are ours
    KEEPER_LOST = "keeper-lost"


class Kill(NamedTuple):
    reason: Reason
    detail: str


class Warn(NamedTuple):
    text: str


class Nudge(NamedTuple):
    """Wake the command up with SIGCONT: a stopped one has no other way on."""

    text: str


Decision = Kill | Warn | Nudge


class Minute:
    """Calls in a sliding window of a minute, as one source tells of them. It keeps one more than `limit`."""

    def __init__(self, limit: int) -> None:
        self.total = 0
        self._moments: deque[float] = deque(maxlen=limit + 1)

    def add(self, now: float, count: int) -> None:
        self.total += count
        self._moments.extend([now] * min(count, self._moments.maxlen or 0))

    def count(self, now: float) -> int:
        while self._moments and self._moments[0] <= now - WINDOW:
            self._moments.popleft()
        return len(self._moments)


class Source:
    """One kind of output: its reader, and the calls that it told of."""

    def __init__(self, usage: EventUsage | LineUsage, limits: Limits) -> None:
        self.usage = usage
        self.tools = Minute(limits.max_tool_calls)
        self.sends = Minute(limits.max_sends)

    def read(self, now: float, line: bytes) -> None:
        calls: Calls = self.usage.read(line)
        self.tools.add(now, calls.tools)
        self.sends.add(now, calls.sends)


class Watch:
    """What is known of one command while it runs."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.limits = limits
        self.began = now
        self.events = Source(EventUsage(), limits)
        self.lines = Source(LineUsage(), limits)
        self.got_first_output = False
        self.stalls = 0
        self.nudges = 0
        self.dead_air_checks = 0
        self._warned: set[Reason] = set()
        self._last_output = now
        self._last_use = now  # of the processor
        self._ticks: int | None = None
        self._looked = now
        self._nudged = 0  # since the last output
        self._in_stall = False

    # -- what happens

    def output(self, now: float) -> None:
        self.got_first_output = True
        self._last_output = now
        self._nudged = 0
        self._in_stall = False

    def used(self, now: float, ticks: int) -> None:
        """So much processor time the command has used. Any other number than before is a sign of life."""
        if ticks != self._ticks:
            self._last_use = now
        self._ticks = ticks
        self._looked = now
        if self.limits.dead_air_timeout:
            self.dead_air_checks += 1

    # -- what is known

    @property
    def tokens_in(self) -> int:
        return max(self.events.usage.tokens_in, self.lines.usage.tokens_in)

    @property
    def tokens_out(self) -> int:
        return max(self.events.usage.tokens_out, self.lines.usage.tokens_out)

    @property
    def tool_calls(self) -> int:
        return max(self.events.tools.total, self.lines.tools.total)

    @property
    def send_calls(self) -> int:
        return max(self.events.sends.total, self.lines.sends.total)

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.tokens_in, self.tokens_out, self.tool_calls, self.send_calls

    def tools_this_minute(self, now: float) -> int:
        return max(self.events.tools.count(now), self.lines.tools.count(now))

    def sends_this_minute(self, now: float) -> int:
        return max(self.events.sends.count(now), self.lines.sends.count(now))

    # -- what to do

    @property
    def stall_limit(self) -> float:
        """0: none."""
        return self.limits.stall_timeout if self.got_first_output else self.limits.startup_timeout

    @property
    def look_every(self) -> float | None:
        """Seconds between two looks at the processor time. None: no limit needs them."""
        wanted = []
        if self.stall_limit:
            wanted.append(min(LONGEST_LOOK, self.stall_limit / _LOOKS))
        if dead_air := self.limits.dead_air_timeout:
            longest = max(LONGEST_LOOK, dead_air / _MOST_LOOKS)
            wanted.append(max(SHORTEST_LOOK, min(longest, dead_air / _LOOKS)))
        return min(wanted, default=None)

    def look_at(self) -> float | None:
        """When to look at the processor time next; only silence makes it worth a look."""
        every = self.look_every
        return None if every is None else max(self._looked, self._last_output) + every

    def wake_at(self) -> float:
        """The next moment at which time alone may change a decision."""
        moments = [self.began + self.limits.timeout]
        if Reason.TIMEOUT not in self._warned:
            moments.append(self.began + WARN_AT * self.limits.timeout)
        look = self.look_at()
        if look is not None:
            moments.append(look)
        return min(moments)

    def decide(self, now: float) -> Iterator[Decision]:
        """What to do now. A Kill is the last decision."""
        over: Kill | None = None
        for reason, value, limit, words in self._measures(now):
            if self._is_late(now) if reason is Reason.TIMEOUT else value > limit:
                over = over or Kill(reason, f"{words}: {value:,.0f} of {limit:,.0f}")
            elif self._is_late(now, WARN_AT) if reason is Reason.TIMEOUT else value >= WARN_AT * limit:
                if reason not in self._warned:
                    self._warned.add(reason)
                    yield Warn(f"{WARN_AT:.0%} of a limit: {words}: {value:,.0f} of {limit:,.0f}")
            else:
                self._warned.discard(reason)  # a rate may come down, and rise again
        if over is not None:
            yield over
        else:
            yield from self._silence(now)

    def _is_late(self, now: float, share: float = 1) -> bool:
        """A sum, as in `wake_at`: a difference may be rounded to the other side of a limit."""
        return now >= self.began + share * self.limits.timeout

    def _measures(self, now: float) -> Iterator[tuple[Reason, float, float, str]]:
        limits = self.limits
        yield Reason.BUDGET, self.tokens_in + self.tokens_out, limits.budget, "tokens"
        yield Reason.TIMEOUT, now - self.began, limits.timeout, "seconds"
        yield Reason.RATE_SENDS, self.sends_this_minute(now), limits.max_sends, "sends in a minute"
        yield Reason.RATE_TOOLS, self.tools_this_minute(now), limits.max_tool_calls, "tool calls in a minute"

    def _silence(self, now: float) -> Iterator[Decision]:
        """Decide after a look only: without one it is not known whether the processor was used."""
        every = self.look_every
        if every is None or self._looked < now:
            return
        dead_air = self.limits.dead_air_timeout
        if dead_air and now >= max(self._last_output, self._last_use) + dead_air:
            yield Kill(Reason.DEAD_AIR, f"no output and no use of the processor for {dead_air:,.0f} seconds")
            return
        limit = self.stall_limit
        if not limit or now < self._last_output + limit:
            return
        if not self._in_stall:
            self._in_stall = True
            self.stalls += 1
        if now < self._last_use + every:
            return  # it is busy
        if self._nudged >= self.limits.max_nudges:
            yield Kill(Reason.STALL, f"no output for {now - self._last_output:,.0f} seconds")
            return
        self._nudged += 1
        self.nudges += 1
        yield Nudge(f"no output for {now - self._last_output:,.0f} seconds: nudge {self._nudged}")
