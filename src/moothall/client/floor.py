"""How an agent takes turns: the wait before an answer, and what a mention is (seed 003; agentchat wire 9.5 and 10).

`answering` says which messages an agent answers at all, `board` knows the claims of others, and `turns` waits,
claims and gives way.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from moothall.client.spelling import several
from moothall.errors import SettingsError
from moothall.wire.agentchat.names import bare_id

AnswerHumans = Literal["all", "one"]

MIN_DELAY: Final = 2.0  # seconds (agentchat wire 9.5, CSMA)
MAX_DELAY: Final = 8.0
SETTLE: Final = 0.1
MAX_ROUNDS: Final = 6
# Characters of a message that are searched for skills and for others who are mentioned. Some halls take messages of
# two million. A hall looks for mentions in as many as this.
MAX_SEARCHED: Final = 4096
MIN_VARIABLE: Final = "AGENTCHAT_CSMA_MIN_MS"
MAX_VARIABLE: Final = "AGENTCHAT_CSMA_MAX_MS"

_WORDS: Final = re.compile(r"[\w+#]+")


@dataclass(frozen=True, slots=True)
class FloorPolicy:
    """How an agent takes turns.

    `min_delay` to `max_delay` seconds is the range of the wait before answering. An agent with `skills` answers
    in the first third of it when the message speaks of one of them, and in the second half when it does not.
    `answer_humans` is "one" when agents take turns to answer a person, "all" when each of them answers.
    `settle` is how many seconds a reply is held back after the claim was made, for an agent that started
    earlier to be heard of; a handler that thinks longer than that is not delayed.
    After `max_rounds` replies of agents to each other in a channel the agent is quiet there, until a person speaks,
    it is mentioned, or something is said that is not a reply.
    """

    min_delay: float = MIN_DELAY
    max_delay: float = MAX_DELAY
    skills: tuple[str, ...] = ()
    answer_humans: AnswerHumans = "one"
    settle: float = SETTLE
    max_rounds: int = MAX_ROUNDS

    def __post_init__(self) -> None:
        object.__setattr__(self, "skills", several(self.skills))
        if not 0 <= self.min_delay <= self.max_delay:
            raise ValueError("a floor policy needs 0 <= min_delay <= max_delay")
        if self.settle < 0:
            raise ValueError("`settle` is a number of seconds")
        if self.answer_humans not in ("all", "one"):
            raise ValueError('`answer_humans` is "all" or "one"')
        if self.max_rounds < 0:
            raise ValueError("`max_rounds` is a number of replies")

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        skills: tuple[str, ...] = (),
        answer_humans: AnswerHumans = "one",
        max_rounds: int = MAX_ROUNDS,
    ) -> "FloorPolicy":
        """With the range that AGENTCHAT_CSMA_MIN_MS and AGENTCHAT_CSMA_MAX_MS give."""
        shortest = _seconds(environ, MIN_VARIABLE, MIN_DELAY)
        longest = _seconds(environ, MAX_VARIABLE, MAX_DELAY)
        if longest < shortest:
            raise SettingsError(f"{MAX_VARIABLE} is less than {MIN_VARIABLE}: set both")
        return cls(shortest, longest, skills, answer_humans, max_rounds=max_rounds)

    def delay(self, content: str, random: Callable[[], float]) -> float:
        """Seconds to listen before answering this; `random` gives numbers in [0, 1)."""
        low, high = self.min_delay, self.max_delay
        if self.skills:
            if speaks_of(content, self.skills):
                high = low + (high - low) / 3
            else:
                low = (low + high) / 2
        return low + (high - low) * random()


def speaks_of(content: str, skills: Collection[str]) -> bool:
    """True if one of the skills occurs, as whole words, however they are joined: code-review, Code Review.

    Of a long text only the beginning counts.
    """
    text = _plain(content[:MAX_SEARCHED])
    return any(_plain(skill) in text for skill in skills)


def _plain(text: str) -> str:
    return f" {' '.join(_WORDS.findall(text.replace('_', ' ').casefold()))} "


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    if not text:
        return default
    try:
        seconds = float(text) / 1000
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise SettingsError(f"{name} is a number of milliseconds, not {text!r}")
    return seconds


def is_mentioned(content: str, names: Collection[str]) -> bool:
    """`@id` or `@name`, not as the beginning of a longer name."""
    if "@" not in content:
        return False
    return any(
        re.search(rf"@{re.escape(bare_id(name))}(?![A-Za-z0-9_-])", content) is not None for name in names
    )


class Asked(NamedTuple):
    """What the rules need to know of a message."""

    sender: str
    channel: str | None  # None for a direct message
    msg_id: str | None
    content: str
    is_human: bool
    in_reply_to: str | None = None
