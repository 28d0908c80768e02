"""Floor control: of several agents that start to answer a message, the one that started first has the floor
(seed 003).

One claim per (channel, message) has the floor. `rank` decides: precedence, then people before agents, then
`started_at`, then the id; the lowest rank wins. The floor is advice: the hall never blocks a message. It is
free again when its holder speaks in the channel, leaves it or disconnects, and after the time to live in any
case. All claims live equally long, so the dictionary's own order is the order of their expiry.

A claim is also a promise to answer. Only a message to the channel keeps it, one message for each claim. Leaving
or disconnecting frees the floor, but not from the promise. A promise that is not kept in time is a lapse, and
costs precedence (`lapses`). So an agent that claims everything and answers nothing is soon outranked by every
agent that answers.
"""

from itertools import islice
from typing import NamedTuple

from moothall.hall.lapses import Lapses, Precedence

Key = tuple[str, str]  # channel, message id


class Claim(NamedTuple):
    holder: str
    started_at: float
    is_human: bool
    expires: float
    address: str | None = None  # of the holder; None on loopback, where all have the same


class Decision(NamedTuple):
    granted: bool
    claim: Claim  # what has the floor now
    displaced: str | None = None  # who had it and must yield


class Promise(NamedTuple):
    """An answer that is due. An earlier claim that takes the floor takes over the promise, with its deadline."""

    serial: int
    made_at: float
    due: float
    debtor: str
    address: str | None
    key: Key


class Lapse(NamedTuple):
    promise: Promise
    is_news: bool  # the agent had its full precedence until now


