"""A crew of real processes in a folder of its own, and what is left of it in /proc."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moothall.worker.crew import plan, record
from moothall.worker.crew.office import Office
from moothall.worker.crew.overview import overview
from moothall.worker.crew.places import Places, places_of
from moothall.worker.crew.record import Record
from tests.support.workers import command_line, is_alive, until

NAME: Final = "band"
# One agent is protected. Their models do nothing, for long.
FILE: Final = f"""
[crew]
name = "{NAME}"
isolation = "process"
[defaults]
runtime = "command"
command = "sleep 100000"
[agents.player]
mission = "Play."
[agents.boss]
mission = "Listen."
protected = true
"""


@dataclass
class Band:
    """The crew, as commands reach it."""

    root: Path
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file = self.root / "crew.toml"
        self.file.write_text(FILE)
        self.home = self.root / "home"
        self.home.mkdir()

    @property
    def environment(self) -> dict[str, str]:
        own = {"MOOTHALL_CREWS": str(self.root / "crews"), "HOME": str(self.home)}
        return {"PATH": os.environ["PATH"], **own}

    @property
    def places(self) -> Places:
        return places_of(NAME, self.environment)

    @property
    def office(self) -> Office:
        return Office(self.places, self.environment)

    def up(self) -> list[str]:
        """The lines that `up` says."""
        self.said.clear()
        tables = plan.document(self.file)
        done = self.office.order({"do": "up", "tables": tables, "file": str(self.file)}, self.said.append)
        assert done == {"failed": []}, self.said
        return list(self.said)

    def stop(self, *names: str, at_once: bool = False) -> dict[str, Any]:
        self.said.clear()
        return self.office.end({"do": "stop", "names": names, "at_once": at_once}, self.said.append)

    def wake(self, name: str) -> None:
        self.office.order({"do": "wake", "name": name}, self.said.append)

    def remove(self, name: str) -> None:
        self.office.end({"do": "remove", "name": name, "with_folders": True}, self.said.append)

    def record(self) -> Record:
        found = record.read(self.places.record)
        assert found is not None
        return found

    def shown(self) -> dict[str, Any]:
        return overview(self.places, self.record(), is_kept=self.office.is_kept())

    def agent(self, name: str) -> dict[str, Any]:
        return next(each for each in self.shown()["agents"] if each["name"] == name)

    def pids(self, *words: str) -> list[int]:
        """All living processes that were started with each of these words, and for this crew."""
        return [pid for pid in self.left() if all(word.encode() in command_line(pid) for word in words)]

    def pid(self, *words: str) -> int:
        """The one process with these words, when there is one."""
        until(lambda: len(self.pids(*words)) == 1, f"one process with {words}, but {self.pids(*words)}")
        return self.pids(*words)[0]

    @property
    def keeper(self) -> int:
        return self.pid("moothall.worker.crew.keeper")

    @property
    def understudy(self) -> int:
        return self.pid("moothall.worker.crew.understudy")

    @property
    def hall(self) -> int:
        return self.pid("moothall\0serve")

    def supervisor(self, name: str) -> int:
        return self.pid("moothall.worker.supervisor", name)

    def left(self) -> list[int]:
        """All of its processes: they have its home in their environment, or its folder as a word."""
        mark = f"HOME={self.home}".encode()
        pids = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in pids if mark in _environment(pid) and is_alive(pid)]

    def until_nothing_is_left(self) -> None:
        """An understudy that another keeper came before may take a second to see that."""
        until(lambda: not self.left(), f"no process, but {[command_line(pid) for pid in self.left()]}")

    def close(self) -> None:
        for _ in range(50):  # a keeper that is killed has an understudy
            for pid in self.left():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        until(lambda: not self.left(), "no process is left")


def _environment(pid: int) -> list[bytes]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


@contextmanager
def band(root: Path) -> Iterator[Band]:
    found = Band(root)
    try:
        yield found
    finally:
        found.close()


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid), f"the end of {pid}")
