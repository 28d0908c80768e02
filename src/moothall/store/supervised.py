"""A node process of a hall, and the process that supervises it: two sockets that the node has inherited.

SQLite lets one process write at a time. A process that finds another one writing tries again after a pause, so that
some hardly get through while others are busy. Hence node processes take turns: before a transaction a node asks for
the turn, and the supervising process gives it to one node at a time, in the order in which they asked (see
`turn_keeper`). The statements of the transaction run here, on the file itself. So a batch of units costs one round
trip, which takes a twentieth of a millisecond, and not one for each statement. Measured with the deals of 64 pairs,
a unit takes 230 to 280 us of CPU with turns and without; with two nodes at full load it takes 290 to 340, because
each forgets its cached rows when the other one has written.

The end of the turn carries what PostgreSQL has NOTIFY for: signals to the other nodes. They arrive on the other
socket, which also tells that the supervising process is gone: then the node has to end at once, because another
hall may start on the same store.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, NamedTuple

import msgspec

from moothall.store.rows import Draft
from moothall.store.units import StoreFailed

ASKING: Final = b"?\n"
GIVEN: Final = b"!"
READ_AT_ONCE: Final = 64 * 1024


class Ended(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node says after COMMIT."""

    signals: list[str] = []  # for the other nodes
    is_mirrored: bool = False  # something was changed that the files beside the store show


class Ends(NamedTuple):
    """One side's sockets."""

    turns: socket.socket
    signals: socket.socket

    def close(self) -> None:
        self.turns.close()
        self.signals.close()


def line() -> tuple[Ends, Ends]:
    """The supervising process's ends, and those of a node. No other process can connect to them."""
    (ours, theirs), (our_signals, their_signals) = socket.socketpair(), socket.socketpair()
    return Ends(ours, our_signals), Ends(theirs, their_signals)


_encode: Final = msgspec.json.Encoder().encode


class Supervised:
    """The node's side. As a context manager, it is the turn to write."""

    def __init__(self, ends: "Ends", orphaned: Callable[[], None]) -> None:
        """`ends` are those of `line`. `orphaned` is called on a thread of its own when the supervising process is
        gone."""
        self._turns = ends.turns
        self._signals = ends.signals
        self._orphaned = orphaned
        self._sending = threading.Lock()
        self._noted: list[str] = []
        self._is_mirrored = False
        self._heard: Callable[[str], None] | None = None
        threading.Thread(target=self._listen, name="supervised", daemon=True).start()

    # -- on a thread of the store ------------------------------------------------------------------

    def __enter__(self) -> None:
        """Wait for the turn."""
        self._send(ASKING)
        try:
            given = self._turns.recv(1)
        except OSError as error:
            raise StoreFailed(f"not saved: the supervising process cannot be reached: {error}") from error
        if given != GIVEN:
            raise StoreFailed("not saved: the supervising process is gone")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = Ended(self._noted, self._is_mirrored)
        self._noted = []
        self._is_mirrored = False
        self._say(ended)

    def note(self, committed: Draft) -> None:
        """In the turn: tell this when it ends."""
        self._noted += committed.signals
        self._is_mirrored = self._is_mirrored or committed.is_mirrored

    def tell(self, committed: Draft) -> None:
        """The same on a store that needs no turns, and carries signals itself."""
        if committed.is_mirrored:
            self._say(Ended(is_mirrored=True))

    def _say(self, ended: Ended) -> None:
        with suppress(StoreFailed):  # what was committed stays so, and this process ends in a moment
            self._send(_encode(ended) + b"\n")

    def _send(self, line: bytes) -> None:
        try:
            with self._sending:
                self._turns.sendall(line)
        except OSError as error:
            raise StoreFailed(f"not saved: the supervising process cannot be reached: {error}") from error

    # -- signals -----------------------------------------------------------------------------------

    def hear(self, heard: Callable[[str], None]) -> "Hearing":
        """Call `heard` on the running loop with what other nodes signal. "": signals may have been lost."""
        loop = asyncio.get_running_loop()

        def pass_on(signal: str) -> None:
            with suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(heard, signal)

        self._heard = pass_on
        return Hearing(self)

    def stop_hearing(self) -> None:
        self._heard = None

    def _listen(self) -> None:
        rest = b""
        while some := self._receive():
            *lines, rest = (rest + some).split(b"\n")
            for line in lines:
                heard = self._heard
                if heard is not None:
                    heard(line.decode())
        self._orphaned()

    def _receive(self) -> bytes:
        try:
            return self._signals.recv(READ_AT_ONCE)
        except OSError:
            return b""


class Hearing:
    """Signals are heard until this is closed."""

    def __init__(self, supervised: Supervised) -> None:
        self._supervised = supervised

    def close(self) -> None:
        self._supervised.stop_hearing()
