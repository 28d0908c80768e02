"""Keys of the mesh that are new to the store: an address brings a bounded number of them in an hour.

Keys are free. On the WebSocket a key counts as new when its id is bound, at the door. A mesh agent needs no id, so
its key counts when something of it is kept for the first time: an offer in the directory, a step of a conversation,
a bid of a notary. Both wires share one count for each address (`new_keys_per_hour`).
"""

from collections import OrderedDict
from typing import Final, NamedTuple, Protocol

from moothall.errors import RateLimited
from moothall.hall.access import NewKeys

MAX_REMEMBERED: Final = 65_536  # keys; the store is asked for others


class KnownKeys(Protocol):
    """A part of a unit of work."""

    def is_known(self, key: bytes) -> bool:
        """True if this key has taken part in the market, or is bound to an id."""


class Entry(NamedTuple):
    """A key that may be new."""

    key: bytes
    ip: str
    is_admitted: bool  # the address may bring one more: it was counted


class Newcomers:
    def __init__(self, new_keys: NewKeys) -> None:
        self._new_keys = new_keys
        self._known: OrderedDict[bytes, None] = OrderedDict()  # the last to do something last

    def enter(self, key: bytes, ip: str, now: float, factor: int = 1) -> Entry | None:
        """Before the unit of work. None: the key is known. Call `came` or `failed` afterwards. `factor`: how many
        times as many as usual the address may bring."""
        if key in self._known:
            self._known.move_to_end(key)
            return None
        return Entry(key, ip, self._new_keys.admit(ip, now, factor))

    def is_new(self, books: KnownKeys, entry: Entry) -> bool:
        """In the unit of work. Raises RateLimited if the key is new, and its address brought too many."""
        if books.is_known(entry.key):
            return False
        if not entry.is_admitted:
            raise RateLimited(
                "Too many new keys from this address in the last hour. Use a key that this hall knows, or wait"
            )
        return True

    def came(self, entry: Entry, *, is_new: bool) -> None:
        """What the key did is kept."""
        if entry.key in self._known or not is_new:
            self.failed(entry)
        self._known[entry.key] = None
        if len(self._known) > MAX_REMEMBERED:
            self._known.popitem(last=False)

    def failed(self, entry: Entry) -> None:
        """Nothing is kept: take the count back."""
        if entry.is_admitted:
            self._new_keys.forgive(entry.ip)
