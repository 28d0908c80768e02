"""Which messages an agent has heard, so that it hears none twice and knows which ones it missed.

A channel replays its last messages to an agent that joins. So an agent that was away joins again to find out what
was said meanwhile (agentchat wire 9.2).
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from moothall.client.events import MissedIn
from moothall.client.message import ChatLine, Message

REMEMBERED: Final = 256  # messages per channel: more than a channel repeats (200 in the reference)

Key = str | tuple[int, str, str]


def key_of(line: ChatLine) -> Key:
    """What makes a message that message; lines of the server's own have no id."""
    return line.id or (line.ts_ms, line.sender, line.content)


class Mark(NamedTuple):
    """How far an agent has heard a channel."""

    keys: frozenset[Key]
    last: int  # when the last one was said, by the hall's clock, in milliseconds


class Memory:
    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._heard: dict[str, dict[Key, int]] = {}
        self._last: dict[str, int] = {}

    def hear(self, channel: str, key: Key, said_at: int) -> bool:
        """True if the agent hears this message for the first time."""
        heard = self._heard.setdefault(channel, {})
        if key in heard:
            return False
        if len(heard) >= self._remembered:
            oldest = next(iter(heard))
            if said_at < heard[oldest]:
                return False  # from before anything that is remembered
            del heard[oldest]
        heard[key] = said_at
        self._last[channel] = max(said_at, self._last.get(channel, 0))
        return True

    def knows(self, channel: str, key: Key) -> bool:
        return key in self._heard.get(channel, ())

    def mark(self, channel: str) -> Mark:
        return Mark(frozenset(self._heard.get(channel, ())), self._last.get(channel, 0))

    def forget(self, channel: str) -> None:
        self._heard.pop(channel, None)
        self._last.pop(channel, None)


class Replayed(NamedTuple):
    """A message that a channel repeated."""

    message: Message
    is_news: bool  # not heard before, and not the agent's own


def find_missed(mark: Mark, replayed: Sequence[Replayed]) -> MissedIn:
    """What a channel repeats that is newer than the mark, and whether nothing can be lost in between.

    It is complete when the channel still remembers something from before: then its memory covers the whole
    gap. A channel in which nothing was ever said, before or after, has nothing to lose either.
    """
    missed = tuple(message for message, is_news in replayed if is_news and message.ts_ms >= mark.last)
    overlaps = any(key_of(message) in mark.keys for message, _ in replayed)
    return MissedIn(missed, overlaps or not (mark.keys or replayed))
