"""What workers have spent, in SQL (see `hall.spending`)."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from moothall.hall.spending import Report, Sums, day_text
from moothall.store.dialect import Connection
from moothall.store.work import SqlWork, short_runs
from moothall.wire.agentchat.client import MAX_TOKENS

DAYS_KEPT: Final = 31

_REPORT: Final = (
    "INSERT INTO spending_reports (key, session, spent) VALUES (?, ?, ?)"
    " ON CONFLICT (key) DO UPDATE SET session = excluded.session, spent = excluded.spent"
)
# Added to, not replaced: several halls may count for one key, and all of them for the total.
_ADD: Final = (
    "INSERT INTO spending (day, key, tokens) VALUES (?, ?, ?) ON CONFLICT (day, key) DO UPDATE SET tokens ="
    " CASE WHEN spending.tokens > ? - excluded.tokens THEN ? ELSE spending.tokens + excluded.tokens END"
)
_ADD_TOTAL: Final = (
    "INSERT INTO spending_days (day, tokens) VALUES (?, ?) ON CONFLICT (day) DO UPDATE SET tokens ="
    " CASE WHEN spending_days.tokens > ? - excluded.tokens THEN ? ELSE spending_days.tokens + excluded.tokens END"
)
_TOTAL: Final = "SELECT tokens FROM spending_days WHERE day = ?"
_FORGET_REPORTS: Final = "DELETE FROM spending_reports WHERE key NOT IN (SELECT key FROM spending)"
_MOST: Final = "SELECT key, tokens FROM spending WHERE day = ? ORDER BY tokens DESC, key LIMIT ?"


class SpendingSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def last_reports(self, keys: Iterable[bytes]) -> dict[bytes, Report]:
        lock = self._connection.dialect.for_update
        found: dict[bytes, Report] = {}
        for some in short_runs(sorted(keys)):  # in one order, so that two halls never wait for each other
            for key, session, spent in self._query(f"{_last_of(len(some))}{lock}", *some):
                found[key] = Report(session, spent)
        return found

    def spend(self, day: int, amounts: Mapping[bytes, int], reports: Mapping[bytes, Report]) -> Sums:
        spent = sorted((key, tokens) for key, tokens in amounts.items() if tokens)
        if spent:
            self._forget_before(day)
        for key, report in sorted(reports.items()):
            self._change(_REPORT, key, *report)
        for key, tokens in spent:
            self._change(_ADD, day, key, tokens, MAX_TOKENS, MAX_TOKENS)
        if spent:
            total = min(sum(tokens for _, tokens in spent), MAX_TOKENS)
            self._change(_ADD_TOTAL, day, total, MAX_TOKENS, MAX_TOKENS)
        return self.spent(day, amounts)

    def spent(self, day: int, keys: Iterable[bytes]) -> Sums:
        by_key: dict[bytes, int] = {}
        for some in short_runs(list(keys)):
            by_key.update(self._query(_spent_by(len(some)), day, *some))
        total = self._query(_TOTAL, day)
        return Sums(day, by_key, total[0][0] if total else 0)

    def most_spent(self, day: int, limit: int) -> tuple[list[tuple[bytes, int]], int]:
        ((count,),) = self._query("SELECT count(*) FROM spending WHERE day = ?", day)
        return [(key, tokens) for key, tokens in self._query(_MOST, day, limit)], count

    def _forget_before(self, day: int) -> None:
        """Once a day: the first that spends something removes what is too old.

        A stranger can make many keys and report once with each. So the last reports of keys without a day go too.
        """
        if not self._query(_TOTAL, day):
            for table in ("spending", "spending_days"):
                self._change(f"DELETE FROM {table} WHERE day < ?", day - DAYS_KEPT)  # noqa: S608
            self._change(_FORGET_REPORTS)


@cache
def _last_of(keys: int) -> str:
    marks = ", ".join("?" * keys)
    return f"SELECT key, session, spent FROM spending_reports WHERE key IN ({marks}) ORDER BY key"  # noqa: S608


@cache
def _spent_by(keys: int) -> str:
    return f"SELECT key, tokens FROM spending WHERE day = ? AND key IN ({', '.join('?' * keys)})"  # noqa: S608


def spending_problems(connection: Connection) -> Iterator[str]:
    """The total of a day is the sum over its keys."""
    sums: dict[int, int] = {}
    for day, tokens in connection.stream("SELECT day, tokens FROM spending"):
        sums[day] = min(sums.get(day, 0) + tokens, MAX_TOKENS)
    totals: dict[int, int] = dict(connection.execute("SELECT day, tokens FROM spending_days").fetchall())
    for day in sorted(sums.keys() | totals.keys()):
        by_keys, in_all = sums.get(day, 0), totals.get(day, 0)
        if by_keys != in_all:
            yield f"spending on {day_text(day)}: the keys have {by_keys} tokens, the day has {in_all}"
