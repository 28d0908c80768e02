"""Answers that strangers have just got: the same request gets the same answer again for a moment.

All strangers see the same, so a crowd that looks at one list costs the hall and its store one list.
"""

from collections import OrderedDict
from typing import Final, NamedTuple

from moothall.gateways.api.answers import Body

MAX_KEPT: Final = 256  # answers
MAX_KEPT_BYTES: Final = 8 * 1024 * 1024


class _Kept(NamedTuple):
    body: Body
    until: float


class Cache:
    """Bounded in number and bytes; the oldest answer makes way. `now` never goes back."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self.size = 0  # bytes

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, request: str, now: float) -> Body | None:
        kept = self._kept.get(request)
        if kept is None:
            return None
        if kept.until <= now:
            self._forget(request)
            return None
        return kept.body

    def keep(self, request: str, body: Body, until: float) -> None:
        if request in self._kept:
            self._forget(request)
        self._kept[request] = _Kept(body, until)
        self.size += len(body.json)
        while len(self._kept) > MAX_KEPT or self.size > MAX_KEPT_BYTES:
            self._forget(next(iter(self._kept)))

    def _forget(self, request: str) -> None:
        self.size -= len(self._kept.pop(request).body.json)
