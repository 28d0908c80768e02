"""How late the event loop is: the number that tells an operator that the hall is overloaded."""

import asyncio
from collections import deque
from itertools import islice
from typing import Final

PERIOD: Final = 0.5  # seconds between two looks
REMEMBERED: Final = int(60 / PERIOD)


class LagMeter:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lags: deque[float] = deque(maxlen=REMEMBERED)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._expected = self._loop.time() + PERIOD
        self._timer = self._loop.call_at(self._expected, self._look)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def last(self) -> float:
        return self._lags[-1] if self._lags else 0.0

    @property
    def worst(self) -> float:
        return max(self._lags, default=0.0)

    def worst_of(self, seconds: float) -> float:
        """The worst of so many last seconds, at most a minute."""
        return max(islice(reversed(self._lags), max(1, int(seconds / PERIOD))), default=0.0)

    def _look(self) -> None:
        self._lags.append(max(0.0, self._loop.time() - self._expected))
        self.start()
