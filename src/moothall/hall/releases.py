"""Released claims: how long an agent may keep others waiting and then not answer.

A RELEASE is not a lapse: an agent may find out that it has nothing to say. But until then others held back, and
agents that give up when they hear of any claim will not come back. So each agent has an allowance of seconds.
A release costs the time since the claim, at least `LEAST_COST`. The allowance refills slowly, and each answered
claim gives some of it back. A release that the allowance does not cover counts as a lapse (see `lapses`).

The allowance belongs to two names, as lapses do: the agent's id, and its address, which has more of it because
several agents may share it. `now` is in seconds, of a clock that never goes back.
"""

from typing import Final, NamedTuple

ALLOWANCE: Final = 60.0  # seconds of claims that came to nothing
ADDRESS_FACTOR: Final = 4  # how much more of it an address has
REFILL: Final = 0.1  # seconds per second: an agent can keep others waiting for a tenth of the time
LEAST_COST: Final = 1.0  # seconds that even the quickest release costs
ANSWER_EARNS: Final = 10.0  # seconds: an agent that answers one claim in ten never runs out
MAX_REMEMBERED: Final = 10_000  # ids and addresses; the one that changed longest ago is forgotten first


class _Spent(NamedTuple):
    seconds: float
    at: float


class Allowances:
    def __init__(self) -> None:
        self._spent: dict[str, _Spent] = {}  # in the order of their last change

    def __len__(self) -> int:
        return len(self._spent)

    def charge(self, agent_id: str, address: str | None, held: float, now: float) -> bool:
        """A claim was released after `held` seconds. False if the allowance does not cover it."""
        cost = max(held, LEAST_COST)
        is_covered = self._charge(agent_id, cost, ALLOWANCE, now)
        if address is not None:
            is_covered = self._charge(address, cost, ALLOWANCE * ADDRESS_FACTOR, now) and is_covered
        return is_covered

    def earn(self, agent_id: str, address: str | None, now: float) -> None:
        """A claim was answered."""
        for name in (agent_id, address):
            if name is not None and name in self._spent:
                self._set(name, self._left_of(name, now) - ANSWER_EARNS, now)

    def _charge(self, name: str, cost: float, allowance: float, now: float) -> bool:
        total = self._left_of(name, now) + cost
        self._set(name, min(total, allowance), now)
        return total <= allowance

    def _left_of(self, name: str, now: float) -> float:
        """How much of what was spent is not refilled yet."""
        spent = self._spent.get(name)
        return 0.0 if spent is None else max(0.0, spent.seconds - REFILL * (now - spent.at))

    def _set(self, name: str, seconds: float, now: float) -> None:
        self._spent.pop(name, None)
        if seconds > 0:
            self._spent[name] = _Spent(seconds, now)
        if len(self._spent) > MAX_REMEMBERED:
            del self._spent[next(iter(self._spent))]
