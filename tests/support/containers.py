"""Agents in real containers, with the sources under test. Tests are not run where Podman cannot run.

The root of the containers is made once for each machine, and kept: it takes half a minute. The sources under test
are in the crew's folder, which containers see as /crew, and come first in the path of their Python.
"""

import asyncio
import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from moothall.errors import UsageError
from moothall.worker import state_file
from moothall.worker.crew import podman_program
from moothall.worker.crew.containers import name_of
from moothall.worker.crew.places import Places
from moothall.worker.crew.plan import Crew, Member
from moothall.worker.crew.podman import PodmanRuntime
from moothall.worker.crew.runtime import Recipe
from moothall.worker.crew.ways_out import WaysOut
from tools import worker_image

PATIENCE: Final = 60.0  # seconds; only a failing test waits that long
SOURCES: Final = Path(__file__).parents[2] / "src"
_KEPT: Final = 14 * 24 * 3600.0  # seconds that a root stays after its last use
STORAGE_VARIABLE: Final = "CONTAINERS_STORAGE_CONF"


def worker_root() -> Path:
    """The root of a worker's container as a folder. Skips the test where none can be made."""
    if shutil.which("podman") is None:
        pytest.skip("not run: podman is not installed")
    folder = _cache() / f"worker-root-{worker_image.key()}"
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test run may be making it
        if not folder.exists():
            unfinished = folder.with_name(f"{folder.name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                worker_image.make_root(unfinished)
            except worker_image.Failed as reason:
                pytest.skip(f"not run: the root of a container cannot be made: {str(reason)[-400:]}")
            unfinished.rename(folder)
        os.utime(folder)
        for other in _cache().glob("worker-root-*"):
            if time.time() - other.stat().st_mtime > _KEPT:
                shutil.rmtree(other, ignore_errors=True)
    return folder


def _cache() -> Path:
    """Users of containers must be able to enter it, so for root it is not in the home folder."""
    own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path("/var/cache/moothall-tests") if os.geteuid() == 0 else own / "moothall-tests"
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    return folder


class Yard:
    """A crew whose agents run in containers, and what its keeper does for them. Podman's storage is its own."""

    def __init__(self, folder: Path, rootfs: Path) -> None:
        self.files = folder / "files"  # what containers see as /crew
        self.files.mkdir(mode=0o755)
        for package in ("moothall", "keep"):
            shutil.copytree(SOURCES / package, self.files / "src" / package)
        self.crew = Crew(f"t{os.getpid()}", self.files / "crew.toml", (), isolation="podman", rootfs=rootfs)
        self.places = Places(folder / "crew")
        self.places.make()
        self.runtime = PodmanRuntime(self.crew, self.places)
        self.said: list[str] = []  # what the doors have written to the keeper's log
        self.ways = WaysOut(self.said.append)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()

    def recipe(self, name: str, hall: str, command: str = "sleep 3600", **fields: Any) -> Recipe:
        """An agent whose model is a command. It is not started."""
        environment = {"PYTHONPATH": "/crew/src", **fields.pop("environment", {})}
        member = Member(
            name=name,
            mission="Wait.",
            command=command,
            environment=environment,
            **{"runtime": "command", **fields},
        )
        crew = replace(self.crew, members=(member,))
        places = self.places.member(name)
        places.make()
        return Recipe(crew, member, places, hall)

    def start(self, recipe: Recipe) -> None:
        """As a keeper does it."""
        self.await_here(self.ways.begin(recipe))
        self.runtime.start(recipe)

    def await_here(self, work: Coroutine[Any, Any, None]) -> None:
        """Run it where the doors are."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def inside(self, name: str, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run a command in the container of an agent, as the model's shell could."""
        return self.podman("exec", name_of(self.crew.name, name), *words)

    def shell(self, name: str, script: str) -> str:
        """What a script prints in the container of an agent. It must succeed."""
        done = self.inside(name, "sh", "-c", script)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def podman(self, *words: str) -> "subprocess.CompletedProcess[str]":
        program = podman_program.find(self.crew)
        return subprocess.run(
            program.words(*words),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def state(self, recipe: Recipe) -> dict[str, Any]:
        return state_file.read_object(recipe.places.state / "state.json") or {}

    def until(self, happened: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            if time.monotonic() >= deadline:
                logs = self.podman("ps", "--all").stdout
                raise AssertionError(f"not seen: {what}\n{self.said}\n{logs}")
            time.sleep(0.05)

    def until_running(self, recipe: Recipe) -> None:
        """Its supervisor has a session."""
        self.until(
            lambda: self.state(recipe).get("status") == "running",
            f"{recipe.member.name} runs: {self.state(recipe)}",
        )

    def close(self) -> None:
        self.podman("rm", "--all", "--force", "--time=0")
        self.await_here(self.ways.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


@contextmanager
def yard() -> Iterator[Yard]:
    """Skips the test where containers cannot run. The path is short, because sockets are in it."""
    root = worker_root()
    folder = Path(tempfile.mkdtemp(prefix="yard-"))
    storage = folder / "storage.conf"
    storage.write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/storage"\nrunroot = "{folder}/run"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STORAGE_VARIABLE, str(storage))
        made: Yard | None = None
        try:
            try:
                podman_program.find(Crew("probe", folder / "crew.toml", (), rootfs=root))
            except UsageError as reason:
                pytest.skip(f"not run: {reason}")
            made = Yard(folder, root)
            yield made
        finally:
            if made is not None:
                made.close()
            shutil.rmtree(folder, ignore_errors=True)
