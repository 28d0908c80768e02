"""Which agents a hall hosts, in messages on a topic of halls.

The topic has a name outside of the 0x01 protocol, because nodes of the reference have no part in it: `/0x01/v1/...`
stays free for what that protocol may add.

A message says: "Of all keys from `first` to `last`, I host exactly these." A hall with few agents sends one message
about all keys. A hall with many cuts the range, and after a change sends only the parts that changed. So a message
stands for itself: one that is lost is made up for by the next about the same range. All of it is repeated, and
expires after three periods without repetition.

What it proves: the hall's key signed it (the signature of pubsub, whose author must be the hall that is named
inside), lately and not before (`at`, Unix microseconds, rises with each message of a hall). It does not prove that
an agent is at the hall: a hall can claim any key. So it gives a route and nothing else, of a lower rank than a
connection of the agent's own key. Envelopes are signed by their senders. A hall that claims falsely can withhold
them, as any relay can, and cannot change them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from moothall.wire.mesh import cbor
from moothall.wire.mesh.cbor import UINT8_MAX, UINT64_MAX, MalformedCbor, Reader
from moothall.wire.mesh.envelope import AGENT_ID_BYTES
from moothall.wire.mesh.nonces import within_tolerance

HALLS: Final = "/moothall/halls/1"  # the topic

VERSION: Final = 1
MAX_KEYS: Final = 1800  # of a message, with 34 bytes each: below 65,536 with all that is around them
MAX_HALLS: Final = 1000
MAX_HOSTED: Final = 10_000  # agents of one hall that others remember
MAX_ANNOUNCED: Final = 40_000  # of all halls: some 20 MB, with their routes
PERIOD: Final = 45_000  # ms after which all is repeated
EXPIRY: Final = 3 * PERIOD
DEBOUNCE: Final = 1000  # ms in which changes are collected

FIRST: Final = bytes(AGENT_ID_BYTES)
LAST: Final = b"\xff" * AGENT_ID_BYTES


class MalformedAnnouncement(ValueError):
    """The bytes are not an announcement in its one canonical form."""


class Announcement(msgspec.Struct, frozen=True):
    """Of all keys from `first` to `last`, this hall hosts exactly `keys`, which rise."""

    hall: bytes
    at: int  # Unix microseconds
    first: bytes
    last: bytes
    keys: tuple[bytes, ...]

    def encode(self) -> bytes:
        return cbor.encode((VERSION, self.hall, self.at, self.first, self.last, self.keys))


def decode(data: bytes) -> Announcement:
    """Raises MalformedAnnouncement."""
    try:
        return _decode(Reader(data))
    except MalformedCbor as error:
        raise MalformedAnnouncement(str(error)) from None


def _decode(reader: Reader) -> Announcement:
    reader.array_of(6)
    if reader.uint(UINT8_MAX) != VERSION:
        raise MalformedAnnouncement(f"the version is not {VERSION}")
    hall = reader.bytes_of(AGENT_ID_BYTES)
    at = reader.uint(UINT64_MAX)
    first = reader.bytes_of(AGENT_ID_BYTES)
    last = reader.bytes_of(AGENT_ID_BYTES)
    keys = tuple(reader.bytes_of(AGENT_ID_BYTES) for _ in range(reader.array(MAX_KEYS)))
    reader.end()
    if first > last or any(not first <= key <= last for key in keys):
        raise MalformedAnnouncement("a key is outside of its range")
    if any(key >= following for key, following in pairwise(keys)):
        raise MalformedAnnouncement("the keys do not rise")
    return Announcement(hall, at, first, last, keys)


class Hosted:
    """The agents of this hall, and when to tell of them. `now` is in milliseconds, `at` in Unix microseconds."""

    def __init__(self, hall: bytes) -> None:
        self._hall = hall
        self._keys: set[bytes] = set()
        self._changed: set[bytes] = set()
        self._changed_at: int | None = None
        self._repeat_at = 0
        self._last = 0  # `at` of the last message

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: bytes) -> bool:
        return key in self._keys

    def change(self, key: bytes, now: int, *, is_here: bool) -> None:
        if is_here == (key in self._keys):
            return
        if is_here:
            self._keys.add(key)
        else:
            self._keys.discard(key)
        self._changed.add(key)
        if self._changed_at is None:
            self._changed_at = now

    def whole(self, at: int) -> list[Announcement]:
        """For another hall that has come, and knows nothing yet. The others are told as before."""
        return self._announce(range(1 << self._bits()), at)

    def due(self, now: int, at: int) -> list[Announcement]:
        """What to send now."""
        if now >= self._repeat_at:
            self._repeat_at = now + PERIOD
            parts: Iterable[int] = range(1 << self._bits())
        elif self._changed_at is not None and now - self._changed_at >= DEBOUNCE:
            parts = sorted({_part(key, self._bits()) for key in self._changed})
        else:
            return []
        self._changed.clear()
        self._changed_at = None
        return self._announce(parts, at)

    def farewell(self, at: int) -> list[Announcement]:
        """This hall closes, and hosts no agents."""
        self._keys.clear()
        return self._announce((0,), at)

    def _announce(self, parts: Iterable[int], at: int) -> list[Announcement]:
        bits = self._bits()
        within: dict[int, list[bytes]] = {part: [] for part in parts}
        for key in self._keys:
            part = _part(key, bits)
            if part in within:
                within[part].append(key)
        found = []
        for part, keys in within.items():
            self._last = max(self._last + 1, at)
            told = tuple(sorted(keys)[:MAX_KEYS])  # agents could choose keys that are not spread
            found.append(Announcement(self._hall, self._last, *_range(part, bits), told))
        return found

    def _bits(self) -> int:
        """How many first bits of the keys make parts that fit a message. Keys that are random spread evenly."""
        bits = 0
        while len(self._keys) >> bits > MAX_KEYS // 2:
            bits += 1
        return bits


def _part(key: bytes, bits: int) -> int:
    return int.from_bytes(key[:4], "big") >> (32 - bits)


def _range(part: int, bits: int) -> tuple[bytes, bytes]:
    rest = 8 * AGENT_ID_BYTES - bits
    first = part << rest
    last = first + (1 << rest) - 1
    return first.to_bytes(AGENT_ID_BYTES, "big"), last.to_bytes(AGENT_ID_BYTES, "big")


class Change(NamedTuple):
    """What a hall claims from now on, and no longer."""

    hall: bytes
    came: Sequence[bytes]
    gone: Sequence[bytes]


class _Hall:
    __slots__ = ("at", "expiry", "keys", "look_at", "until")

    def __init__(self) -> None:
        self.at = 0
        self.expiry = 0
        self.look_at = 0  # when agents that were not repeated are looked for
        self.keys: list[bytes] = []  # which rise
        self.until: dict[bytes, int] = {}


class Halls:
    """What other halls have announced. Bounded in halls, in the agents of each, and in all of them.

    Halls are as free as keys. So a hall that is connected comes before one that others only speak of, and then one
    with few agents before one with many. A message costs work for the keys in it, not for all of its hall.
    """

    def __init__(self) -> None:
        self._halls: dict[bytes, _Hall] = {}  # the last that was heard last
        self._total = 0  # claims

    def __len__(self) -> int:
        return len(self._halls)

    def hear(
        self, said: Announcement, now: int, at: int, connected: Container[bytes] = ()
    ) -> list[Change] | None:
        """What changes by the announcement: other halls may lose agents. None: it is old, or was heard before.

        `connected` are the peers of this hall.
        """
        hall = self._halls.pop(said.hall, None) or _Hall()
        if said.at <= hall.at or not within_tolerance(said.at, at):
            if hall.at:
                self._halls[said.hall] = hall
            return None
        changes = self._make_way(connected) if len(self._halls) >= MAX_HALLS else []
        self._halls[said.hall] = hall
        hall.at = said.at
        hall.expiry = now + EXPIRY
        hall.look_at = hall.look_at or hall.expiry
        start, end = bisect_left(hall.keys, said.first), bisect_right(hall.keys, said.last)
        before = hall.keys[start:end]
        self._total -= len(before)
        most = MAX_HOSTED - len(hall.keys) + len(before)
        wanted = min(len(said.keys), most)
        if self._total + wanted > MAX_ANNOUNCED:
            changes += self._make_room(said.hall, self._total + wanted - MAX_ANNOUNCED, connected)
        told = said.keys[: min(wanted, MAX_ANNOUNCED - self._total)]
        self._total += len(told)
        hall.keys[start:end] = told
        came = [key for key in told if key not in hall.until]
        hall.until.update(dict.fromkeys(told, hall.expiry))
        staying = set(told)
        gone = [key for key in before if key not in staying]
        for key in gone:
            del hall.until[key]
        return [*changes, Change(said.hall, came, gone)]

    def expire(self, now: int) -> list[Change]:
        """Halls that have told nothing for too long are forgotten, and agents that they have not repeated."""
        changes = [self._forget(name) for name, hall in list(self._halls.items()) if hall.expiry <= now]
        for name, hall in self._halls.items():
            if now >= hall.look_at:
                hall.look_at = now + PERIOD
                gone = [key for key, until in hall.until.items() if until <= now]
                if gone:
                    changes.append(self._drop(name, gone))
        return changes

    def _make_way(self, connected: Container[bytes]) -> list[Change]:
        """For one more hall. The one that was heard least recently goes, of those that are not connected."""
        far = (name for name in self._halls if name not in connected)
        return [self._forget(next(far, next(iter(self._halls))))]

    def _make_room(self, speaker: bytes, needed: int, connected: Container[bytes]) -> list[Change]:
        """For agents of the hall that speaks, from the one that has to give way first."""

        def rank(name: bytes) -> tuple[bool, int]:
            return name not in connected, len(self._halls[name].keys)

        last = max(self._halls, key=rank)
        if rank(last) <= rank(speaker):
            return []
        return [self._drop(last, self._halls[last].keys[-needed:])]

    def _forget(self, name: bytes) -> Change:
        gone = self._halls.pop(name).keys
        self._total -= len(gone)
        return Change(name, (), gone)

    def _drop(self, name: bytes, gone: list[bytes]) -> Change:
        hall = self._halls[name]
        for key in gone:
            del hall.until[key]
        hall.keys = [key for key in hall.keys if key in hall.until]
        self._total -= len(gone)
        return Change(name, (), gone)
