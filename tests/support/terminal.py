"""A command in a terminal of its own, as a person runs it."""

import os
import pty
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.support.server import PATIENCE, PROGRAM, environment


class Shown(NamedTuple):
    code: int
    text: str


def in_terminal(folder: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Shown:
    """What the command shows, standard output and standard error as they come, until it ends."""
    ours, theirs = pty.openpty()
    try:
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            cwd=folder,
            env=environment(TERM="xterm-256color", COLUMNS="200", **(environ or {})),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        shown = _read_all(ours)
        return Shown(process.wait(PATIENCE), shown.decode().replace("\r\n", "\n"))
    finally:
        os.close(ours)


def _read_all(terminal: int) -> bytes:
    shown = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            return shown
        if not piece:
            return shown
        shown += piece
