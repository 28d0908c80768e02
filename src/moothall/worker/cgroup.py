"""A cgroup for one command: the kernel ends everything in it at once, faster than any process can fork.

It is an extra, for machines where this user may create cgroups (version 2, Linux 5.14). Without it the tree of
processes is walked (`descendants.py`), which also finds processes that have left their cgroup.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

_MOUNTS = Path("/proc/self/mountinfo")
_OWN = Path("/proc/self/cgroup")


class Cgroup:
    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, name: str) -> Self | None:
        """A new cgroup below that of this process; None where there can be none."""
        here = own_directory()
        if here is None:
            return None
        _sweep(here, name)
        path = here / f"{name}-{os.getpid()}-{time.monotonic_ns():x}"
        with suppress(OSError):
            path.mkdir()
            made = cls(path)
            if (path / "cgroup.kill").exists():
                return made
            made.remove()
        return None

    def join(self) -> None:
        """Move this process into it. What it starts is in it too."""
        with suppress(OSError):  # the walk through /proc finds it all the same
            (self.path / "cgroup.procs").write_text("0")

    def kill(self) -> None:
        with suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """It is only removed when it is empty."""
        with suppress(OSError):
            self.path.rmdir()


def _sweep(here: Path, name: str) -> None:
    """Remove empty cgroups that killed programs have left: their names have the ids of processes that ended."""
    with suppress(OSError):
        for left in here.glob(f"{name}-*-*"):
            pid = left.name.removeprefix(f"{name}-").partition("-")[0]
            if not Path(f"/proc/{pid}").exists():
                Cgroup(left).remove()


def own_directory(mounts: Path = _MOUNTS, own: Path = _OWN) -> Path | None:
    """Where the cgroup of this process is in the file system, if its hierarchy of version 2 is mounted."""
    try:
        (place,) = [line[3:] for line in own.read_text().splitlines() if line.startswith("0::")]
        for line in mounts.read_text().splitlines():
            before, _, after = line.partition(" - ")
            if after.startswith("cgroup2 "):
                root, mounted = before.split()[3:5]
                return Path(mounted) / Path(place).relative_to(root)
    except (OSError, ValueError):  # no /proc, no version 2, or a namespace that hides the place
        return None
    return None
