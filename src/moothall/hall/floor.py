"""Floor control: of several agents that start to answer a message, the one that started first has the floor
(seed 003).

One claim per (channel, message) has the floor. `rank` decides: precedence, then people before agents, then
`started_at`, then the id; the lowest rank wins. The floor is advice: the hall never blocks a message. It is
free again when its holder answers, releases it, leaves the channel or disconnects, and after the time to live in
any case. A message that says what it answers ends that claim alone; any other message ends all claims of its
sender in the channel. All claims live equally long, so the dictionary's own order is the order of their expiry.

Messages that every agent may answer have no floor. Claims on them are shared: there may be several at once. They
end in the same ways.

A claim is also a promise to answer. Only a message to the channel keeps it, one message for each claim. Leaving
or disconnecting ends the claim, but not the promise. A promise that is not kept in time is a lapse, and costs
precedence (`lapses`). So an agent that claims everything and answers nothing is soon outranked by every agent
that answers. RELEASE takes a promise back, as often as the agent's allowance permits (`releases`).
"""

from itertools import islice
from typing import NamedTuple

from moothall.hall.lapses import Lapses, Precedence
from moothall.hall.releases import Allowances

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


class Ended(NamedTuple):
    """A claim whose time was over before it was answered."""

    key: Key
    holder: str


class Expiry(NamedTuple):
    lapses: list[Lapse]
    ended: list[Ended]


class Released(NamedTuple):
    """A claim that its agent gave back. `lapse` is set if its allowance did not cover this."""

    stood: bool  # it had not ended in another way
    lapse: Lapse | None


