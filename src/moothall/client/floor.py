"""Taking turns, the rules of it (seed 003; agentchat wire 9.5 and 10). No clock, no tasks: see `turns`.

Before it answers, an agent waits a random while and listens. If another one has claimed or answered the message
meanwhile, it stays silent; otherwise it claims the message with the time at which it starts. Of two claims the
earlier wins, of two of the same time the one with the smaller id.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from moothall.client.spelling import several
from moothall.errors import SettingsError
from moothall.wire.agentchat.names import SERVER, bare_id

AnswerHumans = Literal["all", "one"]

MIN_DELAY: Final = 2.0  # seconds (agentchat wire 9.5, CSMA)
MAX_DELAY: Final = 8.0
SETTLE: Final = 0.1
MIN_VARIABLE: Final = "AGENTCHAT_CSMA_MIN_MS"
MAX_VARIABLE: Final = "AGENTCHAT_CSMA_MAX_MS"

# Messages that are remembered as claimed or answered. A claim counts for 45 seconds (seed 003), and no channel is
# so busy that this many are said in them.
REMEMBERED: Final = 2048

_WORDS: Final = re.compile(r"[\w+#]+")


@dataclass(frozen=True, slots=True)
class FloorPolicy:
    """How an agent takes turns.

    `min_delay` to `max_delay` seconds is the range of the wait before answering. An agent with `skills` answers
    in the first third of it when the message speaks of one of them, and in the second half when it does not.
    `answer_humans` is "all" when everybody may answer a person, "one" when agents take turns there too.
    `settle` is how many seconds a reply is held back after the claim was made, for an agent that started
    earlier to be heard of; a handler that thinks longer than that is not delayed.
    """

    min_delay: float = MIN_DELAY
    max_delay: float = MAX_DELAY
    skills: tuple[str, ...] = ()
    answer_humans: AnswerHumans = "all"
    settle: float = SETTLE

    def __post_init__(self) -> None:
        object.__setattr__(self, "skills", several(self.skills))
        if not 0 <= self.min_delay <= self.max_delay:
            raise ValueError("a floor policy needs 0 <= min_delay <= max_delay")
        if self.settle < 0:
            raise ValueError("`settle` is a number of seconds")
        if self.answer_humans not in ("all", "one"):
            raise ValueError('`answer_humans` is "all" or "one"')

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str],
        *,
        skills: tuple[str, ...] = (),
        answer_humans: AnswerHumans = "all",
    ) -> "FloorPolicy":
        """With the range that AGENTCHAT_CSMA_MIN_MS and AGENTCHAT_CSMA_MAX_MS give."""
        shortest = _seconds(environ, MIN_VARIABLE, MIN_DELAY)
        longest = _seconds(environ, MAX_VARIABLE, MAX_DELAY)
        if longest < shortest:
            raise SettingsError(f"{MAX_VARIABLE} is less than {MIN_VARIABLE}: set both")
        return cls(shortest, longest, skills, answer_humans)

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
    """Whether one of the skills occurs, as whole words, however they are joined: code-review, Code Review."""
    text = _plain(content)
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


def is_exempt(asked: Asked, names: Collection[str], answer_humans: AnswerHumans) -> bool:
    """Whether an agent of these names answers at once, whoever else does (seed 003, exemptions)."""
    if asked.channel is None or asked.msg_id is None:
        return True  # nothing that could be claimed
    if asked.sender == SERVER or is_mentioned(asked.content, names):
        return True
    return asked.is_human and answer_humans == "all"


class Claim(NamedTuple):
    """Who started to answer, and when (milliseconds, by its own clock). The smaller of two claims wins."""

    started_at: float
    holder: str  # an id without @


class Board:
    """What was heard of other agents' claims and answers."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._claims: dict[tuple[str, str], Claim] = {}  # the earliest heard of, by channel and message
        self._answered: dict[tuple[str, str], bool] = {}

    def claim(self, channel: str, msg_id: str, claim: Claim) -> None:
        key = (channel, msg_id)
        standing = self._claims.get(key)
        if standing is None or claim < standing:
            self._claims[key] = claim
        self._forget(self._claims)

    def answer(self, channel: str, msg_id: str) -> None:
        self._answered[channel, msg_id] = True
        self._forget(self._answered)

    def depart(self, channel: str, holder: str) -> None:
        """An agent that left the channel answers nothing there any more."""
        for key in [
            key for key, claim in self._claims.items() if (key[0], claim.holder) == (channel, holder)
        ]:
            del self._claims[key]

    def holder(self, channel: str, msg_id: str) -> str | None:
        claim = self._claims.get((channel, msg_id))
        return claim.holder if claim is not None else None

    def is_taken(self, channel: str, msg_id: str) -> bool:
        return (channel, msg_id) in self._claims or (channel, msg_id) in self._answered

    def _forget(self, heard: dict[tuple[str, str], Claim] | dict[tuple[str, str], bool]) -> None:
        if len(heard) > self._remembered:
            del heard[next(iter(heard))]
