"""The part of the books that says which key each id belongs to, in SQL (see `hall.keybooks`)."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final

from moothall.store.dialect import Row
from moothall.store.rows import Draft

_MOST_AT_ONCE: Final = 64  # ids in one statement; lists are filled up to a power of two


class IdBooks:
    """What `SqlBooks` is made of besides the market's part and the court's."""

    _before: Draft
    _draft: Draft

    def owners(self, ids: Collection[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for some in _runs(sorted(ids)):
            found.update(self._query(_owners_of(len(some)), *some))
        return found

    def bound_ids(self) -> int:
        """Rows are never removed, so their highest number is their count, which would have to be counted."""
        rows = self._query("SELECT max(number) FROM bindings")
        return int(rows[0][0] or 0)

    def bind(self, agent_id: str, key: bytes, now: int) -> None:
        self._draft.put_binding(agent_id, key, now)

    def _query(self, sql: str, *parameters: Any) -> list[Row]:
        raise NotImplementedError


@cache
def _owners_of(ids: int) -> str:
    return f"SELECT id, key FROM bindings WHERE id IN ({', '.join('?' * ids)})"  # noqa: S608


def _runs(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _MOST_AT_ONCE):
        some = ids[start : start + _MOST_AT_ONCE]
        size = 1 << (len(some) - 1).bit_length()
        yield [*some, *some[:1] * (size - len(some))]
