"""Who said that they are answering what, as far as an agent has heard (seed 003). No clock, no tasks: see `turns`.

Several agents may claim one message. Once the hall has given one of them the floor (FLOOR_CLAIMED), the others are
silent. On what a person said it gives the floor to none: there the earliest claim counts, of two of the same time
the one with the smaller id. A claim ends when its agent answers, releases it or leaves, and when its time is over.
"""

from typing import Final, Literal, NamedTuple

# Messages that are remembered as claimed or answered. A claim counts for 45 seconds (seed 003), and no channel is
# so busy that this many are said in them.
REMEMBERED: Final = 2048

Key = tuple[str, str]  # channel, message id
State = Literal["claimed", "answered", "released", "expired", "yielded", "left"]


class Claim(NamedTuple):
    """Who started to answer, and when (milliseconds, by its own clock). The smaller of two claims wins."""

    started_at: float
    holder: str  # an id without @


class Change(NamedTuple):
    """A claim began, or ended in this way."""

    key: Key
    holder: str  # an id without @
    state: State


class Board:
    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._claims: dict[Key, dict[str, Claim]] = {}  # those that stand, by holder
        self._floor: dict[Key, str] = {}  # to whom the hall gave it
        self._by_holder: dict[str, dict[Key, None]] = {}  # in the order of the claims
        self._answered: dict[Key, set[str]] = {}  # by whom: up to two, because one may be the author itself

    def claim(self, key: Key, claim: Claim, *, granted: bool) -> list[Change]:
        """An agent says that it answers, or the hall says (`granted`) that it is the one that does."""
        claims = self._claims.get(key, {})
        changes: list[Change] = []
        if granted:
            for other in [holder for holder in claims if holder != claim.holder]:
                changes += self._end(key, other, "yielded")
            self._floor[key] = claim.holder
        elif self._floor.get(key, claim.holder) != claim.holder:
            return []  # it will be told to yield
        if claim.holder not in claims:
            changes.append(Change(key, claim.holder, "claimed"))
        self._claims.setdefault(key, {})[claim.holder] = claim
        self._by_holder.setdefault(claim.holder, {})[key] = None
        if len(self._claims) > self._remembered:
            oldest = next(iter(self._claims))
            for holder in list(self._claims[oldest]):
                changes += self._end(oldest, holder, "expired")
        return changes

    def speak(self, channel: str, speaker: str, in_reply_to: str | None) -> list[Change]:
        """An agent said something in the channel.

        If it does not say what it answers, that is its oldest claim, and its other claims there end as well.
        """
        if in_reply_to is not None:
            self.answer((channel, in_reply_to), speaker)
            return self._end((channel, in_reply_to), speaker, "answered")
        claimed = [key for key in self._by_holder.get(speaker, ()) if key[0] == channel]
        changes: list[Change] = []
        for number, key in enumerate(claimed):
            if number == 0:
                self.answer(key, speaker)
            changes += self._end(key, speaker, "released" if number else "answered")
        return changes

    def answer(self, key: Key, speaker: str) -> None:
        """The message has an answer, perhaps from long ago."""
        speakers = self._answered.setdefault(key, set())
        if len(speakers) < 2:  # one that is not the author's
            speakers.add(speaker)
        if len(self._answered) > self._remembered:
            del self._answered[next(iter(self._answered))]

    def release(self, key: Key, holder: str, state: State) -> list[Change]:
        return self._end(key, holder, state)

    def depart(self, channel: str, holder: str) -> list[Change]:
        """An agent that left the channel answers nothing there any more."""
        claimed = [key for key in self._by_holder.get(holder, ()) if key[0] == channel]
        return [change for key in claimed for change in self._end(key, holder, "left")]

    def clear(self) -> list[Change]:
        """The connection is lost: what happens to these claims will not be heard."""
        claimed = [(key, holder) for key, claims in self._claims.items() for holder in claims]
        return [change for key, holder in claimed for change in self._end(key, holder, "expired")]

    def first(self, key: Key) -> Claim | None:
        """The claim on a message that has the floor."""
        claims = self._claims.get(key)
        if not claims:
            return None
        return claims.get(self._floor.get(key, "")) or min(claims.values())

    def stands(self, key: Key, holder: str) -> bool:
        return holder in self._claims.get(key, ())

    def is_answered(self, key: Key, author: str) -> bool:
        """True if an agent other than the author of the message has replied to it."""
        return bool(self._answered.get(key, set()) - {author})

    def open_claims(self, channel: str | None = None) -> list[tuple[Key, Claim]]:
        """The claims in a channel, or in all, in the order of their messages."""
        return [
            (key, claim)
            for key, claims in self._claims.items()
            if channel in (None, key[0])
            for claim in claims.values()
        ]

    def _end(self, key: Key, holder: str, state: State) -> list[Change]:
        claims = self._claims.get(key, {})
        if holder not in claims:
            return []
        del claims[holder]
        if not claims:
            del self._claims[key]
        if self._floor.get(key) == holder:
            del self._floor[key]
        keys = self._by_holder[holder]
        del keys[key]
        if not keys:
            del self._by_holder[holder]
        return [Change(key, holder, state)]
