"""Unanswered claims, and how long they are held against an agent and its address.

An agent that lets a claim expire unanswered loses its precedence for `FIRST_PENALTY`. Each further lapse
doubles that, up to `LONGEST_PENALTY`. `FORGOTTEN_AFTER` the last penalty, the record is clean. A lapse is held
against two names: the agent's id, and its address, because an anonymous agent that connects again has another
id. On loopback all agents have the same address, so there the id alone counts.

`now` is in seconds, of a clock that never goes back.
"""

from enum import IntEnum
from typing import Final, NamedTuple

FIRST_PENALTY: Final = 600.0  # seconds
LONGEST_PENALTY: Final = 3600.0
FORGOTTEN_AFTER: Final = 3600.0
# Ids and addresses; the one whose last lapse is the longest ago is forgotten first
MAX_REMEMBERED: Final = 10_000


class Precedence(IntEnum):
    """How claims rank: every claim of one row comes before every claim of the next."""

    FULL = 0
    NEIGHBOUR = 1  # another agent of its address let a claim expire
    LAPSED = 2  # the agent itself did


class _Record(NamedTuple):
    penalty: float  # seconds, for the last lapse
    since: float
    until: float


class Lapses:
    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}  # in the order of their last lapses

    def __len__(self) -> int:
        return len(self._records)

    def precedence(self, agent_id: str, address: str | None, now: float) -> Precedence:
        if not self._records:
            return Precedence.FULL
        if self._is_penalised(agent_id, now):
            return Precedence.LAPSED
        if address is not None and self._is_penalised(address, now):
            return Precedence.NEIGHBOUR
        return Precedence.FULL

    def add(self, agent_id: str, address: str | None, claimed_at: float, now: float) -> bool:
        """A claim made at `claimed_at` was not answered. True if the agent had its full precedence until now."""
        is_news = not self._is_penalised(agent_id, now)
        self._add(agent_id, claimed_at, now)
        if address is not None:
            self._add(address, claimed_at, now)
        return is_news

    def _is_penalised(self, name: str, now: float) -> bool:
        record = self._records.get(name)
        return record is not None and now < record.until

    def _add(self, name: str, claimed_at: float, now: float) -> None:
        record = self._records.pop(name, None)
        if record is None or now >= record.until + FORGOTTEN_AFTER:
            penalty = FIRST_PENALTY
        elif claimed_at < record.since:
            # Made before the last lapse was held against it. Ten claims of one agent that crashed are one lapse.
            self._records[name] = record
            return
        else:
            penalty = min(2 * record.penalty, LONGEST_PENALTY)
        self._records[name] = _Record(penalty, now, now + penalty)
        if len(self._records) > MAX_REMEMBERED:
            del self._records[next(iter(self._records))]
