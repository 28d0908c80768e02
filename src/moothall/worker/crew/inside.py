"""Process 1 of an agent's container: it starts the supervisor, and passes connections on to the host until it ends.

    python -m moothall.worker.crew.inside [--secrets SOCKET] [--door PORT=SOCKET]... -- SUPERVISOR [ARGUMENT...]

When the supervisor ends, for whatever reason, this process ends with its exit code, and the kernel ends all other
processes of the container. It is a parent of the supervisor, because a supervisor ends all that is below itself.
"""

import json
import os
import select
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.worker import descendants, entry, sealing
from moothall.worker.crew import syscalls
from moothall.worker.crew.relay import Relay
from moothall.worker.supervisor import secret_files

FAILED: Final = 1  # exit code
FORWARDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
PATIENCE: Final = 30.0  # seconds for the secrets: the host's side may be starting again too
USAGE: Final = (
    "usage: python -m moothall.worker.crew.inside [--secrets SOCKET] [--door PORT=SOCKET]..."
    " -- COMMAND [ARGUMENT...]"
)

_SIGNALS: Final = 4096  # bytes of the pipe that carries them
_STOPS: Final = frozenset((signal.SIGTERM, signal.SIGINT))
_LOOK: Final = 0.1  # seconds between two questions for secrets
_MOST: Final = 128 * 1024  # bytes of all secrets


class Order(NamedTuple):
    """What this process is to do."""

    words: list[str]  # the supervisor and its arguments
    doors: dict[int, Path]  # by port
    secrets: Path | None = None  # where to ask for them


def read(arguments: list[str]) -> Order:
    """Raises UsageError."""
    if "--" not in arguments[:-1]:
        raise UsageError(f"there is no command after --; {USAGE}")
    at = arguments.index("--")
    doors, secrets = dict[int, Path](), None
    options = iter(arguments[:at])
    for option in options:
        value = next(options, "")
        port, _, path = value.partition("=")
        if option == "--secrets" and value:
            secrets = Path(value)
        elif option == "--door" and path and port.isdecimal() and int(port) < 1 << 16:
            doors[int(port)] = Path(path)
        else:
            raise UsageError(f"{option} {value}: {USAGE}")
    return Order(arguments[at + 1 :], doors, secrets)


def secrets_from(path: Path) -> dict[str, str] | None:
    """What the host answers. None if it does not answer now."""
    with socket.socket(socket.AF_UNIX) as host, suppress(OSError, ValueError):
        host.settimeout(PATIENCE)
        host.connect(str(path))
        answer = bytearray()
        while len(answer) < _MOST and (part := host.recv(_MOST)):
            answer += part
        found = json.loads(answer)
        return found if isinstance(found, dict) else None
    return None


def put(secrets: Mapping[str, str], folder: Path) -> None:
    """As files that the supervisor reads and deletes. Raises OSError."""
    for name, content in secrets.items():
        file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="utf-8") as secret:
            secret.write(content)


def main() -> int:
    """Run until the supervisor has ended. Return its exit code."""
    return entry.run("container", USAGE, _begin, FAILED)


def _begin(arguments: list[str]) -> int:
    order = read(arguments)
    syscalls.restrict()
    return Inside(order).run()


class Inside:
    def __init__(self, order: Order) -> None:
        """Listen on the ports. Raises OSError."""
        self._order = order
        self._selector = selectors.DefaultSelector()
        self._wakes, writing = socket.socketpair()
        for end in (self._wakes, writing):
            end.setblocking(False)
        # Process 1 gets only the signals that it has a handler for. Each one is a byte in this pipe.
        signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
        self._writing = writing
        for number in (*FORWARDED, signal.SIGCHLD):
            signal.signal(number, _note)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._relay = Relay(order.doors, self._selector)

    def run(self) -> int:
        """Until the supervisor ends. Raises UsageError without secrets, OSError if it cannot be started."""
        if self._order.secrets is not None and not self._fetch(self._order.secrets):
            return 0
        words = self._order.words
        supervisor = os.posix_spawnp(
            words[0],
            words,
            os.environ,
            setpgroup=0,
            setsigdef=[*FORWARDED, signal.SIGCHLD],
            setsigmask=[signal.SIGUSR1],  # one that comes before the supervisor waits for it would end it
        )
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._wakes:
                    self._relay.handle(key.data)
                elif (code := self._obey(supervisor)) is not None:
                    return code

    def _fetch(self, path: Path) -> bool:
        """Get the secrets. False if a signal to stop has come before them."""
        sealing.seal()
        deadline = time.monotonic() + PATIENCE
        while (found := secrets_from(path)) is None:
            if time.monotonic() > deadline:
                raise UsageError("the host does not answer with the secrets: its keeper's log may say why")
            ready, _, _ = select.select([self._wakes], [], [], _LOOK)
            if ready and any(number in _STOPS for number in self._wakes.recv(_SIGNALS)):
                return False
        put(found, secret_files.FOLDER)
        return True

    def _obey(self, supervisor: int) -> int | None:
        """Act on signals. Returns the exit code when the supervisor has ended."""
        for number in self._wakes.recv(_SIGNALS):
            if number != signal.SIGCHLD:
                with suppress(ProcessLookupError):
                    os.kill(supervisor, number)
        status = descendants.reap().get(supervisor)
        if status is None:
            return None
        code = os.waitstatus_to_exitcode(status)
        return code if code >= 0 else 128 - code  # as shells say it: 137 for SIGKILL


def _note(number: int, frame: object) -> None:
    """Nothing: the byte in the pipe says it all."""


if __name__ == "__main__":
    sys.exit(main())
