"""The processes below this one: adopt those that lose their parent, signal them, and end all of them.

Linux hands an orphan to its nearest ancestor that has asked for orphans. So all that a command starts stays in one
tree, in whatever session or process group it is. The tree is read from /proc. A process id can get a new owner at
any time, so signals go through pidfds. Elsewhere than on Linux nothing is adopted or found.
"""

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

_PR_SET_CHILD_SUBREAPER: Final = 36  # linux/prctl.h
_PF_FORKNOEXEC: Final = 0x40  # linux/sched.h
_ENDED: Final = "ZX"  # zombie, dead
_MOST_PASSES: Final = 1000  # a tree that still grows then gets SIGKILL as far as it was seen
_LOOK: Final = 0.02  # seconds between two looks at /proc while processes end


class Process(NamedTuple):
    """`started` tells apart two processes that had the same id, one after the other."""

    pid: int
    started: int
    parent: int
    ticks: int  # of processor time, with that of its ended children
    is_fork: bool  # it has not started a program since it was forked

    @property
    def key(self) -> tuple[int, int]:
        return self.pid, self.started


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent has ended, from now on. Raises OSError."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def children_of(pid: int) -> list[int]:
    """The ids of its children, ended ones too. Empty if there is no such process."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208  # a Path per thread costs more than the reading
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())
    return found


def look_at(pid: int) -> Process | None:
    """None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name of the program stands in brackets and may hold brackets and spaces itself.
    words = text.rpartition(")")[2].split()
    if words[0] in _ENDED:
        return None
    is_fork = bool(int(words[6]) & _PF_FORKNOEXEC)
    return Process(pid, int(words[19]), int(words[1]), sum(map(int, words[11:15])), is_fork)


def tree(ancestor: int, spared: frozenset[int] = frozenset()) -> Iterator[Process]:
    """All living processes below `ancestor`, parents first, without those in `spared` and what is below them."""
    waiting = [ancestor]
    while waiting:
        parent = waiting.pop()
        for pid in children_of(parent):
            found = None if pid in spared else look_at(pid)
            # One with another parent has just lost its own. The next look finds it where it is now.
            if found is not None and found.parent == parent:
                waiting.append(pid)
                yield found


def descendants(ancestor: int | None = None) -> list[int]:
    """The pids of all processes below `ancestor`, by default this process, parents first. Without zombies."""
    return [each.pid for each in tree(os.getpid() if ancestor is None else ancestor)]


def send(process: Process, number: int) -> bool:
    """Signal this process, and no other one that has its id now. False if this user may not signal it."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        # This look is later than the pidfd: if it still shows the same process, the pidfd is of that process.
        if _is_there(process):
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(descriptor)
    return True


def kill_tree(ancestor: int, spared: frozenset[int] = frozenset()) -> list[Process]:
    """SIGKILL everything below `ancestor`, but for `spared` and what is below those. Returns what got it.

    All are stopped first. A stopped tree cannot grow, so what is killed then is all of it.
    """
    seen: dict[tuple[int, int], Process] = {}
    for _ in range(_MOST_PASSES):
        fresh = [each for each in tree(ancestor, spared) if each.key not in seen]
        if not fresh:
            break
        for each in fresh:
            seen[each.key] = each
            send(each, signal.SIGSTOP)
    for each in seen.values():
        send(each, signal.SIGKILL)
    return list(seen.values())


def wait(process: Process, seconds: float) -> bool:
    """True when it has ended, False if it runs after so many seconds. It need not be a child."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if _is_there(process):  # later than the pidfd, which is its own then
            select.select([descriptor], [], [], max(0.0, seconds))
        return not _is_there(process)
    finally:
        os.close(descriptor)


def _is_there(process: Process) -> bool:
    now = look_at(process.pid)
    return now is not None and now.key == process.key


def reap() -> dict[int, int]:
    """Collect the children that have ended: their wait statuses by pid."""
    ended: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            ended[found[0]] = found[1]
    return ended


def has_children() -> bool:
    """True also for a child that has ended and was not reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def end_all(grace: float) -> None:
    """End every descendant: SIGTERM, after `grace` seconds SIGKILL, until none is left. Collects them all."""
    deadline = time.monotonic() + grace
    warned: set[tuple[int, int]] = set()
    while True:
        reap()
        if not has_children():
            return
        if time.monotonic() >= deadline:
            kill_tree(os.getpid())
        for each in tree(os.getpid()):
            if each.key not in warned:
                warned.add(each.key)
                send(each, signal.SIGTERM)
        time.sleep(_LOOK)
