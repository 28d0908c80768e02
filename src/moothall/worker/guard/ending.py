"""How a command is ended: SIGTERM, after the cooldown SIGKILL. Pure: moments are handed in."""

import signal
from typing import Final

PATIENCE: Final = 5.0  # seconds for SIGKILL; then a process waits for the kernel, or belongs to another user


class Ending:
    """Asked for once or several times; it takes its steps once."""

    def __init__(self, cooldown: float) -> None:
        self._cooldown = cooldown
        self._kill_at: float | None = None
        self._leave_at: float | None = None

    @property
    def has_begun(self) -> bool:
        return self._kill_at is not None or self._leave_at is not None

    def begin(self, now: float, number: int = signal.SIGTERM) -> int | None:
        """The signal to send now; None if the command was asked to end before."""
        if self.has_begun:
            return None
        self._kill_at = now + self._cooldown
        return number

    def step(self, now: float) -> int | None:
        """The signal to send now, if it is time for one."""
        if self._kill_at is None or now < self._kill_at:
            return None
        self._kill_at, self._leave_at = None, now + PATIENCE
        return signal.SIGKILL

    def is_hopeless(self, now: float) -> bool:
        """True when SIGKILL had its time."""
        return self._leave_at is not None and now >= self._leave_at

    def wake_at(self) -> float | None:
        return self._kill_at if self._kill_at is not None else self._leave_at
