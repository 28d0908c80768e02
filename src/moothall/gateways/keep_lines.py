"""Keep connections that are over a budget: held for a while, or in a line with others of their address."""

import asyncio
from collections import deque
from typing import Final, NamedTuple, Protocol

from moothall.hall.access import holder_of
from moothall.hall.budgets import LEAST_PAUSE

# Connections of an address that try at once whether it can pay, and new ones: what has been read from connections
# takes up memory, so those in the hall come first, but do not keep others out for ever.
CALLED_UP: Final = 32
LET_IN: Final = 4


class Held(Protocol):
    """A connection, as far as a line knows it."""

    ip: str

    @property
    def has_entered(self) -> bool:
        """True once the connection itself was charged to the budgets."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Line(NamedTuple):
    """Connections of one address that wait until it can pay."""

    known: deque[Held]  # have paid for themselves, and wait with their packets
    new: deque[Held]


class Lines:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.throttled = 0  # times a connection had to wait
        self._loop = loop
        self._lines: dict[str, Line] = {}  # by address

    def hold(self, connection: Held, seconds: float) -> None:
        """Hold the connection for this time, whatever others do."""
        self.throttled += 1
        connection.hold()
        self._loop.call_later(seconds, connection.release)

    def has_line(self, ip: str) -> bool:
        """True if connections of this address wait."""
        return bool(self._lines) and holder_of(ip) in self._lines

    def join(self, connection: Held, seconds: float) -> None:
        """The connection is held until its address can pay. Those of one address wait for it in a line."""
        self.throttled += 1
        connection.hold()
        address = holder_of(connection.ip)
        line = self._lines.get(address)
        if line is None:
            line = self._lines[address] = Line(deque(), deque())
            self._loop.call_later(seconds, self._call_up, address)
        (line.known if connection.has_entered else line.new).append(connection)

    def _call_up(self, address: str) -> None:
        """Let the first of the line try again: a few, or a crowd that cannot pay would keep the loop busy."""
        line = self._lines[address]
        for waiting, most in ((line.known, CALLED_UP), (line.new, LET_IN)):
            for _ in range(min(len(waiting), most)):
                waiting.popleft().release()
        if line.known or line.new:
            self._loop.call_later(LEAST_PAUSE, self._call_up, address)
        else:
            del self._lines[address]
