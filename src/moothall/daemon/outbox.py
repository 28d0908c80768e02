"""The outbox: what programs want sent, one JSON object per line (agentchat wire 19.2).

Any program may append lines to `outbox.jsonl`, and needs no lock. The daemon takes whole lines, in order; a
half-written line waits for its newline. A line is consumed when the hall has confirmed it
(`outbox.sent.jsonl`), or when it cannot be sent: then `outbox.rejected.jsonl` has the line and the reason.
Both are cut by renaming them to `*.1`.

A line is sent at most once. If the daemon cannot know whether the hall got a line, because one of them ended
in between, the line is not sent again: `outbox.rejected.jsonl` has it with `"status": "unknown"`.

When all lines are consumed, the file is emptied in place. Lines that arrive meanwhile must not be lost, so
the daemon takes a lease (fcntl(2), F_SETLEASE): the kernel grants it only while no other program has the file
open, and lets those that open it wait. Where there are no leases, the file is emptied after some seconds
without a change.
"""

import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from moothall.daemon import lines
from moothall.daemon.cursor import digest
from moothall.daemon.drafts import MAX_LINE, Draft, Unreadable, parse
from moothall.daemon.folder import Folder
from moothall.daemon.progress import NUL, Progress, ProgressFile, Seen, adjust

OUTBOX: Final = "outbox.jsonl"
SENT: Final = "outbox.sent.jsonl"
REJECTED: Final = "outbox.rejected.jsonl"
PROGRESS: Final = ".outbox.json"

MAX_TOLD: Final = 1024 * 1024  # bytes of the files that tell what became of lines, before they are renamed
QUIET: Final = 5.0  # seconds without a change, where there are no leases
_SHOWN: Final = 1000  # bytes of a line that is too long

Status = Literal["refused", "unreadable", "unknown"]
IN_DOUBT: Final = "whether the hall got this line is unknown: the daemon ended while it was on its way"


class Entry(NamedTuple):
    """The next line of the outbox."""

    line: bytes
    what: Draft | Unreadable
    length: int  # bytes, which are more than `line` if it is too long


