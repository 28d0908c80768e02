"""Commands that have a rate of their own, such as one MSG a second (seed 001, rate limiting).

The rates of messages are an agent's. So an agent with a key has the same windows after a takeover, or when it comes
back: a new connection brings no new allowance. All other windows are a session's. Those of keep agents are their
connection's (`Gate.enter`).
"""

from collections.abc import Container, Iterable, Mapping
from typing import Final

from moothall.errors import RateLimited
from moothall.hall.commands import CommandRate, Row
from moothall.hall.session import Session
from moothall.settings import Settings
from moothall.settings.limits import Rate, Window

# Windows without a recent command are as good as new. Look for them when the number of keys has doubled since.
_MIN_TO_SWEEP: Final = 1024


class CommandRates:
    def __init__(self, settings: Settings, connected: Container[bytes]) -> None:
        """`connected` are the keys whose windows a session has in use."""
        self._settings = settings
        self._connected = connected
        self._by_key: dict[bytes, dict[str, Window]] = {}
        self._sweep_at = _MIN_TO_SWEEP

    def __len__(self) -> int:
        """The number of keys whose windows are kept."""
        return len(self._by_key)

    def check(self, session: Session, command: Row, rate: CommandRate, now: float) -> None:
        """Count a command that has a rate. Raises RateLimited."""
        windows = session.windows
        if windows is None:
            windows = session.windows = {}
        window = windows.get(command.name)
        if window is None:
            window = self._window(session, rate, now)
            if window is None:
                return
            windows[command.name] = window
        if not window.admit(now):
            raise RateLimited(f"Too many {command.name}; wait a moment and try again")

    def _window(self, session: Session, rate: CommandRate, now: float) -> Window | None:
        agent = session.agent
        window = rate.of(self._settings).window()
        if window is None or not rate.is_of_key or agent is None or agent.key is None:
            return window
        return self._of(agent.key.raw, now).setdefault(rate.setting, window)

    def _of(self, key: bytes, now: float) -> dict[str, Window]:
        windows = self._by_key.get(key)
        if windows is None:
            if len(self._by_key) >= self._sweep_at:
                self._sweep(now)
            windows = self._by_key[key] = {}
        return windows

    # -- for other nodes ---------------------------------------------------------------------------

    def ages(self, key: bytes, now: float) -> dict[str, list[float]]:
        """How many seconds ago the commands of a key were that still count, by rate. Clocks of nodes differ."""
        ages = {setting: window.ages(now) for setting, window in self._by_key.get(key, {}).items()}
        return {setting: listed for setting, listed in ages.items() if listed}

    def take_over(self, key: bytes, ages: Mapping[str, Iterable[float]], now: float) -> None:
        """What counts for a key that was connected to another node: that node knew all of it."""
        for window in self._by_key.get(key, {}).values():
            window.replace((), now)
        for setting, listed in ages.items():
            rate = getattr(self._settings, setting, None)
            counted = rate.window() if isinstance(rate, Rate) else None
            if counted is not None:
                self._of(key, now).setdefault(setting, counted).replace(listed, now)

    def _sweep(self, now: float) -> None:
        self._by_key = {
            key: windows
            for key, windows in self._by_key.items()
            if key in self._connected or not all(window.is_quiet(now) for window in windows.values())
        }
        self._sweep_at = max(_MIN_TO_SWEEP, 2 * len(self._by_key))
