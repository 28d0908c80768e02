"""The inbox: what an agent heard, one JSON object per line, the newest last (agentchat wire 19.2).

    inbox = Inbox(Folder.of("default"))
    inbox.append([message.raw])                      # the daemon, an MCP server, or both
    page = inbox.read(cursor)                        # what came after `cursor`, oldest first
    for record in page.records:
        record.fields["content"]
    cursor = page.cursor                             # keep it with `CursorFile`
    await inbox.wait(cursor, timeout=60)             # until there is more

`read` gives at most `max_records` and `max_characters`. `page.remaining` is how many lines it left for the
next call, and `page.missed` how many were cut off before they were read. `tail` gives the newest records. A
program that begins without a cursor takes `tail(0).cursor` to hear what comes from now on, or `START` for all
that is there.

**Writers.** Any number of processes may append: each takes a lock. A line is written at once; if the process
is killed in the middle of it, the next writer ends the broken line and goes on below it. Readers take no
lock, never see a line before its newline, and skip a broken line (`damaged`). Lines of the reference's daemon
are read like our own.

**Size.** The file keeps the newest `limit` lines, at most `max_bytes` of them. To cut the oldest lines off, a
writer puts a new file in place of the old one. A small file is cut at every message. A large one is cut when
an eighth of it is superfluous, or each message would cost a copy of the whole file. Beside the inbox,
`.inbox.cuts.json` says how many lines and bytes were cut off before each of the two files; without it a
cursor still finds its place, by its last line.

Nothing here is logged: the content belongs to the agent.
"""

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from moothall.daemon import lines
from moothall.daemon.cursor import START, Cursor, digest
from moothall.daemon.cuts import Cut, Cuts
from moothall.daemon.folder import Folder

INBOX: Final = "inbox.jsonl"
NEW_DATA: Final = "newdata"

DEFAULT_LIMIT: Final = 1000  # lines (agentchat wire 19.2)
DEFAULT_BYTES: Final = 64 * 1024 * 1024
MAX_RECORDS: Final = 50
MAX_CHARACTERS: Final = 32_000
SCANNED: Final = 4 * 1024 * 1024  # bytes that one call parses at most, while no record is wanted
POLL: Final = 0.1  # seconds; a wait looks at the file's status this often

_EXACT: Final = 1024 * 1024  # bytes; a file up to this size is cut at every message
_SLACK: Final = 8  # a larger one is cut when it is over its limit by 1/8

Wanted = Callable[[Mapping[str, Any]], bool]


class Record(NamedTuple):
    fields: dict[str, Any]
    size: int  # bytes of its line
    after: Cursor  # the place to read on from, if this is the last record that is taken


class Page(NamedTuple):
    """What `read` found."""

    records: tuple[Record, ...]
    cursor: Cursor  # after the last line that was looked at
    missed: int | None  # lines cut off before they were read; None if another program cut the file
    remaining: int  # lines after `cursor`
    damaged: int  # lines that are not JSON objects


class Tail(NamedTuple):
    """What `tail` found, oldest first."""

    records: tuple[Record, ...]
    cursor: Cursor  # after the last line of the inbox
    total: int  # lines in the file
    damaged: int


