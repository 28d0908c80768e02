"""Which of the packets that arrive answers what was asked, and which are news.

The published SDK takes whatever comes next for the answer, be it a heartbeat or another agent's message (keep wire
10, traps). Here the server's answer is the unsigned packet with the id of the question, and nothing else is.
"""

import json
import logging
from collections.abc import Callable
from typing import Any, Final

from moothall.keep.signing import is_signed, verify
from moothall.wire.keep.packet import HEARTBEAT, Packet

SERVER: Final = "server"
DISCOVER: Final = "discover:"
ERROR: Final = "error:"
_MEANT_FOR_WHOEVER: Final = ("nearest:", "swarm:")

_log: Final = logging.getLogger("moothall.keep")


def asks_server(dst: str) -> bool:
    """True if the server itself answers, so that an answer is sure to come (keep wire 6)."""
    return dst in ("", SERVER) or dst.startswith(DISCOVER)


def is_answer(packet: Packet, question: Packet) -> bool:
    if not is_signed(packet):
        return packet.id == question.id
    if asks_server(question.dst):
        return False
    # Programs of the published SDK answer under an id of their own: then the sender has to do.
    return (
        packet.id == question.id or packet.src == question.dst or question.dst.startswith(_MEANT_FOR_WHOEVER)
    )


def read_discovery(body: str) -> dict[str, Any]:
    """What the server tells about itself; `error:unknown_discovery` and the like are a JSONDecodeError."""
    try:
        found = json.loads(body)
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise json.JSONDecodeError("not an object", body, 0)
    return found


class Sorting:
    def __init__(self) -> None:
        self._open: list[tuple[Packet, Callable[[Packet], None]]] = []
        self._given_up: set[str] = set()

    @property
    def is_waiting(self) -> bool:
        return bool(self._open)

    def begin_anew(self) -> None:
        """On a new connection: what was asked on the old one will not be answered."""
        self._given_up.clear()

    def expect(self, question: Packet, take: Callable[[Packet], None]) -> None:
        """Call it before the question is sent: another thread may read the answer."""
        self._open.append((question, take))

    def give_up(self, question: Packet) -> None:
        """The caller stopped waiting. An answer that still comes is discarded."""
        before = len(self._open)
        self._open = [entry for entry in self._open if entry[0] is not question]
        if len(self._open) < before and asks_server(question.dst):
            self._given_up.add(question.id)

    def ignore(self, question: Packet) -> None:
        """Discard the server's answer to this question."""
        self._given_up.add(question.id)

    def sort(self, packet: Packet) -> Packet | None:
        """The packet if it is news, None if it has found its place.

        So news is either verified or unsigned, and then it comes from the server: a packet whose signature does
        not hold was not let through by any server that does its duty.
        """
        if packet.typ == HEARTBEAT:
            return None
        if is_signed(packet):
            if not verify(packet):
                _log.warning("a packet from %r was dropped: its signature does not hold", packet.src)
                return None
        elif packet.id in self._given_up:
            self._given_up.discard(packet.id)
            if packet.body.startswith(ERROR):  # a name that could not be registered again, for one
                _log.warning("the server refused a packet that has no waiting caller: %s", packet.body)
            return None
        for place, (question, take) in enumerate(self._open):
            if is_answer(packet, question):
                del self._open[place]
                take(packet)
                return None
        return packet
