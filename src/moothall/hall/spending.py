"""What workers say that they have spent: how reports become the sum of a day, and the caps of the operator.

A worker reports how many tokens its session has used so far. The hall adds up the differences, for each key and for
each day of UTC. A report of another session begins at 0: the worker has started anew. A worker that does not name
its sessions has started anew when it reports less than before. So no report lowers a sum, and what a worker sends
again adds nothing. A worker can report too little, which no hall can know; sums stop at `MAX_TOKENS`.

A stranger can report any number, and so use up the total cap. Keys with a cap of their own are workers that the
operator knows. For them the total is what such keys have spent together, so that no stranger stops them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec

from moothall.identity.certificates import timestamp_text
from moothall.wire.agentchat.client import MAX_TOKENS

TOTAL: Final = b""  # stands for all keys together, in the place of a key
MAX_CAPS: Final = 1000  # keys with a cap of their own
DAY_MS: Final = 24 * 60 * 60 * 1000


class Report(NamedTuple):
    """The last word of a key."""

    session: str  # which session of the worker this is; "" if it does not tell
    spent: int  # in this session


class Sums(NamedTuple):
    """What was spent on one day. Keys that were not asked for, or have spent nothing, are missing."""

    day: int
    by_key: Mapping[bytes, int]
    total: int
    of_capped: int | None = None  # what keys with a cap of their own have spent, if that was looked at


class SpendingBooks(Protocol):
    """One unit of work."""

    def last_reports(self, keys: Iterable[bytes]) -> dict[bytes, Report]:
        """The last report of each of these keys that has one. No other unit changes them until this one ends."""

    def spend(self, day: int, amounts: Mapping[bytes, int], reports: Mapping[bytes, Report]) -> Sums:
        """Add these amounts to a day, up to `MAX_TOKENS`, and keep the last reports. Returns the sums after it."""

    def spent(self, day: int, keys: Iterable[bytes]) -> Sums:
        """The sums of a day: of these keys, and the total."""

    def most_spent(self, day: int, limit: int) -> tuple[list[tuple[bytes, int]], int]:
        """(key, tokens) of those that have spent most, and how many keys have spent something."""


def difference(last: Report | None, report: Report) -> int:
    """Tokens that were not counted yet."""
    if last is None or last.session != report.session:
        return report.spent
    if report.spent < last.spent:
        return 0 if report.session else report.spent
    return report.spent - last.spent


def latest(last: Report | None, report: Report) -> Report:
    """The report to compare the next one with: in a session with a name, the highest."""
    if last is not None and last.session == report.session != "" and report.spent < last.spent:
        return last
    return report


def added(sum_before: int, tokens: int) -> int:
    return min(sum_before + tokens, MAX_TOKENS)


class Pool(NamedTuple):
    """The total cap, and the keys that have a cap of their own."""

    tokens: int
    capped: Collection[bytes]


def settle(
    books: SpendingBooks, filed: Sequence[tuple[bytes, Report]], day: int, pool: Pool | None = None
) -> Sums:
    """One unit of work: reports of keys, in the order in which they came."""
    last = books.last_reports({key for key, _ in filed})
    amounts: dict[bytes, int] = {}
    for key, report in filed:
        amounts[key] = added(amounts.get(key, 0), difference(last.get(key), report))
        last[key] = latest(last.get(key), report)
    sums = books.spend(day, amounts, last)
    if pool is None or sums.total <= pool.tokens or amounts.keys().isdisjoint(pool.capped):
        return sums
    return sums._replace(of_capped=sum(books.spent(day, pool.capped).by_key.values()))


# -- days ------------------------------------------------------------------------------------------


def day_of(timestamp: int) -> int:
    """The number of a day of UTC, from milliseconds since the epoch."""
    return timestamp // DAY_MS


def day_text(day: int) -> str:
    """Such as 2026-03-01."""
    return timestamp_text(day * DAY_MS)[:10]


def end_of(day: int) -> str:
    """When the sums of the next day begin."""
    return timestamp_text((day + 1) * DAY_MS)


# -- caps ------------------------------------------------------------------------------------------


class Cap(msgspec.Struct, frozen=True):
    """Tokens of a day, for one key or for all together."""

    key: str  # in hex; "" for the total
    tokens: int

    @property
    def name(self) -> bytes:
        """Its name in the list that halls have in common."""
        return bytes.fromhex(self.key)


encode_cap: Final = msgspec.json.Encoder().encode
_decode_cap: Final = msgspec.json.Decoder(Cap).decode


class Excess(NamedTuple):
    is_total: bool
    message: str


class Caps:
    """The caps that the operator has set, by key; `TOTAL` has the one for all."""

    def __init__(self, records: Iterable[bytes] = ()) -> None:
        self._tokens = {cap.name: cap.tokens for cap in map(_decode_cap, records)}

    @property
    def keys(self) -> list[bytes]:
        return [key for key in self._tokens if key != TOTAL]

    @property
    def is_full(self) -> bool:
        return len(self.keys) >= MAX_CAPS

    def of(self, key: bytes) -> int | None:
        return self._tokens.get(key)

    def pool(self, keys: Iterable[bytes]) -> Pool | None:
        """What to look at for reports of these keys. None without a total, or if none of them has a cap."""
        total = self.of(TOTAL)
        if total is None or not any(key in self._tokens for key in keys):
            return None
        return Pool(total, self.keys)

    def set(self, cap: Cap) -> None:
        self._tokens[cap.name] = cap.tokens

    def clear(self, key: bytes) -> None:
        self._tokens.pop(key, None)

    def excess(self, key: bytes, sums: Sums) -> "Excess | None":
        """The cap that a key is over, its own before the total one; None if it is over none."""
        total = (TOTAL, sums.total, "All workers together have")
        if sums.of_capped is not None and key in self._tokens:
            total = (TOTAL, sums.of_capped, "All workers with a cap have")
        for holder, spent, who in ((key, sums.by_key.get(key, 0), "This key has"), total):
            cap = self.of(holder)
            if cap is not None and spent > cap:
                return Excess(
                    holder == TOTAL,
                    f"{who} spent {spent:,} of {cap:,} tokens today. Stop until {end_of(sums.day)}, or ask the"
                    " operator to raise the cap (`moothall admin budget`)",
                )
        return None
