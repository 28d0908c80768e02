"""Whether an agent that was started has come up: its guard has begun a session. If not, its files say why."""

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from moothall.worker import state_file
from moothall.worker.agent_folder import GUARD_STATE, RUNNER_LOG, STATE
from moothall.worker.crew.places import MemberPlaces
from moothall.worker.crew.processes import OUTPUT
from moothall.worker.crew.runtime import Runtime
from moothall.worker.crew.tail import Tail
from moothall.worker.supervisor.life import Status

PATIENCE: Final = 30.0  # seconds
MAX_FAULT: Final = 500  # characters
_LOOK: Final = 0.05  # seconds between two looks at the state
_LOOKS: Final = 20  # at the state, between two at the runtime, which may take longer

_ERROR: Final = "error: "  # how the runner and the supervisor begin what they cannot do
_NO_SESSION: Final = (Status.CRASHED, Status.KILLED, Status.FATAL)


class Arrival:
    """Made before the start, so that old files do not count."""

    def __init__(self, places: MemberPlaces, runtime: Runtime) -> None:
        self._places = places
        self._runtime = runtime
        files = (places.state / STATE, places.state / GUARD_STATE, places.run / OUTPUT)
        self._before = {file: _changed_at(file) for file in files}

    async def wait(self) -> str | None:
        """None when the agent is up, else what is wrong."""
        deadline = time.monotonic() + PATIENCE
        looks = 0
        while time.monotonic() < deadline:
            state = self._state()
            if state.get("status") == Status.FAILED:
                return _printable(str(state.get("last_error") or "it failed"))
            if state and self._is_new(self._places.state / GUARD_STATE):
                return None
            if state.get("status") in _NO_SESSION:
                return _error_in(self._places.state / RUNNER_LOG) or _printable(str(state.get("last_error")))
            looks += 1
            if looks % _LOOKS == 0 and not await asyncio.to_thread(self._is_running):
                output = self._places.run / OUTPUT
                return (self._is_new(output) and _error_in(output)) or "it ended at once"
            await asyncio.sleep(_LOOK)
        if self._state().get("status") == Status.RUNNING:
            return None  # the session before may still be ending
        return f"it has said nothing in {PATIENCE:g} seconds"

    def _state(self) -> dict[str, Any]:
        if not self._is_new(self._places.state / STATE):
            return {}
        return state_file.object_of_agent(self._places.state / STATE)

    def _is_new(self, file: Path) -> bool:
        return _changed_at(file) not in (0, self._before[file])

    def _is_running(self) -> bool:
        return any(each.name == self._places.name and each.is_running for each in self._runtime.standing())


def _changed_at(file: Path) -> int:
    """0 if there is no file."""
    with suppress(OSError):
        return file.lstat().st_mtime_ns
    return 0


def _error_in(file: Path) -> str:
    """The last line, if it is an error. The agent can write this file."""
    last = "".join(Tail(file).last(1))
    return _printable(last.removeprefix(_ERROR)) if last.startswith(_ERROR) else ""


def _printable(text: str) -> str:
    """Short, on one line, and without what steers a terminal: it goes to the keeper's log, and to the user."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:MAX_FAULT])
