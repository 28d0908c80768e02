"""Typed messages between nodes. What goes to one subject in one turn of the loop leaves as one packet.

The order of messages to one subject is kept. Rooms of the cluster say with `handle` which messages they take.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from moothall.hall.cluster.bus import Bus, Stop
from moothall.hall.outside import Log
from moothall.wire.bus import BadPacket, BusMessage, Kinds, Origin, packets

Message = TypeVar("Message", bound=BusMessage)

Soon = Callable[[Callable[[], None]], object]  # "call this at the end of the turn"


class Post:
    def __init__(self, bus: Bus, node: str, soon: Soon, log: Log) -> None:
        self.origin = Origin(node, 0)  # the life is known once the registry has given it
        self.admits: Callable[[Origin, BusMessage], bool] = lambda origin, message: True
        self.may_send: Callable[[], bool] = lambda: True
        self.may_log: Callable[[str], bool] = lambda event: True  # asked before each line of the log
        self.refused = 0  # packets, and messages in packets, that no node would send
        self.turn = 0  # how often what waited was sent
        self._bus = bus
        self._soon = soon
        self._log = log
        self._kinds = Kinds()
        self._handlers: dict[type[BusMessage], Callable[[Origin, Any], None]] = {}
        self._waiting: dict[str, list[BusMessage]] = {}  # by subject

    def handle(self, kind: type[Message], handler: Callable[[Origin, Message], None]) -> None:
        """Call `handler` with each message of this kind that other nodes send."""
        if kind in self._handlers:
            raise ValueError(f"two handlers for {kind.__name__}")
        self._kinds.add(kind)
        self._handlers[kind] = handler

    def listen(self, subject: str) -> Stop:
        return self._bus.subscribe(subject, self._receive)

    def send(self, subject: str, message: BusMessage) -> None:
        """To the nodes that listen to this subject, but not to this one. It leaves at the end of the turn."""
        waiting = self._waiting.get(subject)
        if waiting is not None:
            waiting.append(message)
            return
        if not self._waiting:
            self._soon(self.flush)
        self._waiting[subject] = [message]

    def flush(self) -> None:
        """Send at once what waits for the end of the turn. It is lost if this node may not send."""
        waiting, self._waiting = self._waiting, {}
        self.turn += 1
        if waiting and self.may_send():
            for subject, messages in waiting.items():
                for packet in packets(self.origin, messages):
                    self._bus.publish(subject, packet)

    def forget(self) -> None:
        """Send nothing of what waits: this node was given up for dead."""
        self._waiting.clear()
        self.turn += 1

    def _receive(self, payload: bytes) -> None:
        try:
            origin, messages = self._kinds.unpack(payload)
        except BadPacket as error:
            self._refuse(error)
            return
        if origin.node == self.origin.node:
            return
        for message in messages:
            if isinstance(message, BadPacket):
                self._refuse(message)
            elif self.admits(origin, message):
                self._take(origin, message)

    def _take(self, origin: Origin, message: BusMessage) -> None:
        """What is wrong with one message must not cost the agents that the others of its packet are for."""
        try:
            self._handlers[type(message)](origin, message)
        except BadPacket as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next message is another one
            if self.may_log("bus_message_failed"):
                self._log.warning("bus_message_failed", kind=message.KIND, exc_info=error)

    def _refuse(self, error: BadPacket) -> None:
        self.refused += 1
        if self.may_log("bus_packet_refused"):
            self._log.warning("bus_packet_refused", error=str(error))
