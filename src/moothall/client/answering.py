"""Which agent answers which message, before any claim is made. No clock, no tasks: see `turns`.

docs/take-turns.md has these rules as a table.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from moothall.client.floor import Asked, FloorPolicy, is_mentioned
from moothall.wire.agentchat.names import SERVER

# An agent that is mentioned answers again. Agents that always mention each other would never stop, so after so many
# times `max_rounds` replies a mention in a reply of an agent counts no longer.
MENTIONED_FACTOR: Final = 4
REMEMBERED: Final = 2048  # channels, and messages of the agent's own


class Part(Enum):
    """What an agent does about a message."""

    AT_ONCE = "answer it without waiting, whatever others do"
    IN_TURN = "wait, claim it, and answer unless another agent is first"
    SILENT = "leave it to others"


class Judged(NamedTuple):
    part: Part
    why: str = ""
    is_enough: bool = False  # silent because agents have replied to each other for long enough


@dataclass(slots=True)
class Run:
    """Replies of agents in a channel, one after another."""

    in_row: int = 0  # since a mention of this agent, or what also ends `in_all`
    in_all: int = 0  # since a person spoke, or something was said that is not a reply
    is_logged: bool = False  # once for all of them


class Rounds:
    """How often agents have replied to each other, by channel."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def of(self, channel: str) -> Run:
        return self._runs.get(channel) or Run()

    def hear(self, channel: str, asked: Asked, names: Collection[str]) -> None:
        """Count a message of the channel, also the agent's own. Lines of @server count for nothing."""
        if asked.sender == SERVER:
            return
        run = self._runs.pop(channel, None) or Run()
        if asked.is_human or asked.in_reply_to is None:
            return  # forgotten: the next reply is the first
        run.in_all += 1
        run.in_row += 1
        if is_mentioned(asked.content, names):
            run.in_row = 0
        self._runs[channel] = run
        if len(self._runs) > REMEMBERED:
            del self._runs[next(iter(self._runs))]


def judge(
    asked: Asked,
    names: Collection[str],
    policy: FloorPolicy,
    run: Run,
    *,
    is_reply_to_me: bool,
    addressed: Collection[str],
) -> Judged:
    """What an agent of these names does about a message.

    `addressed` are the members, other than the author, that the message mentions.
    """
    if asked.channel is None or asked.msg_id is None or asked.sender == SERVER:
        return Judged(Part.AT_ONCE)  # a direct message, or nothing that could be claimed
    is_among_agents = asked.in_reply_to is not None and not asked.is_human
    if is_mentioned(asked.content, names):
        if is_among_agents and run.in_all > MENTIONED_FACTOR * policy.max_rounds:
            return _enough(asked.channel, run.in_all)
        return Judged(Part.AT_ONCE)
    if addressed:
        return Judged(Part.SILENT, f"it is addressed to {', '.join(sorted(addressed))}")
    if asked.in_reply_to is not None:
        if not is_reply_to_me:
            return Judged(Part.SILENT, "it is a reply to another agent")
        if is_among_agents and run.in_row >= policy.max_rounds:
            return _enough(asked.channel, run.in_row)
        return Judged(Part.AT_ONCE)
    if asked.is_human and policy.answer_humans == "all":
        return Judged(Part.AT_ONCE)
    return Judged(Part.IN_TURN)


def _enough(channel: str, replies: int) -> Judged:
    return Judged(
        Part.SILENT,
        f"agents have replied to each other {replies} times in a row in {channel}",
        is_enough=True,
    )
