"""Whether an agent that was started has come up: its supervisor writes its state."""

import asyncio
import time
from contextlib import suppress
from typing import Any, Final

from moothall.worker import state_file
from moothall.worker.agent_folder import STATE
from moothall.worker.crew.places import MemberPlaces
from moothall.worker.crew.runtime import Runtime
from moothall.worker.supervisor.life import Status

PATIENCE: Final = 30.0  # seconds
_LOOK: Final = 0.05  # seconds between two looks at the state
_LOOKS: Final = 20  # at the state, between two at the runtime, which may take longer


class Arrival:
    """Made before the start, so that an old state does not count."""

    def __init__(self, places: MemberPlaces, runtime: Runtime) -> None:
        self._places = places
        self._runtime = runtime
        self._before = self._changed_at()

    async def wait(self) -> str | None:
        """None when the agent is up, else what is wrong."""
        deadline = time.monotonic() + PATIENCE
        looks = 0
        while time.monotonic() < deadline:
            state = self._state()
            if state.get("status") == Status.FAILED:
                return str(state.get("last_error") or "it failed")[:500]
            if state.get("status") not in (None, Status.STARTING):
                return None
            looks += 1
            if looks % _LOOKS == 0 and not await asyncio.to_thread(self._is_running):
                return "it ended at once"
            await asyncio.sleep(_LOOK)
        return f"it has said nothing in {PATIENCE:g} seconds"

    def _state(self) -> dict[str, Any]:
        if self._changed_at() == self._before:
            return {}
        with suppress(OSError):
            return state_file.read_object(self._places.state / STATE) or {}
        return {}

    def _changed_at(self) -> int:
        with suppress(OSError):
            return (self._places.state / STATE).stat().st_mtime_ns
        return 0

    def _is_running(self) -> bool:
        return any(each.name == self._places.name and each.is_running for each in self._runtime.standing())
