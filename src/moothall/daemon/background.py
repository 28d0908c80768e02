"""A process in the background, and how it tells the one that started it that it is ready.

It is forked twice: the second process leads no session, so it can never get a terminal. Nothing is passed in
arguments, which other users could read.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

_MAX_REPORT: Final = 64 * 1024  # bytes


class Report(NamedTuple):
    """What the background process told. With a `code` other than 0 it has ended, and `text` is the error."""

    code: int
    text: str


Tell = Callable[[Report], None]


def start(work: Callable[[Tell], int]) -> Report:
    """Run `work` in the background. Return what it tells first. Raises OSError.

    `work` is given a function that takes one Report, and returns the exit code.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _detach(work, writing)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read(_MAX_REPORT)
    if not told:
        return Report(1, "the daemon ended before it was ready; its log may say why")
    code, text = json.loads(told)
    return Report(code, text)


def _detach(work: Callable[[Tell], int], writing: int) -> NoReturn:
    """In the first child: become a process of its own session, and have another child do the work."""
    code = 1
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.umask(0o077)
        _leave_terminal()
        code = work(_teller(writing))
    finally:
        os._exit(code)  # nothing of the command that was forked is to run here: no handlers, no second output


def _leave_terminal() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def _teller(writing: int) -> Tell:
    is_told = False

    def tell(report: Report) -> None:
        nonlocal is_told
        if not is_told:
            is_told = True
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(json.dumps(report).encode())

    return tell
