"""Moderation: what happens to a message that breaks the house rules (agentchat wire 16.5).

Three parts that do not know each other, and `Moderation`, which is all of them for halls that want it:

- `Pipeline` asks every plug-in that has a say in a channel, and the strictest opinion wins.
- `Escalation` remembers who broke rules before: first a warning, then slower, then silence, then the door.
- `LinkDetector` is a plug-in: newcomers who have proven nothing are warned when they post links.

`now` is in seconds, of a clock that never goes back.
"""

import re
from collections import deque
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from moothall.errors import NotAllowed
from moothall.hall.session import Agent
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, Kicked
from moothall.wire.websocket import NORMAL

if TYPE_CHECKING:
    from moothall.hall.hall import Hall


class Action(IntEnum):
    """From the mildest to the strictest."""

    ALLOW = 0
    WARN = 1
    THROTTLE = 2
    BLOCK = 3
    TIMEOUT = 4
    KICK = 5


class Post(NamedTuple):
    """A message on its way to a channel, or to one agent when there is no channel."""

    agent_id: str
    channel: str | None
    content: str
    verified: bool
    admin: bool
    connected_at: float


class Opinion(NamedTuple):
    action: Action
    reason: str = ""


_NO_OBJECTION: Final = Opinion(Action.ALLOW)


class Moderator(Protocol):
    """A plug-in. It sees every message, so that it can count; it must not keep the hall waiting."""

    @property
    def name(self) -> str: ...

    @property
    def fails_closed(self) -> bool:
        """True if a message is blocked, rather than let through, when this plug-in cannot judge it."""

    @property
    def failures(self) -> tuple[type[Exception], ...]:
        """What it raises when it cannot judge. Anything else is a bug and goes where bugs go."""

    def review(self, post: Post, now: float) -> Opinion: ...


class Ruling(NamedTuple):
    action: Action
    reason: str = ""
    moderator: str = ""  # name of the moderator that decided; empty when the message is allowed
    failed: tuple[str, ...] = ()  # who could not judge


_ALLOWED: Final = Ruling(Action.ALLOW)


class Pipeline:
    def __init__(
        self,
        everywhere: Iterable[Moderator] = (),
        in_channel: Mapping[str, Iterable[Moderator]] | None = None,
    ) -> None:
        self._everywhere = tuple(everywhere)
        self._in_channel = {channel: tuple(own) for channel, own in (in_channel or {}).items()}

    def review(self, post: Post, now: float) -> Ruling:
        """The strictest opinion; of equally strict ones the first."""
        if post.admin:
            return _ALLOWED
        ruling = _ALLOWED
        failed: list[str] = []
        for moderator in self._moderators(post.channel):
            try:
                opinion = moderator.review(post, now)
            except moderator.failures:
                failed.append(moderator.name)
                opinion = _without_judgement(moderator)
            if opinion.action > ruling.action:
                ruling = Ruling(opinion.action, opinion.reason, moderator.name)
        return ruling._replace(failed=tuple(failed)) if failed else ruling

    def _moderators(self, channel: str | None) -> tuple[Moderator, ...]:
        if channel is None:
            return self._everywhere
        return self._everywhere + self._in_channel.get(channel, ())


def _without_judgement(moderator: Moderator) -> Opinion:
    if moderator.fails_closed:
        return Opinion(Action.BLOCK, f"{moderator.name} cannot judge messages at the moment")
    return _NO_OBJECTION


class Rules(NamedTuple):
    """How repeated violations escalate. Times are in seconds (agentchat wire 16.5)."""

    window: float = 60  # violations older than this no longer add up
    warn_after: int = 3
    throttle_after: int = 6
    spacing: float = 5  # between two messages of a throttled agent
    timeout_after: int = 10
    timeout: float = 60
    kick_after: int = 3  # timeouts
    timeouts_remembered: float = 3600
    decay: float = 300  # without a violation, per level


DEFAULT_RULES: Final = Rules()

# The level of an agent, and what a further violation gets it there. A new timeout is not among these: it
# takes as many fresh violations as the first one did.
_CALM, _WARNED, _THROTTLED, _TIMED_OUT = range(4)
_MEASURES: Final = (Action.ALLOW, Action.WARN, Action.THROTTLE, Action.THROTTLE)