class Floor:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._claims: dict[Key, Claim] = {}  # in the order of their expiry
        self._held: dict[str, set[Key]] = {}
        self._shared: dict[str, set[Key]] = {}  # claims without a floor, by holder
        self._shared_count = 0
        self._promises: dict[int, Promise] = {}  # in the order of their deadlines
        self._owed: dict[str, dict[Key, int]] = {}  # by debtor, the oldest first
        self._serial = 0
        self._lapses = Lapses()
        self._allowances = Allowances()

    def __len__(self) -> int:
        """The number of open claims."""
        return len(self._claims) + self._shared_count

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
            self._promise((channel, msg_id), agent_id, address, now)
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

    def share(
        self, channel: str, msg_id: str, agent_id: str, now: float, *, address: str | None = None
    ) -> None:
        """Claim a message that every agent may answer."""
        key = (channel, msg_id)
        if key not in self._held.get(agent_id, ()) and key not in self._shared.get(agent_id, ()):
            self._shared.setdefault(agent_id, set()).add(key)
            self._shared_count += 1
        self._promise(key, agent_id, address, now)

    def concerns(self, agent_id: str) -> bool:
        """True if the agent has a floor or owes an answer."""
        return agent_id in self._owed or agent_id in self._held

    def answer(self, agent_id: str, channel: str, in_reply_to: str | None, now: float) -> None:
        """The agent spoke in the channel: one promise is kept.

        That is the one for `in_reply_to`, whose claim ends. If the message does not say what it answers, it is
        the oldest promise, and all claims of the agent in the channel end.
        """
        if in_reply_to is None:
            self.leave(agent_id, channel)
            kept = next((key for key in self._owed.get(agent_id, ()) if key[0] == channel), None)
        else:
            kept = (channel, in_reply_to)
            self._end(agent_id, kept)
        if kept is not None and kept in self._owed.get(agent_id, ()):
            address = self._settle(agent_id, kept).address
            self._allowances.earn(channel, agent_id, address, now)

    def release(self, channel: str, msg_id: str, agent_id: str, now: float) -> Released | None:
        """The agent takes its claim back. None if it has none."""
        key = (channel, msg_id)
        stood = self._end(agent_id, key)
        if key not in self._owed.get(agent_id, ()):
            return Released(stood, None) if stood else None
        promise = self._settle(agent_id, key)
        if self._allowances.charge(channel, agent_id, promise.address, now - promise.made_at, now):
            return Released(stood, None)
        is_news = self._lapses.add(agent_id, promise.address, promise.made_at, now)
        return Released(stood, Lapse(promise, is_news))

    def leave(self, agent_id: str, channel: str) -> None:
        """The agent left the channel: its claims there end."""
        for key in [key for key in self._keys(agent_id) if key[0] == channel]:
            self._end(agent_id, key)

    def drop(self, agent_id: str) -> None:
        """The agent is gone: all its claims end."""
        for key in self._keys(agent_id):
            self._end(agent_id, key)

    def holder(self, channel: str, msg_id: str, now: float) -> Claim | None:
        self.expire(now)
        return self._claims.get((channel, msg_id))

    def next_deadline(self) -> float | None:
        """The next time at which a claim expires or a promise is due."""
        first_claim = [claim.expires for claim in islice(self._claims.values(), 1)]
        first_promise = [promise.due for promise in islice(self._promises.values(), 1)]
        return min(first_claim + first_promise, default=None)

    def expire(self, now: float) -> Expiry:
        """End the claims whose time is over. Return them, and the promises that were broken."""
        lapses: list[Lapse] = []
        ended: list[Ended] = []
        while self._promises:
            promise = next(iter(self._promises.values()))
            if promise.due > now:
                break
            self._settle(promise.debtor, promise.key)
            # Counted from the deadline, however late this is called.
            is_news = self._lapses.add(promise.debtor, promise.address, promise.made_at, promise.due)
            lapses.append(Lapse(promise, is_news))
            if self._unshare(promise.debtor, promise.key):
                ended.append(Ended(promise.key, promise.debtor))
        while self._claims:
            key, claim = next(iter(self._claims.items()))
            if claim.expires > now:
                break
            self._release(key)
            ended.append(Ended(key, claim.holder))
        return Expiry(lapses, ended)

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
        self._promise(key, winner.holder, winner.address, now)

    def _promise(self, key: Key, agent_id: str, address: str | None, now: float) -> None:
        """The agent said that it answers. Saying it again gives it no more time."""
        if key not in self._owed.get(agent_id, ()):
            self._serial += 1
            self._owe(Promise(self._serial, now, now + self._ttl, agent_id, address, key))

    def _owe(self, promise: Promise) -> None:
        self._promises[promise.serial] = promise
        self._owed.setdefault(promise.debtor, {})[promise.key] = promise.serial

    def _settle(self, debtor: str, key: Key) -> Promise:
        return self._promises.pop(self._forgive(debtor, key))

    def _forgive(self, debtor: str, key: Key) -> int:
        owed = self._owed[debtor]
        serial = owed.pop(key)
        if not owed:
            del self._owed[debtor]
        return serial

    def _keys(self, agent_id: str) -> set[Key]:
        """The keys of the agent's claims."""
        return self._held.get(agent_id, set()) | self._shared.get(agent_id, set())

    def _end(self, agent_id: str, key: Key) -> bool:
        """End the agent's claim, if it has one. True if it had."""
        if key in self._held.get(agent_id, ()):
            self._release(key)
            return True
        return self._unshare(agent_id, key)

    def _unshare(self, agent_id: str, key: Key) -> bool:
        keys = self._shared.get(agent_id, set())
        if key not in keys:
            return False
        keys.remove(key)
        self._shared_count -= 1
        if not keys:
            del self._shared[agent_id]
        return True

    def _hold(self, key: Key, claim: Claim) -> None:
        self._unshare(claim.holder, key)  # it was mentioned by a name that it had then
        self._claims[key] = claim
        self._held.setdefault(claim.holder, set()).add(key)

    def _release(self, key: Key) -> None:
        claim = self._claims.pop(key)
        keys = self._held[claim.holder]
        keys.discard(key)
        if not keys:
            del self._held[claim.holder]