class Outbox:
    """The daemon's side of the outbox. One process at a time may have one."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._file = ProgressFile(folder.path / PROGRESS)
        self._progress = self._file.read()

    def make(self) -> None:
        """Create the file if it is not there, for its owner alone. Raises OSError."""
        os.close(self._folder.open(OUTBOX, os.O_RDWR | os.O_CREAT))

    def recover(self) -> None:
        """Tell of a line that was on its way when the last daemon ended. Raises OSError."""
        line, length = self._progress.sending, self._progress.sending_length
        if line is None:
            return
        if not self._is_told(SENT) and not self._is_told(REJECTED):
            self._tell_rejected(parse(line.encode(errors="replace")).id, line, IN_DOUBT, "unknown")
        before = self._progress
        with self._opened():
            if self._progress == before:  # else another program has taken the line away
                self._advance(length, f"{line}\n".encode())
            else:
                self._note(replace(self._progress, sending=None))

    def next(self) -> Entry | None:
        """Return the next whole line that is not blank, or None. Raises OSError."""
        with self._opened() as descriptor:
            if descriptor is None:
                return None
            while (found := lines.line_at(descriptor, self._progress.offset, MAX_LINE)) is not None:
                line, length = found
                if length > MAX_LINE:
                    reason = f"the line has {length:,} bytes, and {MAX_LINE:,} are the most"
                    return Entry(line[:_SHOWN], Unreadable(reason), length)
                if line.strip():
                    return Entry(line, parse(line), length)
                offset = self._progress.offset + length
                self._progress = replace(self._progress, offset=offset, length=length, digest=digest(line))
            return None

    def begin(self, entry: Entry) -> None:
        """Note that the line is on its way. Raises OSError."""
        line, serial = _text(entry), max(self._progress.serial + 1, _now())  # no number comes twice
        self._note(replace(self._progress, serial=serial, sending=line, sending_length=entry.length))

    def put_back(self) -> None:
        """The line was not sent, and will be tried again. Raises OSError."""
        self._note(replace(self._progress, sending=None))

    def sent(self, entry: Entry, draft: Draft, known: Mapping[str, Any]) -> None:
        """The hall has confirmed the line; `known` is told with it. Raises OSError."""
        self._tell(SENT, {"id": draft.id, "to": draft.to, **known})
        self._advance(entry.length, entry.line)

    def reject(self, entry: Entry, reason: str, status: Status) -> None:
        """The line cannot be sent; with the status `unknown`, it may have been. Raises OSError."""
        self._tell_rejected(entry.what.id, _text(entry), reason, status)
        self._advance(entry.length, entry.line)

    def waiting(self) -> int:
        """How many whole lines are not consumed yet. Raises OSError."""
        with self._opened() as descriptor:
            if descriptor is None:
                return 0
            return lines.count(descriptor, self._progress.offset, os.fstat(descriptor).st_size)

    def empty(self) -> bool:
        """Empty the file if all of it is consumed. Return False if that has to wait. Raises OSError."""
        with self._opened() as descriptor:
            if descriptor is None or self._progress.offset == 0:
                return True
            with _alone_with(descriptor, self._folder) as is_alone:
                if not is_alone or os.fstat(descriptor).st_size != self._progress.offset:
                    return False
                os.pwrite(descriptor, NUL, 0)
                self._note(replace(self._progress, emptying=True))
                os.ftruncate(descriptor, 0)
                self._note(Progress(self._progress.inode, serial=self._progress.serial))
                return True

    # -- inside ------------------------------------------------------------------------------------

    @contextmanager
    def _opened(self) -> Iterator[int | None]:
        """The file, after a look at whether it is still the one that was read."""
        try:
            descriptor = self._folder.open(OUTBOX, os.O_RDWR)
        except FileNotFoundError:
            yield None
            return
        try:
            self._progress = adjust(self._progress, _look(descriptor, self._progress))
            yield descriptor
        finally:
            os.close(descriptor)

    def _note(self, progress: Progress) -> None:
        self._file.write(progress)
        self._progress = progress

    def _advance(self, length: int, line: bytes) -> None:
        """Note that `line` was consumed. It has `length` bytes, and may be known in part only."""
        is_whole = len(line) == length
        name = digest(line) if is_whole else ""
        done = self._progress
        self._note(Progress(done.inode, done.offset + length, length if is_whole else 0, name, done.serial))

    def _tell_rejected(self, own_id: str | None, line: str, reason: str, status: Status) -> None:
        self._tell(REJECTED, {"id": own_id, "status": status, "reason": reason, "line": line})

    def _tell(self, name: str, told: Mapping[str, Any]) -> None:
        """Add a line that tells what became of one."""
        known = {**told, "serial": self._progress.serial, "ts": _now()}
        path = self._folder.path / name
        if path.exists() and path.stat().st_size > MAX_TOLD:
            path.replace(path.with_name(f"{name}.1"))
        descriptor = self._folder.open(name, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            lines.append(descriptor, json.dumps(known).encode() + b"\n")
        finally:
            os.close(descriptor)

    def _is_told(self, name: str) -> bool:
        """True if the newest line of the file is about the line that is on its way."""
        try:
            descriptor = self._folder.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            last = next(lines.backward(descriptor, os.fstat(descriptor).st_size), b"")
        finally:
            os.close(descriptor)
        with suppress(ValueError, AttributeError):
            return bool(json.loads(last).get("serial") == self._progress.serial)
        return False


def write(folder: Folder, draft: Draft) -> None:
    """Append a draft, as any program may. Raises OSError."""
    fields = {name: value for name, value in draft._asdict().items() if value is not None}
    with folder.locked(OUTBOX):
        descriptor = folder.open(OUTBOX, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        try:
            lines.append(descriptor, json.dumps(fields).encode() + b"\n")
        finally:
            os.close(descriptor)


def _now() -> int:
    return time.time_ns() // 1_000_000


def _text(entry: Entry) -> str:
    return entry.line.decode(errors="replace").rstrip("\n")


def _look(descriptor: int, progress: Progress) -> Seen:
    status = os.fstat(descriptor)
    last = b""
    if 0 < progress.length <= progress.offset <= status.st_size:
        last = os.pread(descriptor, progress.length, progress.offset - progress.length)
    has_last_line = progress.length == 0 or digest(last) == progress.digest
    return Seen(status.st_ino, status.st_size, os.pread(descriptor, 1, 0), has_last_line)


@contextmanager
def _alone_with(descriptor: int, folder: Folder) -> Iterator[bool]:
    """True if no other program can write to the file within the block."""
    try:
        # The kernel tells the holder that another program waits. The usual signal would end the process.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except (OSError, AttributeError) as error:
        if isinstance(error, OSError) and error.errno == errno.EAGAIN:  # it is open elsewhere
            yield False
            return
        with folder.locked(OUTBOX):  # without leases at least `write` has to wait
            yield time.time() - os.fstat(descriptor).st_mtime > QUIET
        return
    try:
        yield True
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
