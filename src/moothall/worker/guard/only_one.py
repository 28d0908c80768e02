"""One process at a time runs a file: a model must not start a second model (seed 001, container agents).

The kernel tells when the file is opened, which every start does. Then the processes of the command are looked at,
and again for two seconds, because a start opens the file before it becomes the program. The oldest process that
runs the file stays. Its forks stay too, as long as they do not start a program. All others are killed.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.daemon import inotify
from moothall.worker.descendants import Process, kill_tree, send, tree

LOOKS: Final = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # seconds after the file was opened
CLOSEST: Final = 0.01  # seconds between two looks, however often the file is opened

_INTEREST: Final = inotify.IN_OPEN | inotify.IN_ATTRIB | inotify.IN_DELETE_SELF | inotify.IN_MOVE_SELF
_WORDS: Final = 16  # of a command that may name a script
_MOST: Final = 64 * 1024  # bytes of a command that are read
_FIRST_LINE: Final = 256  # bytes of it (Linux, BINPRM_BUF_SIZE)
_LOADERS: Final = ("ld-", "ld.so", "ld64.so")  # how the names of the programs begin that load others


class OnlyOne:
    """`descriptor` is readable when the file was opened. None: look every `interval` seconds.

    A file that is several programs, by the name that it is started with, is no second run under `other_names`.
    """

    def __init__(self, file: Path, other_names: frozenset[str], interval: float) -> None:
        self.file = file
        self.count = 0  # of processes that were killed
        self._other_names = other_names
        self._interval = interval
        self._opened = 0.0
        self._looked = 0.0
        self._next = len(LOOKS)  # of the row of looks
        self._begin_watch()

    def _begin_watch(self) -> None:
        self._identity = inotify.identity(self.file)
        self._interpreters = frozenset(
            _interpreters_of(self.file)
        )  # before the watch, which would tell of it
        self.descriptor = inotify.watch(self.file, _INTEREST)

    def due(self) -> float | None:
        """When to look next. None: when the file is opened."""
        if self.descriptor is None:
            return self._looked + self._interval
        if self._next == len(LOOKS):
            return None
        return max(self._opened + LOOKS[self._next], self._looked + CLOSEST)

    def drain(self, now: float) -> None:
        """Take the events. A file that was replaced is watched anew."""
        if self.descriptor is None:
            return
        inotify.drain(self.descriptor)
        self._opened, self._next = now, 0
        if inotify.identity(self.file) != self._identity:
            os.close(self.descriptor)
            self._begin_watch()

    def look(self, now: float, ancestor: int) -> list[int]:
        """Kill those below `ancestor` that run the file besides the first. Returns their pids."""
        self._looked = now
        while self._next < len(LOOKS) and self._opened + LOOKS[self._next] <= now:
            self._next += 1
        found = list(self._too_many([each for each in tree(ancestor) if not _is_starting(each, ancestor)]))
        for each in found:
            send(each, signal.SIGSTOP)
            kill_tree(each.pid)
            send(each, signal.SIGKILL)
        self.count += len(found)
        return [each.pid for each in found]

    def _too_many(self, processes: list[Process]) -> Iterator[Process]:
        running = [each for each in processes if self._runs(each.pid)]
        first = min((each for each in running if not each.is_fork), key=_started, default=None)
        stay = {first.pid} if first is not None else set()
        for each in running:
            if each.pid in stay:
                continue
            if each.is_fork and each.parent in stay:
                stay.add(each.pid)
            else:
                yield each

    def _runs(self, pid: int) -> bool:
        program = Path(f"/proc/{pid}/exe")
        try:
            words = _words(pid)
            if inotify.identity(program) != self._identity:
                return self._is_interpreted(pid, program, words)
        except OSError:  # it has just ended
            return False
        if words == [""]:  # it has just become the program: the kernel tells its words a moment later
            return False
        return words[0].rpartition("/")[2] not in self._other_names

    def _is_interpreted(self, pid: int, program: Path, words: list[str]) -> bool:
        """True for an interpreter that runs the file as a script, and for a loader that runs it as a program."""
        if inotify.identity(program) not in self._interpreters and not program.readlink().name.startswith(
            _LOADERS
        ):
            return False
        folder = Path(f"/proc/{pid}/cwd")
        return any(inotify.identity(folder / word) == self._identity for word in words[1:_WORDS])


def _interpreters_of(file: Path) -> Iterator[tuple[int, int]]:
    """The programs that the first line of a script starts it with, such as `env` and `node`."""
    with suppress(OSError), file.open("rb") as content:
        first = content.readline(_FIRST_LINE)
        if not first.startswith(b"#!"):
            return
        from shutil import which  # it needs much memory, and a guard of a native program does without

        for word in os.fsdecode(first[2:]).split():
            place = which(word)
            found = None if place is None else inotify.identity(Path(place))
            if found is not None:
                yield found


def _is_starting(process: Process, ancestor: int) -> bool:
    """True for a fork of the ancestor that is about to become the command. Its words name the file as an option."""
    if not process.is_fork or process.parent != ancestor:
        return False
    with suppress(OSError):  # one of them has just ended
        return _words(process.pid) == _words(ancestor)
    return False


def _started(process: Process) -> int:
    """When it was forked. Of two in the same tick, `min` takes the one that comes first: parents do."""
    return process.started


def _words(pid: int) -> list[str]:
    """At least one. Raises OSError."""
    with open(f"/proc/{pid}/cmdline", "rb") as file:  # noqa: PTH123  # often, so without a Path
        return os.fsdecode(file.read(_MOST)).split("\0")
