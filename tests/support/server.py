"""A real hall in a process of its own, and what it prints."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Any, Final

from moothall.cli import _context_file
from moothall.identity import PublicKey
from moothall.known_halls import PATH_VARIABLE

PROGRAM: Final = str(Path(sys.executable).with_name("moothall"))
ADMIN_KEY: Final = "correct-horse-battery-staple"
PATIENCE: Final = 15.0  # seconds for what takes milliseconds on a machine with nothing else to do

PLACE: Final = ("--port", "0", "--keep-port", "0")  # free ones, whoever else runs tests on this machine

_READY: Final = re.compile(r"^(?P<name>.+) listening on (?P<url>wss?://.+:(?P<port>\d+))$")

_KEEP: Final = re.compile(r"^  keep +tcp://.+:(?P<port>\d+), key [0-9a-f]{64}$")


class Printed:
    """The lines of one output of the process, read as they come so that it never waits for us."""

    def __init__(self, stream: IO[str]) -> None:
        self._lines: list[str] = []
        self._changed = Condition()
        self._ended = False
        self._thread = Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for(self, wanted: Callable[[str], bool], seconds: float = PATIENCE) -> str | None:
        """The first line that is wanted; None when the output ended, or time, without one."""
        seen = 0

        def found() -> bool:
            nonlocal seen
            while seen < len(self._lines):
                if wanted(self._lines[seen]):
                    return True
                seen += 1
            return self._ended

        with self._changed:
            self._changed.wait_for(found, seconds)
            return self._lines[seen] if seen < len(self._lines) else None

    def finish(self) -> None:
        self._thread.join(PATIENCE)

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()


class HallProcess:
    """`moothall serve` on a free port. Everything it writes is in `folder`, its data in `folder/data`."""

    start_seconds = 2 * PATIENCE  # it imports much

    def __init__(
        self,
        folder: Path,
        *flags: str,
        environment: Mapping[str, str] | None = None,
        host: str = "127.0.0.1",
        within: Sequence[str] = (),
    ) -> None:
        """`host` is where it listens, if flags say so. `within` is a command that runs it in another network."""
        self.folder = folder
        self._host = host
        self._within = within
        self.data_dir = folder / "data"
        self._flags = flags
        self._environment = environment or {}
        self.port = 0
        self.keep_port = 0
        self.url = ""

    def use(self, *flags: str) -> None:
        """Start with these flags too."""
        self._flags = (*self._flags, *flags)

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *self._within,
                PROGRAM,
                "serve",
                *PLACE,
                "--data-dir",
                "data",
                "--log-format",
                "json",
                *self._flags,
            ],
            cwd=self.folder,
            env=environment(**self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdout = Printed(self.process.stdout)
        self.stderr = Printed(self.process.stderr)
        self._wait_until_ready()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """The exit code."""
        self.process.send_signal(number)
        return self.wait()

    def kill(self) -> None:
        """As a power cut would end it."""
        self.process.kill()
        self.wait()

    def wait(self) -> int:
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.stdout.finish()
            self.stderr.finish()

    def restart(self) -> None:
        """Again, with the same data directory."""
        self.start()

    @property
    def key(self) -> PublicKey:
        """What it signs receipts and cases with."""
        return PublicKey.from_pem((self.data_dir / "hall-key.pem").read_text())

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stderr.lines]

    async def logged(self, event: str) -> dict[str, Any]:
        """The first log line of this event, when it comes."""
        line = await asyncio.to_thread(self.stderr.wait_for, lambda line: json.loads(line)["event"] == event)
        assert line is not None, f"{event} was not logged:\n{self.stderr.text}"
        facts: dict[str, Any] = json.loads(line)
        return facts

    async def get(
        self, path: str, headers: Mapping[str, str] | None = None, method: str = "GET"
    ) -> tuple[int, Mapping[str, str], str]:
        """Status, headers and body of an HTTP request to the hall's port."""
        return await asyncio.to_thread(self._get, path, headers or {}, method)

    def _get(self, path: str, headers: Mapping[str, str], method: str) -> tuple[int, Mapping[str, str], str]:
        connection = HTTPConnection(self._host, self.port, timeout=PATIENCE)
        with closing(connection):
            connection.request(method, path, headers=dict(headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read().decode()

    def _wait_until_ready(self) -> None:
        line = self.stdout.wait_for(lambda line: _READY.match(line) is not None, self.start_seconds)
        if line is None:
            self.kill()
            raise AssertionError(f"the hall did not start:\n{self.stderr.text}")
        ready = _READY.match(line)
        assert ready is not None
        self.url = ready["url"]
        self.port = int(ready["port"])
        self.keep_port = 0
        next_line = self.stdout.wait_for(lambda line: line.startswith(("  keep ", "  health ")))
        if keep := _KEEP.match(next_line or ""):
            self.keep_port = int(keep["port"])


@contextmanager
def running_hall(
    folder: Path, *flags: str, environment: Mapping[str, str] | None = None
) -> Iterator[HallProcess]:
    hall = HallProcess(folder, *flags, environment=environment)
    hall.start()
    try:
        yield hall
    finally:
        hall.kill()


def run_moothall(
    folder: Path, *arguments: str, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """A command that is expected to end by itself."""
    return subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder,
        env=environment(**(environ or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def complaint(result: subprocess.CompletedProcess[str]) -> str:
    """What a command that was used wrongly says: one line, no traceback, exit code 2."""
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return result.stderr.removeprefix("error: ").rstrip("\n")


def environment(**variables: str) -> dict[str, str]:
    """Nothing of the developer's own settings. Known halls and contexts are kept for one test."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        PATH_VARIABLE: os.environ.get(PATH_VARIABLE, "known-halls.json"),
        _context_file.PATH_VARIABLE: os.environ.get(_context_file.PATH_VARIABLE, "contexts.json"),
        **variables,
    }