class _Record:
    """What is remembered of one agent."""

    __slots__ = ("_level", "_rules", "last_post", "last_violation", "silent_until", "timeouts", "violations")

    def __init__(self, rules: Rules, now: float) -> None:
        self._rules = rules
        self._level = _CALM
        self.violations: deque[float] = deque(maxlen=rules.timeout_after)
        self.timeouts: deque[float] = deque(maxlen=rules.kick_after)
        self.last_violation = now
        self.last_post = now
        self.silent_until = now

    def level(self, now: float) -> int:
        decayed = int((now - self.last_violation) // self._rules.decay)
        return max(_CALM, self._level - decayed)

    def violate(self, now: float) -> Action:
        self.violations.append(now)
        reached = self._reached(now)
        self._level = max(self.level(now), reached)
        self.last_violation = self.last_post = now
        return self._time_out(now) if reached == _TIMED_OUT else _MEASURES[self._level]

    def _reached(self, now: float) -> int:
        count = _younger_than(self._rules.window, self.violations, now)
        thresholds = (self._rules.warn_after, self._rules.throttle_after, self._rules.timeout_after)
        return sum(count >= threshold for threshold in thresholds)

    def _time_out(self, now: float) -> Action:
        self.violations.clear()  # the same violations are not punished twice
        self.timeouts.append(now)
        self.silent_until = now + self._rules.timeout
        remembered = _younger_than(self._rules.timeouts_remembered, self.timeouts, now)
        return Action.KICK if remembered >= self._rules.kick_after else Action.TIMEOUT

    def is_spent(self, now: float) -> bool:
        """True if the record has no effect any more."""
        return (
            self.level(now) == _CALM
            and now >= self.silent_until
            and not _younger_than(self._rules.window, self.violations, now)
            and not _younger_than(self._rules.timeouts_remembered, self.timeouts, now)
        )


def _younger_than(seconds: float, times: Iterable[float], now: float) -> int:
    return sum(now - time < seconds for time in times)


class Escalation:
    def __init__(self, rules: Rules = DEFAULT_RULES) -> None:
        self._rules = rules
        # In the order of their last violation, so that the ones to forget are at the front.
        self._records: dict[str, _Record] = {}

    def __len__(self) -> int:
        """The number of agents with a record."""
        return len(self._records)

    def violation(self, agent_id: str, now: float) -> Action:
        """Count a violation. Return the action that follows from it."""
        self._forget_spent(now)
        record = self._records.get(agent_id) or _Record(self._rules, now)
        if now < record.silent_until:
            return Action.TIMEOUT
        self._records.pop(agent_id, None)
        self._records[agent_id] = record
        return record.violate(now)

    def admit(self, agent_id: str, now: float) -> Action:
        """Whether the agent may post now: ALLOW, THROTTLE or TIMEOUT. To be asked once per message."""
        record = self._records.get(agent_id)
        if record is None:
            return Action.ALLOW
        if now < record.silent_until:
            return Action.TIMEOUT
        if record.level(now) >= _THROTTLED and now - record.last_post < self._rules.spacing:
            return Action.THROTTLE
        record.last_post = now
        return Action.ALLOW

    def level(self, agent_id: str, now: float) -> int:
        """0 for no complaints, 1 warned, 2 throttled, 3 timed out and not yet back to throttled."""
        record = self._records.get(agent_id)
        return record.level(now) if record else _CALM

    def _forget_spent(self, now: float) -> None:
        while self._records:
            agent_id, oldest = next(iter(self._records.items()))
            if not oldest.is_spent(now):
                return
            del self._records[agent_id]


NEWCOMER_SECONDS: Final = 300.0  # agentchat wire 16.5
_LINK: Final = re.compile(r"\b(?:https?://|www\.)[^\s.]", re.IGNORECASE)


class LinkDetector:
    """Links from connections that are new and unverified get a warning."""

    name = "links"
    fails_closed = False
    failures: tuple[type[Exception], ...] = ()

    def __init__(self, newcomer_seconds: float = NEWCOMER_SECONDS) -> None:
        self._newcomer_seconds = newcomer_seconds

    def review(self, post: Post, now: float) -> Opinion:
        if post.verified or now - post.connected_at >= self._newcomer_seconds:
            return _NO_OBJECTION
        if _LINK.search(post.content) is None:
            return _NO_OBJECTION
        return Opinion(Action.WARN, "links from new, unverified agents are not welcome")


_WARNINGS: Final = {
    Action.WARN: "Please slow down: you are breaking this hall's rules",
    Action.THROTTLE: "You are throttled: leave a few seconds between messages",
    Action.TIMEOUT: "You are timed out for a minute",
}


class Moderation:
    """Where the rules meet the wire. Running into a rate limit is an offence, and so is a message that a moderator
    objects to."""

    def __init__(self, pipeline: Pipeline, escalation: Escalation) -> None:
        self._pipeline = pipeline
        self._escalation = escalation

    def review(self, hall: "Hall", agent: Agent, content: str, channel: str | None) -> None:
        """Let a message through, or refuse it."""
        now = hall.now()
        state = self._escalation.admit(agent.id, now)
        if state is not Action.ALLOW:
            raise NotAllowed(_WARNINGS[state])
        age = hall.clock.time() - agent.session.connected_at
        post = Post(agent.id, channel, content, agent.key is not None, admin=False, connected_at=now - age)
        ruling = self._pipeline.review(post, now)
        if ruling.action is Action.ALLOW:
            return
        hall.note(
            "moderated",
            ip=agent.session.ip,
            agent=agent.id,
            action=ruling.action.name,
            moderator=ruling.moderator,
        )
        if ruling.action is Action.KICK:
            self._kick(hall, agent, ruling.reason)
        else:
            self.offence(hall, agent)
        if agent.session.closed:
            raise NotAllowed("You were kicked from this hall by moderation")
        if ruling.action >= Action.THROTTLE:
            raise NotAllowed(ruling.reason or _WARNINGS.get(ruling.action, "Moderation refused this message"))
        self._warn(hall, agent, ruling.reason)

    def offence(self, hall: "Hall", agent: Agent) -> None:
        action = self._escalation.violation(agent.id, hall.now())
        if action is Action.KICK:
            self._kick(hall, agent, "Too many offences")
        elif action is not Action.ALLOW:
            hall.note("escalated", ip=agent.session.ip, agent=agent.id, action=action.name)
            self._warn(hall, agent, _WARNINGS[action])

    def _warn(self, hall: "Hall", agent: Agent, reason: str) -> None:
        line = Chat(
            ts=hall.timestamp(),
            from_=SERVER,
            from_name="Server",
            to=agent.address,
            content=f"Warning: {reason}",
        )
        hall.delivery.tell(agent, line)

    def _kick(self, hall: "Hall", agent: Agent, reason: str) -> None:
        hall.note("kicked_by_moderation", ip=agent.session.ip, agent=agent.id)
        hall.delivery.tell(agent, Kicked(ts=hall.timestamp(), reason=reason))
        hall.close(agent.session, NORMAL, "Kicked by moderation")
