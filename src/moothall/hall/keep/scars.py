"""Memory commits that passed through: how many from whom, and the sizes and hashes of the latest (keep wire 9).

What a scar holds is between its sender and its receiver; here it is weighed and stamped, never kept.
"""

from collections import deque
from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from moothall.hall.keep.listing import Listing

MAX_SENDERS: Final = 1000  # keep wire 9: at the limit those known still grow, new ones are ignored
MAX_SENDER_TEXT: Final = 1024 * 1024  # characters of their names, which can be as long as a packet
RECENT: Final = 8  # commits of one sender that are listed


class Scar(NamedTuple):
    size: int
    sha256: str


class Scars:
    def __init__(self) -> None:
        self.senders = Listing()
        self._counts: dict[str, int] = {}
        self._recent: dict[str, deque[Scar]] = {}
        self._text = 0  # characters of all names

    def note(self, src: str, scar: bytes) -> None:
        if src not in self._counts:
            if len(self._counts) >= MAX_SENDERS or self._text + len(src) > MAX_SENDER_TEXT:
                return
            self._text += len(src)
            self.senders.add(src)
            self._counts[src] = 0
            self._recent[src] = deque(maxlen=RECENT)
        self._counts[src] += 1
        self._recent[src].append(Scar(len(scar), sha256(scar).hexdigest()))

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    @property
    def recent(self) -> Mapping[str, "deque[Scar]"]:
        """By sender, the oldest first."""
        return self._recent