class Floor:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._claims: dict[Key, Claim] = {}  # in the order of their expiry
        self._held: dict[str, set[Key]] = {}
        self._promises: dict[int, Promise] = {}  # in the order of their deadlines
        self._owed: dict[str, dict[Key, int]] = {}  # by debtor, the oldest first
        self._serial = 0
        self._lapses = Lapses()

    def __len__(self) -> int:
        return len(self._claims)

    def claim(
        self,
        channel: str,
        msg_id: str,
        agent_id: str,
        started_at: float,
        now: float,
        *,
        is_human: bool = False,
        address: str | None = None,
    ) -> Decision:
        self.expire(now)
        key = (channel, msg_id)
        standing = self._claims.get(key)
        claim = Claim(agent_id, started_at, is_human, now + self._ttl, address)
        if standing is None:
            self._hold(key, claim)
            self.promise(channel, msg_id, agent_id, now, address=address)
            return Decision(True, claim)
        is_own = standing.holder == agent_id
        if self.rank(claim, now) >= self.rank(standing, now):
            # An agent does not yield to itself. Of its two times the earlier one stands.
            return Decision(is_own, standing)
        if is_own:
            # It began earlier than it said at first. That gives it no more time.
            claim = self._claims[key] = claim._replace(expires=standing.expires)
            return Decision(True, claim)
        self._release(key)
        self._hold(key, claim)
        self._pass_on(key, standing, claim, now)
        return Decision(True, claim, standing.holder)

    def rank(self, claim: Claim, now: float) -> tuple[Precedence, bool, float, str]:
        """The lowest has the floor. "Human" is an agent's own word, so precedence comes before it."""
        return (
            self.precedence(claim.holder, claim.address, now),
            not claim.is_human,
            claim.started_at,
            claim.holder,
        )

    def precedence(self, agent_id: str, address: str | None, now: float) -> Precedence:
        return self._lapses.precedence(agent_id, address, now)

    def promise(
        self, channel: str, msg_id: str, agent_id: str, now: float, *, address: str | None = None
    ) -> None:
        """The agent said that it answers. Saying it again gives it no more time."""
        key = (channel, msg_id)
        if key not in self._owed.get(agent_id, ()):
            self._serial += 1
            self._owe(Promise(self._serial, now, now + self._ttl, agent_id, address, key))

    def concerns(self, agent_id: str) -> bool:
        """True if the agent has a floor or owes an answer."""
        return agent_id in self._owed or agent_id in self._held

    def answer(self, agent_id: str, channel: str, in_reply_to: str | None = None) -> None:
        """The agent spoke in the channel: all its floors there are free, and one promise is kept.

        That is the one for `in_reply_to`, or the oldest if the message does not say what it answers.
        """
        self.release(agent_id, channel)
        owed = [key for key in self._owed.get(agent_id, ()) if key[0] == channel]
        kept = owed[0] if in_reply_to is None and owed else (channel, in_reply_to)
        if kept in owed:
            self._settle(agent_id, kept)

    def release(self, agent_id: str, channel: str) -> None:
        """The agent left the channel: its floors there are free."""
        for key in [key for key in self._held.get(agent_id, ()) if key[0] == channel]:
            self._release(key)

    def drop(self, agent_id: str) -> None:
        """The agent is gone: all its floors are free."""
        for key in list(self._held.get(agent_id, ())):
            self._release(key)

    def holder(self, channel: str, msg_id: str, now: float) -> Claim | None:
        self.expire(now)
        return self._claims.get((channel, msg_id))

    def next_deadline(self) -> float | None:
        """When `expire` has something to do."""
        first_claim = [claim.expires for claim in islice(self._claims.values(), 1)]
        first_promise = [promise.due for promise in islice(self._promises.values(), 1)]
        return min(first_claim + first_promise, default=None)

    def expire(self, now: float) -> list[Lapse]:
        """End the claims whose time is over. The promises that were broken."""
        lapses: list[Lapse] = []
        while self._promises:
            promise = next(iter(self._promises.values()))
            if promise.due > now:
                break
            self._settle(promise.debtor, promise.key)
            # Counted from the deadline, however late this is called.
            is_news = self._lapses.add(promise.debtor, promise.address, promise.made_at, promise.due)
            lapses.append(Lapse(promise, is_news))
        while self._claims:
            key, claim = next(iter(self._claims.items()))
            if claim.expires > now:
                break
            self._release(key)
        return lapses

    def _pass_on(self, key: Key, loser: Claim, winner: Claim, now: float) -> None:
        """The loser has to yield and owes nothing. The winner owes the answer.

        A winner of the same precedence and kind says that it started earlier, so its time is over no later than
        the loser's. Otherwise two agents could take the floor from each other for ever, and neither would
        lapse. Any other winner may come much later, and has its own time.
        """
        serial = self._owed.get(loser.holder, {}).get(key)
        is_alike = self.rank(loser, now)[:2] == self.rank(winner, now)[:2]
        if serial is not None and is_alike and key not in self._owed.get(winner.holder, ()):
            # In the place of the loser's, because the order is that of the deadlines.
            due = self._promises[serial].due
            self._forgive(loser.holder, key)
            self._owe(Promise(serial, now, due, winner.holder, winner.address, key))
            return
        if serial is not None:
            self._settle(loser.holder, key)
        self.promise(*key, winner.holder, now, address=winner.address)

    def _owe(self, promise: Promise) -> None:
        self._promises[promise.serial] = promise
        self._owed.setdefault(promise.debtor, {})[promise.key] = promise.serial

    def _settle(self, debtor: str, key: Key) -> None:
        del self._promises[self._forgive(debtor, key)]

    def _forgive(self, debtor: str, key: Key) -> int:
        owed = self._owed[debtor]
        serial = owed.pop(key)
        if not owed:
            del self._owed[debtor]
        return serial

    def _hold(self, key: Key, claim: Claim) -> None:
        self._claims[key] = claim
        self._held.setdefault(claim.holder, set()).add(key)

    def _release(self, key: Key) -> None:
        claim = self._claims.pop(key)
        keys = self._held[claim.holder]
        keys.discard(key)
        if not keys:
            del self._held[claim.holder]
