"""The keeper's side of its understudy: start it, start another when it has died, and dismiss it in the end."""

import asyncio
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from moothall.worker import entry
from moothall.worker.crew.understudy import DISMISSED, PAUSE


class Understudy:
    """One process at a time."""

    def __init__(self, root: Path, log: Callable[[str], None]) -> None:
        self._root = root
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._descriptor = -1

    def start(self) -> None:
        """Raises OSError."""
        self._process = subprocess.Popen(  # noqa: S603  # our own program
            [*entry.program("moothall.worker.crew.understudy"), str(self._root)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        self._descriptor = os.pidfd_open(self._process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._ended)

    def dismiss(self) -> None:
        """It ends, and takes nothing over."""
        process = self._forget()
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.write(DISMISSED)
                process.stdin.flush()
            process.stdin.close()
            process.wait()

    def _ended(self) -> None:
        process = self._forget()
        if process is not None and process.stdin is not None:
            process.stdin.close()
            self._log(f"the understudy ended, exit code {process.wait()}: another one is started")
        asyncio.get_running_loop().call_later(PAUSE, self._start_again)

    def _start_again(self) -> None:
        try:
            self.start()
        except OSError as error:
            self._log(f"the understudy cannot be started: {error.strerror}")
            asyncio.get_running_loop().call_later(PAUSE, self._start_again)

    def _forget(self) -> "subprocess.Popen[bytes] | None":
        if self._process is None:
            return None
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        process, self._process = self._process, None
        return process
