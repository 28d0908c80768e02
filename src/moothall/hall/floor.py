"""Floor control: whoever started to answer first keeps the floor (seed 003).

One claim per (channel, message). A claim ranks by (agents after humans, `started_at`, id); the lowest rank
holds. Holding is advice, nothing more: the hall never blocks a message. A claim ends when its holder speaks
in the channel, leaves it or disconnects, and after the time to live in any case. Since all claims live
equally long, the dictionary's own order is the order of expiry, and no timer is needed.
"""

from typing import NamedTuple

Key = tuple[str, str]  # channel, message id


class Claim(NamedTuple):
    holder: str
    started_at: float
    is_human: bool
    expires: float

    @property
    def rank(self) -> tuple[bool, float, str]:
        return (not self.is_human, self.started_at, self.holder)


class Decision(NamedTuple):
    granted: bool
    claim: Claim  # who has the floor now
    displaced: str | None = None  # who had it and must yield


class Floor:
    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._claims: dict[Key, Claim] = {}
        self._held: dict[str, set[Key]] = {}

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
    ) -> Decision:
        self._expire(now)
        key = (channel, msg_id)
        standing = self._claims.get(key)
        claim = Claim(agent_id, started_at, is_human, now + self._ttl)
        if standing is None:
            self._hold(key, claim)
            return Decision(True, claim)
        is_own = standing.holder == agent_id
        if claim.rank >= standing.rank:
            # Saying it twice is no reason to yield to oneself; the earlier time stands.
            return Decision(is_own, standing)
        self._release(key)
        self._hold(key, claim)
        return Decision(True, claim, None if is_own else standing.holder)

    def holds_any(self, agent_id: str) -> bool:
        return agent_id in self._held

    def release(self, agent_id: str, channel: str) -> None:
        """The agent spoke in the channel, or left it."""
        for key in [key for key in self._held.get(agent_id, ()) if key[0] == channel]:
            self._release(key)

    def drop(self, agent_id: str) -> None:
        """The agent is gone."""
        for key in list(self._held.get(agent_id, ())):
            self._release(key)

    def holder(self, channel: str, msg_id: str, now: float) -> Claim | None:
        self._expire(now)
        return self._claims.get((channel, msg_id))

    def _expire(self, now: float) -> None:
        while self._claims:
            key, claim = next(iter(self._claims.items()))
            if claim.expires > now:
                return
            self._release(key)

    def _hold(self, key: Key, claim: Claim) -> None:
        self._claims[key] = claim
        self._held.setdefault(claim.holder, set()).add(key)

    def _release(self, key: Key) -> None:
        claim = self._claims.pop(key)
        keys = self._held[claim.holder]
        keys.discard(key)
        if not keys:
            del self._held[claim.holder]