class Inbox:
    """The inbox in a folder. `limit` and `max_bytes` are the writer's; a reader needs neither."""

    def __init__(self, folder: Folder, *, limit: int = DEFAULT_LIMIT, max_bytes: int = DEFAULT_BYTES) -> None:
        if limit < 1 or max_bytes < 1:
            raise ValueError("an inbox has room for one line at least")
        self._folder = folder
        self._limit = limit
        self._max_bytes = max_bytes
        self._cuts = Cuts(folder)
        self._counted = (0, 0, 0)  # a file, a place in it, and how many lines are before it

    # -- writing -----------------------------------------------------------------------------------

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records, and tell the readers of `newdata`. Raises OSError; then none of them was added."""
        added = b"".join(map(_encode, records))
        if not added:
            return
        with self._folder.locked(INBOX):
            descriptor = self._folder.open(INBOX, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                os.fchmod(descriptor, 0o600)  # the reference's daemon lets others read it
                lines.append(descriptor, added)
                self._cut(descriptor)
            finally:
                os.close(descriptor)
        self._announce()

    def _announce(self) -> None:
        """Rewrite `newdata` with the clock, in place: a reader never finds it empty."""
        stamp = str(time.time_ns() // 1_000_000).encode()
        descriptor = self._folder.open(NEW_DATA, os.O_WRONLY | os.O_CREAT)
        try:
            os.pwrite(descriptor, stamp, 0)
            os.ftruncate(descriptor, len(stamp))
        finally:
            os.close(descriptor)

    def _cut(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        size = status.st_size
        file, place, before = self._counted
        if file != status.st_ino or place > size:
            place = before = 0
        count = before + lines.count(descriptor, place, size)
        self._counted = (status.st_ino, size, count)
        superfluous = count - self._limit
        is_due = size <= _EXACT or superfluous >= self._limit // _SLACK
        if size > self._max_bytes:
            position, dropped = _fit(descriptor, size - self._max_bytes + self._max_bytes // _SLACK, count)
            if superfluous > dropped:
                position, dropped = _skip(descriptor, superfluous)
        elif superfluous > 0 and is_due:
            position, dropped = _skip(descriptor, superfluous)
        else:
            return
        if dropped:
            self._cuts.replace(INBOX, descriptor, position, dropped)

    # -- reading -----------------------------------------------------------------------------------

    def read(
        self,
        cursor: Cursor,
        *,
        max_records: int = MAX_RECORDS,
        max_characters: int = MAX_CHARACTERS,
        wanted: Wanted | None = None,
    ) -> Page:
        """Return the oldest records after `cursor`.

        The first record is returned even if it alone has more than `max_characters`. Records that are not
        `wanted` are passed over. One call parses at most 4 MiB of them: with `remaining` above 0, call again.
        Raises OSError.
        """
        with self._opened() as file:
            if file is None:
                return Page((), cursor, 0, 0, 0)
            position, place, missed = file.find(cursor)
            records: list[Record] = []
            room, damaged, scanned = max_characters, 0, 0
            for line in lines.forward(file.descriptor, position) if max_records > 0 else ():
                fields = _decode(line)
                is_wanted = fields is not None and (wanted is None or wanted(fields))
                if is_wanted and records and len(line) > room:
                    break
                place = place.after(line)
                scanned += len(line)
                if fields is None:
                    damaged += 1
                elif is_wanted:
                    records.append(Record(fields, len(line), place))
                    room -= len(line)
                if len(records) == max_records or scanned >= SCANNED:
                    break
            remaining = lines.count(file.descriptor, place.offset - file.cut.offset, file.size)
            return Page(tuple(records), place, missed, remaining, damaged)

    def tail(self, most: int, *, max_characters: int = MAX_CHARACTERS, wanted: Wanted | None = None) -> Tail:
        """Return the newest `most` records that are `wanted`, oldest first; caps and errors as in `read`."""
        with self._opened() as file:
            if file is None:
                return Tail((), START, 0, 0)
            total = lines.count(file.descriptor, 0, file.size)
            number, offset = file.cut.line + total, file.cut.offset + file.end_of_lines()
            end: Cursor | None = None
            found: list[Record] = []
            room, damaged, scanned = max_characters, 0, 0
            for line in lines.backward(file.descriptor, file.size):
                place = Cursor(number, offset, len(line), digest(line))
                end = end or place
                if len(found) >= most or scanned >= SCANNED:
                    break
                fields = _decode(line)
                if fields is None:
                    damaged += 1
                elif wanted is None or wanted(fields):
                    if found and len(line) > room:
                        break
                    found.append(Record(fields, len(line), place))
                    room -= len(line)
                number -= 1
                offset -= len(line)
                scanned += len(line)
            return Tail(tuple(reversed(found)), end or file.start, total, damaged)

    def has_more(self, cursor: Cursor) -> bool:
        """True if there is a line after `cursor`. Raises OSError."""
        with self._opened() as file:
            return file is not None and lines.has_whole_line(file.descriptor, file.find(cursor)[0])

    async def wait(self, cursor: Cursor, timeout: float | None = None) -> bool:  # noqa: ASYNC109  # may be None
        """Wait for a line after `cursor`. Return False after `timeout` seconds. Raises OSError.

        It looks at the status of the file ten times a second, and into the file when its status has changed.
        """
        clock = asyncio.get_running_loop().time
        deadline = None if timeout is None else clock() + timeout
        seen: tuple[int, int] | None = None
        while True:
            status = self._status()
            if status != seen:
                if self.has_more(cursor):
                    return True
                seen = status
            rest = POLL if deadline is None else min(POLL, deadline - clock())
            if rest <= 0:
                return False
            await asyncio.sleep(rest)

    def _status(self) -> tuple[int, int] | None:
        try:
            status = (self._folder.path / INBOX).stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size

    @contextmanager
    def _opened(self) -> "Iterator[_File | None]":
        """The file as it is now. A writer may put another one in its place meanwhile: this one stays whole."""
        with self._cuts.opened(INBOX) as (descriptor, cut):
            yield None if descriptor is None else _File(descriptor, cut)


class _File:
    """An inbox that is open for reading."""

    def __init__(self, descriptor: int, cut: Cut) -> None:
        self.descriptor = descriptor
        self.cut = cut
        self.size = os.fstat(descriptor).st_size
        self.start = Cursor(cut.line, cut.offset, 0, "")

    def end_of_lines(self) -> int:
        """The place after the last newline: a torn line may follow it."""
        torn = 0
        while torn < self.size:
            start = max(0, self.size - torn - lines.BLOCK)
            block = os.pread(self.descriptor, self.size - torn - start, start)
            if (newline := block.rfind(b"\n")) >= 0:
                return start + newline + 1
            torn += len(block)
        return 0

    def find(self, cursor: Cursor) -> tuple[int, Cursor, int | None]:
        """The place of a cursor in this file, the cursor there, and how many lines before it were missed."""
        position = cursor.offset - self.cut.offset
        if position <= 0 and (self.cut.is_known or cursor.line == 0):
            return 0, self.start, max(0, self.cut.line - cursor.line)
        if self._is_after(position, cursor):
            return position, cursor, 0
        found = self._search(cursor)  # another program has written the file anew
        return (0, self.start, None) if found is None else (found.offset - self.cut.offset, found, 0)

    def _search(self, cursor: Cursor) -> Cursor | None:
        """The place after the last line that is the one the cursor names."""
        offset, found = self.cut.offset, None
        for number, line in enumerate(lines.forward(self.descriptor, 0), self.cut.line + 1):
            offset += len(line)
            if len(line) == cursor.length and digest(line) == cursor.digest:
                found = Cursor(number, offset, cursor.length, cursor.digest)
        return found

    def _is_after(self, position: int, cursor: Cursor) -> bool:
        """True if the line before this position is the one that the cursor names."""
        if not 0 < cursor.length <= position <= self.size:
            return False
        return digest(os.pread(self.descriptor, cursor.length, position - cursor.length)) == cursor.digest


# -- one line ---------------------------------------------------------------------------------------------


def _encode(record: Mapping[str, Any]) -> bytes:
    """A line of ASCII: it has no character that ends a line elsewhere, or that steers a terminal."""
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _decode(line: bytes) -> dict[str, Any] | None:
    try:
        fields = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        try:
            fields = json.loads(line)  # lone surrogates, which msgspec refuses
        except (ValueError, RecursionError):
            return None
    return fields if isinstance(fields, dict) else None


_decoder: Final = msgspec.json.Decoder()


def _skip(descriptor: int, count: int) -> tuple[int, int]:
    """The place after the first `count` lines, and `count`."""
    position = 0
    for number, line in enumerate(lines.forward(descriptor, 0)):
        if number == count:
            break
        position += len(line)
    return position, count


def _fit(descriptor: int, least: int, total: int) -> tuple[int, int]:
    """The first place at or after `least` where a line begins, and how many lines are before it; not the last."""
    position = dropped = 0
    for line in lines.forward(descriptor, 0):
        if position >= least or dropped == total - 1:
            break
        position += len(line)
        dropped += 1
    return position, dropped
