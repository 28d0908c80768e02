"""The program `podman`, and with which of its flags containers run on this machine.

Podman's own choice of a cgroup manager and a runtime fits most machines, but not those without systemd. So the
flags are found by trying: the first ones with which a container with all walls runs.
"""

import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.worker.crew.containers import READ_BY_PODMAN, Host, root_of, users, walls
from moothall.worker.crew.plan import Crew, Member

TIME: Final = 120.0  # seconds for one command

_TRIES: Final = (
    (),
    ("--cgroup-manager=cgroupfs",),
    ("--cgroup-manager=cgroupfs", "--runtime=runc"),
    ("--cgroup-manager=cgroupfs", "--runtime=crun"),
)
_PROBE: Final = Member(name="probe", mission="", memory="64m", cpus=1, processes=16)
_READ_LIMIT: Final = "cd /sys/fs/cgroup; cat pids.max pids/pids.max 2>/dev/null || true"  # cgroups 2 and 1
_MOST_FILES: Final = 4096
_MOST_PROCESSES: Final = 16384  # of one user id; how many a container may have is a limit of its own


class PodmanFailed(UsageError):
    """Podman did not do what it was asked. The message has its own last words."""


@dataclass(frozen=True, slots=True)
class Podman:
    """The program, with global flags."""

    path: str
    flags: tuple[str, ...] = ()

    def run(
        self,
        *words: str,
        variables: Mapping[str, str] | None = None,
        patience: float = TIME,
        folder: Path | None = None,
    ) -> str:
        """What the command prints. `folder` is the directory that it is started in. Raises PodmanFailed."""
        try:
            done = subprocess.run(  # noqa: S603  # words of our own, and of the crew file
                self.words(*words),
                env={**own_environment(), **(variables or {})},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=patience,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise PodmanFailed(f"podman {words[0]} does not end") from None
        except OSError as error:
            raise PodmanFailed(f"{self.path} cannot be started: {error.strerror}") from None
        if done.returncode:
            raise PodmanFailed(
                f"podman {words[0]}: {_last_words(done.stderr) or f'exit code {done.returncode}'}"
            )
        return done.stdout

    def words(self, *words: str) -> list[str]:
        return [self.path, *self.flags, *words]


def own_environment() -> dict[str, str]:
    """What Podman itself needs to know."""
    return {key: value for key, value in os.environ.items() if READ_BY_PODMAN.fullmatch(key)}


def this_host() -> Host:
    return Host(
        is_root=os.geteuid() == 0,
        most_files=_bounded(resource.RLIMIT_NOFILE, _MOST_FILES),
        most_processes=_bounded(resource.RLIMIT_NPROC, _MOST_PROCESSES),
    )


def installed(flags: tuple[str, ...] = ()) -> Podman:
    """Raises UsageError."""
    path = shutil.which("podman")
    if path is None:
        raise UsageError("podman is not installed: install it, on Debian with `apt-get install podman`")
    return Podman(path, flags)


def find(crew: Crew) -> Podman:
    """Podman with the flags that work here, for the image or the root of this crew.

    Raises UsageError, which says why containers cannot run.
    """
    podman = installed()
    if crew.rootfs is not None:
        _check_root(crew.rootfs)
    else:
        _check_image(podman, crew.image)
    return _found(podman.path, tuple(root_of(crew))).podman


def has_limits(crew: Crew) -> bool:
    """True if memory, processors and processes of a container are limited. Call `find` first.

    Where a container of an ordinary user cannot be limited, Podman starts it without limits.
    """
    return _found(installed().path, tuple(root_of(crew))).has_limits


class _Found(NamedTuple):
    podman: Podman
    has_limits: bool


@lru_cache(maxsize=16)
def _found(path: str, root: Sequence[str]) -> _Found:
    host = this_host()
    words = ("run", "--rm", "--pull=never", "--entrypoint=", *walls(_PROBE, host), *users("", "probe", host))
    first_failure: PodmanFailed | None = None
    for flags in _TRIES:
        podman = Podman(path, flags)
        try:
            printed = podman.run(*words, *root, "/bin/sh", "-c", _READ_LIMIT)
        except PodmanFailed as failure:
            first_failure = first_failure or failure
        else:
            return _Found(podman, printed.split() == [str(_PROBE.processes)])
    raise UsageError(f"podman cannot run containers here: {first_failure}")


def _check_image(podman: Podman, image: str) -> None:
    try:
        podman.run("image", "exists", image)
    except PodmanFailed:
        raise UsageError(
            f"podman has no image {image}: make it with `make image`, in the sources of moothall"
        ) from None


def _check_root(root: Path) -> None:
    if not (root / "usr" / "bin" / "python3").exists():
        raise UsageError(
            f"{root} is not the root of a worker: `python -m tools.worker_image --root FOLDER` makes one"
        )
    if os.geteuid() != 0:
        return
    for folder in (root, *root.resolve().parents):
        if not folder.stat().st_mode & 0o001:
            raise UsageError(
                f"{folder} is closed to other users, and those of containers are others: move the root {root} to a"
                " folder that all may enter"
            )


def _bounded(kind: int, most: int) -> int:
    """No limit of a container may be above that of the process which starts it."""
    hard = resource.getrlimit(kind)[1]
    return most if hard == resource.RLIM_INFINITY else min(hard, most)


def _last_words(errors: str) -> str:
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ")[:500] if lines else ""
