"""The inbox of an agent as a model reads it: what is unread, what was read, and what is kept of that on disk.

Marks move in two steps. What an answer contains counts as read at once, so that the next call goes on behind it.
It is written to disk when the model calls again, or when the server ends in order. If the host cancels the call,
or dies, the same is told again: rather twice than never.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from moothall.client.floor import Asked
from moothall.daemon.cursor import START, Cursor
from moothall.daemon.folder import Folder
from moothall.daemon.inbox import SCANNED, Inbox, Record
from moothall.identity.keyfile import put_file
from moothall.tools import caps, news
from moothall.tools.caps import Caps
from moothall.tools.marks import Marks
from moothall.tools.news import Item, Wish

LIMIT: Final = 100_000  # lines; a model may be away for a weekend
MARKS_FILE: Final = "read.json"

_PAGE: Final = 1024  # records that a filter looks at in one go
_COUNTED: Final = 1000  # records that are looked at to count what an answer leaves out
_SINCE: Final = 4000  # of the newest records, those after a moment are found


class Batch(NamedTuple):
    """What fits into one answer."""

    items: list[Item]
    records: list[Mapping[str, Any]]
    omitted: int  # unread, wanted, and not in this answer
    is_exact: bool  # False: at least so many are omitted
    lost: int  # cut off from the inbox before they were read


class Mailbox:
    """Reads and writes the inbox in a folder. One process at a time has it."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._inbox = Inbox(folder, limit=LIMIT)
        self._changed = asyncio.Event()
        self._cursor = START  # after the last line of which all before it are read
        self._marks = Marks()
        self._before: tuple[Cursor, Marks] | None = None  # what is on disk, while that is behind
        self._call: object = None  # which call read the rest
        self._searched: tuple[Wish, Cursor] | None = None  # up to here nothing unread is wanted
        self.load()

    @property
    def folder(self) -> Folder:
        return self._folder

    # -- writing -----------------------------------------------------------------------------------

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Keep what was heard, and wake those that wait. Raises OSError."""
        self._inbox.append(records)
        self._changed.set()

    # -- reading -----------------------------------------------------------------------------------

    def unread(self, wish: Wish, limits: Caps) -> Batch:
        """The oldest unread records that are wanted, and mark them as read. Raises OSError."""
        found: list[Record] = []
        lost = looked_at = 0
        is_exact = True
        place, is_contiguous = self._cursor, True
        if self._searched is not None and self._searched[0] == wish:
            place, is_contiguous = self._searched[1], False
        size = _PAGE if _filters(wish) else limits.messages + 1
        while True:
            page = self._inbox.read(place, max_records=size, max_characters=SCANNED)
            if page.missed:
                lost += self._forget(place.line + page.missed)
            for record in page.records:
                if record.after.line in self._marks:
                    if is_contiguous:
                        self._pass(record.after)
                    continue
                is_contiguous = False
                if wish.wants(record.fields):
                    found.append(record)
            looked_at += len(page.records)
            place = page.cursor
            if not page.remaining or not (page.records or page.damaged):
                remaining = 0
                break
            if len(found) > limits.messages and (not _filters(wish) or looked_at >= _COUNTED):
                remaining = page.remaining - self._marks.count_after(place.line)
                is_exact = not _filters(wish)
                break
        items = [news.shown(record.fields, limits) for record in found[: limits.messages]]
        taken = caps.fitting((each.size for each in items), limits)
        rest = len(found) - taken
        omitted = rest + (remaining if is_exact else 0)
        self._read(found[:taken])
        self._searched = (wish, place) if not omitted and _filters(wish) else None
        return Batch([each.item for each in items[:taken]], _fields(found[:taken]), omitted, is_exact, lost)

    def lookout(self, wish: Wish) -> "Lookout":
        """Return what tells whether a record is unread and wanted."""
        return Lookout(self._inbox, self._marks, self._cursor, wish)

    def newest(self, most: int, wish: Wish, limits: Caps) -> Batch:
        """The newest records that are wanted, oldest first, read or not; and mark them as read. Raises OSError."""
        tail = self._inbox.tail(most, max_characters=SCANNED, wanted=wish.wants)
        return self._whole(list(tail.records), limits, from_end=True)

    def since(self, wish: Wish, limits: Caps) -> Batch:
        """The records after a moment, oldest first, read or not; and mark them as read. Raises OSError."""
        tail = self._inbox.tail(_SINCE, max_characters=SCANNED, wanted=wish.wants)
        return self._whole(list(tail.records), limits, from_end=False)._replace(
            is_exact=len(tail.records) < _SINCE
        )

    def _whole(self, found: list[Record], limits: Caps, *, from_end: bool) -> Batch:
        near = found[-limits.messages :] if from_end else found[: limits.messages]
        items = [news.shown(record.fields, limits) for record in near]
        sizes = [each.size for each in items]
        taken = caps.newest(sizes, limits) if from_end else caps.fitting(sizes, limits)
        part = slice(len(near) - taken, None) if from_end else slice(0, taken)
        self._read(near[part])
        return Batch([each.item for each in items[part]], _fields(near[part]), len(found) - taken, True, 0)

    def last_lines(self, most: int) -> tuple[list[dict[str, Any]], int]:
        """The newest records, oldest first, as they are in the file, and how many there are. Marks nothing."""
        tail = self._inbox.tail(most, max_characters=SCANNED)
        return [record.fields for record in tail.records], tail.total

    def chat(self, channel: str, msg_id: str) -> Asked | None:
        """A message of a channel as the rules of taking turns see it; None if the newest records have it not."""

        def is_it(fields: Mapping[str, Any]) -> bool:
            return (
                fields.get("msg_id") == msg_id
                and fields.get("to") == channel
                and fields.get("type") == news.CHAT
            )

        found = self._inbox.tail(1, wanted=is_it).records
        return news.asked_of(found[0].fields) if found else None

    async def wait(self) -> None:
        """Wait until something is appended, or `wake` is called."""
        self._changed.clear()
        await self._changed.wait()

    def wake(self) -> None:
        """End all waits."""
        self._changed.set()

    # -- marks -------------------------------------------------------------------------------------

    def _pass(self, place: Cursor) -> None:
        self._cursor = place
        self._marks.advance(place.line)

    def _forget(self, last: int) -> int:
        """Lines up to `last` are cut off from the inbox. Return how many of them were unread."""
        unread = max(0, last - self._marks.low)
        unread -= self._marks.count_after(self._marks.low) - self._marks.count_after(last)
        self._marks.advance(last)
        return max(0, unread)

    def _read(self, records: list[Record]) -> None:
        if records and self._before is None:
            self._before = (self._cursor, self._marks.copy())
        self._marks.read(record.after.line for record in records)
        for record in records:
            if self._cursor.line < record.after.line <= self._marks.low:
                self._cursor = record.after

    def delivered(self, call: object) -> None:
        """The answer of this call has the records that were read last."""
        self._call = call

    def withdraw(self, call: object) -> None:
        """The host has cancelled the call: what it read is unread again."""
        if self._before is not None and self._call == call:
            self._cursor, self._marks = self._before
            self._before = self._call = self._searched = None

    def confirm(self) -> None:
        """The model has the answers so far: write the marks to disk. Raises OSError."""
        if self._before is not None:
            self._before = self._call = None
            ranges = self._marks.ranges
            if self._cursor.line < self._marks.low:  # the cursor follows when these lines are passed over
                ranges.insert(0, (self._cursor.line + 1, self._marks.low))
            fields = {"cursor": str(self._cursor), "read": ranges}
            put_file(json.dumps(fields).encode() + b"\n", self._folder.path / MARKS_FILE, overwrite=True)

    def load(self) -> None:
        """Take the marks from disk. Without them, or with damaged ones, everything is unread."""
        self._cursor, self._marks = START, Marks()
        self._before = self._call = self._searched = None
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
            fields = json.loads((self._folder.path / MARKS_FILE).read_bytes())
            cursor = Cursor.parse(fields["cursor"])
            self._marks = Marks(cursor.line, [(int(first), int(last)) for first, last in fields["read"]])
            self._cursor = cursor


class Lookout:
    """Looks at each record once, however often it is asked."""

    def __init__(self, inbox: Inbox, marks: Marks, place: Cursor, wish: Wish) -> None:
        self._inbox = inbox
        self._marks = marks
        self._place = place
        self._wish = wish

    def sees_one(self) -> bool:
        """True if there is an unread record that is wanted. Raises OSError."""
        while True:
            page = self._inbox.read(self._place, max_records=_PAGE, max_characters=SCANNED)
            for record in page.records:
                if record.after.line not in self._marks and self._wish.wants(record.fields):
                    return True
            self._place = page.cursor
            if not page.remaining:
                return False


def _filters(wish: Wish) -> bool:
    return bool(wish.channels) or wish.mentions_only


def _fields(records: Iterable[Record]) -> list[Mapping[str, Any]]:
    return [record.fields for record in records]
