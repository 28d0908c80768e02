"""The pipe from the supervisor to its runner: it carries the secrets, and its end says that the supervisor is gone.

The supervisor writes two lines, the token and the identity, each empty if there is none. It keeps its end open for
as long as it lives. The kernel closes that end however the supervisor ends. A secret in a pipe is neither in the
arguments nor in the environment of a process, where others could read it.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

from moothall.errors import UsageError

VARIABLE: Final = "AGENT_LIFELINE"  # the number of the descriptor, in the runner's environment
MAX_TOKEN: Final = 16 * 1024  # bytes
MAX_IDENTITY: Final = 32 * 1024  # bytes; both fit into a pipe, so that writing never waits


class Secrets(NamedTuple):
    """`identity` is the text of a key file, in one line."""

    token: str | None = None
    identity: str | None = None

    def __repr__(self) -> str:
        return f"<Secrets {[name for name, value in self._asdict().items() if value]}>"


def with_secrets(secrets: Secrets) -> tuple[int, int]:
    """A new pipe with the secrets in it: the end to inherit, and the end to keep. Raises OSError."""
    reading, writing = os.pipe()
    os.write(writing, f"{secrets.token or ''}\n{secrets.identity or ''}\n".encode())
    return reading, writing


def read_secrets(descriptor: int) -> Secrets:
    """What the pipe has. It stays open. Raises OSError."""
    return Secrets(_line(descriptor, MAX_TOKEN), _line(descriptor, MAX_IDENTITY))


def _line(descriptor: int, most: int) -> str | None:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 1)  # one at a time: nothing that follows the line is taken
        if not byte or len(line) > most:
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
    reading, writing = with_secrets(Secrets(token[:MAX_TOKEN]))
    for descriptor in (reading, writing):  # with its own end open, the pipe never ends
        os.set_inheritable(descriptor, True)
    rest = {key: value for key, value in environment.items() if key != variable}
    os.execve(sys.executable, sys.orig_argv, rest | {VARIABLE: str(reading)})  # noqa: S606  # the same program
