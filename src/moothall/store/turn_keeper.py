"""The supervising process's side of `supervised`: whose turn it is to write to the file, and signals."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from moothall.hall.outside import Log
from moothall.store.supervised import ASKING, GIVEN, Ended, Ends

# A node that stops in the middle of a transaction holds up all others. Units take milliseconds.
LONGEST_TURN: Final = 30.0
MAX_UNREAD: Final = 1024 * 1024  # bytes of signals that a node has not read; those after them are lost
LOST: Final = ""  # a signal: others were lost

_decode: Final = msgspec.json.Decoder(Ended).decode


class TurnKeeper:
    """One node at a time has the turn, in the order in which they ask. A node that dies loses it."""

    def __init__(self, changed: Callable[[], None], overdue: Callable[[str], None], log: Log) -> None:
        """`changed`: the files beside the store are out of date. `overdue` gets the name of a node that keeps the
        turn for longer than LONGEST_TURN."""
        self._changed = changed
        self._overdue = overdue
        self._log = log
        self._seats: set[_Seat] = set()
        self._waiting: deque[_Seat] = deque()
        self._holder: _Seat | None = None
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """The number of nodes that wait for the turn."""
        return len(self._waiting)

    async def admit(self, name: str, ends: Ends) -> None:
        """Serve a node, until its sockets are closed."""
        loop = asyncio.get_running_loop()
        seat = _Seat(name, self)
        self._seats.add(seat)
        await loop.create_unix_connection(lambda: _Signalling(seat), sock=ends.signals)
        await loop.create_unix_connection(lambda: _Turning(seat), sock=ends.turns)

    # -- what nodes say ----------------------------------------------------------------------------

    def ask(self, seat: "_Seat") -> None:
        self._waiting.append(seat)
        self._give()

    def end(self, seat: "_Seat", ended: Ended) -> None:
        for other in self._seats:
            if other is not seat:
                for signal in ended.signals:
                    other.signal(signal)
        if ended.is_mirrored:
            self._changed()
        self._take_back(seat)

    def gone(self, seat: "_Seat") -> None:
        self._seats.discard(seat)
        if seat in self._waiting:
            self._waiting.remove(seat)
        self._take_back(seat)

    def bad(self, seat: "_Seat", line: bytes) -> None:
        self._log.warning("node_not_understood", node=seat.name, line=line[:100].decode(errors="replace"))

    def _take_back(self, seat: "_Seat") -> None:
        if self._holder is seat:
            self._holder = None
            if self._alarm is not None:
                self._alarm.cancel()
            self._give()

    def _give(self) -> None:
        if self._holder is None and self._waiting:
            self._holder = holder = self._waiting.popleft()
            loop = asyncio.get_running_loop()
            self._alarm = loop.call_later(LONGEST_TURN, lambda: self._overdue(holder.name))
            holder.give()


class _Seat:
    """A node, as the keeper of the turns sees it."""

    def __init__(self, name: str, keeper: TurnKeeper) -> None:
        self.name = name
        self.keeper = keeper
        self.turns: asyncio.WriteTransport | None = None
        self.signals: asyncio.WriteTransport | None = None
        self._lost = False

    def give(self) -> None:
        if self.turns is not None:
            self.turns.write(GIVEN)

    def signal(self, signal: str) -> None:
        if self.signals is None:
            return
        if self.signals.get_write_buffer_size() > MAX_UNREAD:
            self._lost = True
        else:
            self.signals.write(signal.encode() + b"\n")

    def catch_up(self) -> None:
        """It reads again."""
        if self._lost:
            self._lost = False
            self.signal(LOST)

    def gone(self) -> None:
        for transport in (self.turns, self.signals):
            if transport is not None:
                transport.abort()
        self.keeper.gone(self)


class _Signalling(asyncio.Protocol):
    def __init__(self, seat: _Seat) -> None:
        self._seat = seat

    def connection_made(self, transport: Any) -> None:
        self._seat.signals = transport

    def resume_writing(self) -> None:
        self._seat.catch_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self._seat.gone()


class _Turning(asyncio.Protocol):
    def __init__(self, seat: _Seat) -> None:
        self._seat = seat
        self._rest = b""

    def connection_made(self, transport: Any) -> None:
        self._seat.turns = transport

    def data_received(self, data: bytes) -> None:
        seat = self._seat
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line == ASKING[:-1]:
                seat.keeper.ask(seat)
                continue
            try:
                ended = _decode(line)
            except msgspec.MsgspecError:
                seat.keeper.bad(seat, line)
            else:
                seat.keeper.end(seat, ended)

    def connection_lost(self, exc: Exception | None) -> None:
        self._seat.gone()
