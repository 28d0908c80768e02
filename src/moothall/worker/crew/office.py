"""How a command reaches a crew: through its keeper, which it starts if need be, or by itself where none runs."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from moothall.daemon import lock
from moothall.errors import UsageError
from moothall.worker import entry, state_file
from moothall.worker.crew import record, sockets
from moothall.worker.crew.control import Order, carry_out
from moothall.worker.crew.desk import Desk
from moothall.worker.crew.places import Places
from moothall.worker.crew.record import Record
from moothall.worker.log_lines import LogFile

PATIENCE: Final = 120.0  # seconds for a keeper to take an order; a new one may have to come first
SECRETS: Final = frozenset(("CLAUDE_CODE_OAUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"))

_LOOK: Final = 0.05  # seconds between two tries to reach the keeper

Say = Callable[[str], None]


class Office:
    def __init__(self, places: Places, environment: Mapping[str, str]) -> None:
        self._places = places
        self._environment = {key: value for key, value in environment.items() if key not in SECRETS}

    def is_kept(self) -> bool:
        """True while a keeper runs."""
        return lock.is_held(self._places.lock)

    def record(self) -> Record:
        """What the crew is doing. Raises UsageError if it was never up."""
        found = record.read(self._places.record)
        if found is None:
            raise self._places.never_up()
        return found

    def order(self, order: Order, say: Say) -> dict[str, Any]:
        """Have the keeper do it; start one if there is none. Raises UsageError or OSError."""
        self._places.make()
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if not self.is_kept():
                self._start_keeper()
            answer = self._ask(order, say)
            if answer is not None:
                return answer
            time.sleep(_LOOK)
        raise UsageError(f"the keeper does not answer: {self._places.log} may say why")

    def end(self, order: Order, say: Say) -> dict[str, Any]:
        """The same for orders that end something: without a keeper this process does it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            with lock.held(self._places.lock) as is_ours:
                if is_ours:
                    return asyncio.run(self._by_itself(order, say))
            answer = self._ask(order, say)
            if answer is not None:
                if answer.get("is_over"):
                    self._await_end()
                return answer
            time.sleep(_LOOK)
        raise UsageError(f"the keeper does not answer: {self._places.log} may say why")

    async def _by_itself(self, order: Order, say: Say) -> dict[str, Any]:
        desk = Desk(self._places, self._environment)
        try:
            return await carry_out(desk, order, say)
        finally:
            await desk.close()

    def _ask(self, order: Order, say: Say) -> dict[str, Any] | None:
        """The last line of the answer. None if no keeper takes the order now, or it has gone in between."""
        try:
            connection = sockets.connect(self._places.socket)
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        with connection, connection.makefile("rwb") as stream:
            try:
                stream.write(json.dumps(order).encode() + b"\n")
                stream.flush()
                for line in stream:
                    told = json.loads(line)
                    if "say" in told:
                        say(told["say"])
                    elif "error" in told:
                        raise UsageError(told["error"])
                    else:
                        done: dict[str, Any] = told["done"]
                        return done
            except (ConnectionError, ValueError):  # half a line is the last one of a keeper that was killed
                return None
        return None

    def _start_keeper(self) -> None:
        """Returns when there is a keeper, this one or another. Raises UsageError if it cannot start."""
        output = LogFile(self._places.log).open()
        words = [*entry.program("moothall.worker.crew.keeper"), str(self._places.root)]
        try:
            pid = os.posix_spawn(
                words[0],
                words,
                self._environment,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, output, 2),
                ],
                setsid=True,
            )
        finally:
            os.close(output)
        deadline = time.monotonic() + PATIENCE
        while not self.is_kept() and time.monotonic() < deadline:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                if status:
                    raise UsageError(f"the keeper does not start: {self._last_line()}")
                return  # another one has the lock
            time.sleep(_LOOK)

    def _last_line(self) -> str:
        lines = (state_file.read(self._places.log) or b"").decode(errors="replace").splitlines()
        return lines[-1] if lines else f"{self._places.log} may say why"

    def _await_end(self) -> None:
        """The keeper has said its last word, and is about to end."""
        with lock.held(self._places.lock, PATIENCE) as has_ended:
            if not has_ended:
                raise UsageError(f"the keeper does not end: {self._places.log} may say why")
