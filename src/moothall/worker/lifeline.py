"""The pipe from the supervisor to its runner: it carries the token, and its end says that the supervisor is gone.

The supervisor writes one line, the token or nothing, and keeps its end open for as long as it lives. The kernel
closes that end however the supervisor ends. A token in a pipe is neither in the arguments nor in the environment of
a process, where others could read it.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from moothall.errors import UsageError

VARIABLE: Final = "AGENT_LIFELINE"  # the number of the descriptor, in the runner's environment
MAX_TOKEN: Final = 16 * 1024  # bytes; fits into any pipe, so that writing never waits


def with_token(token: str | None) -> tuple[int, int]:
    """A new pipe with the token in it: the end to inherit, and the end to keep. Raises OSError."""
    reading, writing = os.pipe()
    os.write(writing, f"{token or ''}\n".encode())
    return reading, writing


def read_token(descriptor: int) -> str | None:
    """The token, or None if there is none. The pipe stays open. Raises OSError."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)  # one at a time: nothing that follows the line is taken
        if not byte or len(line) > MAX_TOKEN:
            break
        line += byte
    return line.decode(errors="replace").strip() or None


def inherited(environment: Mapping[str, str]) -> int | None:
    """The descriptor that this process got from its parent. None if it got none. Raises UsageError."""
    number = environment.get(VARIABLE)
    if not number:
        return None
    try:
        descriptor = int(number)
        os.set_inheritable(descriptor, False)  # children of this process get what it gives them
    except (ValueError, OSError):
        raise UsageError(f"{VARIABLE} is set by the supervisor for its runner: unset it") from None
    return descriptor


def leave_environment(environment: Mapping[str, str], variable: str) -> None:
    """Start this program anew without `variable`, if it is set. Its value comes back through a pipe.

    What a process was started with stays readable in /proc for as long as it runs. Raises OSError.
    """
    token = environment.get(variable)
    if token is None:
        return
    reading, writing = with_token(token[:MAX_TOKEN])
    for descriptor in (reading, writing):  # with its own end open, the pipe never ends
        os.set_inheritable(descriptor, True)
    rest = {key: value for key, value in environment.items() if key != variable}
    os.execve(sys.executable, sys.orig_argv, rest | {VARIABLE: str(reading)})  # noqa: S606  # the same program
