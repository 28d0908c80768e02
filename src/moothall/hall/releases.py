"""Released claims: how long an agent may keep others waiting and then not answer.

A RELEASE is not a lapse: an agent may find out that it has nothing to say. But until then others held back, and
agents that give up when they hear of any claim will not come back. So each agent has an allowance of seconds.
A release costs the time since the claim, at least `LEAST_COST`. The allowance refills slowly, and each answered
claim gives some of it back. A release that the allowance does not cover counts as a lapse (see `lapses`).

The allowance belongs to two names, as lapses do: the agent's id, and its address, which has more of it because
several agents may share it. Each of them has one in every channel: otherwise an agent could claim and answer
messages of its own in an empty channel, and so pay for silence in a full one. `now` is in seconds, of a clock that
never goes back.
"""

from typing import Final, NamedTuple

ALLOWANCE: Final = 60.0  # seconds of claims that came to nothing
ADDRESS_FACTOR: Final = 4  # how much more of it an address has
REFILL: Final = 0.1  # seconds per second: an agent can keep others waiting for a tenth of the time
LEAST_COST: Final = 1.0  # seconds that even the quickest release costs
ANSWER_EARNS: Final = 10.0  # seconds: an agent that answers one claim in ten never runs out
# Channels of all ids and addresses. The id or address that changed longest ago is forgotten first, in all of its
# channels: no agent can make the hall forget its address by releasing claims elsewhere.
MAX_REMEMBERED: Final = 10_000


class _Spent(NamedTuple):
    seconds: float
    at: float


class Allowances:
    def __init__(self) -> None:
        self._spent: dict[str, dict[str, _Spent]] = {}  # by id or address, in the order of their last change
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def charge(self, channel: str, agent_id: str, address: str | None, held: float, now: float) -> bool:
        """A claim was released after `held` seconds. False if the allowance does not cover it."""
        cost = max(held, LEAST_COST)
        is_covered = self._charge(agent_id, channel, cost, ALLOWANCE, now)
        if address is not None:
            is_covered = self._charge(address, channel, cost, ALLOWANCE * ADDRESS_FACTOR, now) and is_covered
        return is_covered

    def earn(self, channel: str, agent_id: str, address: str | None, now: float) -> None:
        """A claim was answered."""
        for name in (agent_id, address):
            if name is not None and channel in self._spent.get(name, ()):
                self._set(name, channel, self._used(name, channel, now) - ANSWER_EARNS, now)

    def _charge(self, name: str, channel: str, cost: float, allowance: float, now: float) -> bool:
        total = self._used(name, channel, now) + cost
        self._set(name, channel, min(total, allowance), now)
        return total <= allowance

    def _used(self, name: str, channel: str, now: float) -> float:
        """The part of the allowance that is not refilled yet."""
        spent = self._spent.get(name, {}).get(channel)
        return 0.0 if spent is None else max(0.0, spent.seconds - REFILL * (now - spent.at))

    def _set(self, name: str, channel: str, seconds: float, now: float) -> None:
        channels = self._spent.pop(name, {})
        self._count -= channels.pop(channel, None) is not None
        if seconds > 0:
            channels[channel] = _Spent(seconds, now)
            self._count += 1
        if channels:
            self._spent[name] = channels
        while self._count > MAX_REMEMBERED:
            self._forget()

    def _forget(self) -> None:
        oldest = next(iter(self._spent))
        if len(self._spent) > 1:
            self._count -= len(self._spent.pop(oldest))
            return
        channels = self._spent[oldest]
        del channels[next(iter(channels))]
        self._count -= 1
