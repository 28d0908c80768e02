"""A message on its way out of the hall, and what the wires have made of it.

The hall hands the same `Outgoing` to every connection that is to get a message. A connection knows its own wire and
asks for the bytes; they are made at the first question, so a message to a thousand members is encoded once per wire
and all of them get the same object.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moothall.wire.agentchat.server import ServerMessage

Encoded = TypeVar("Encoded")


class Outgoing:
    """One message."""

    __slots__ = ("_encodings", "frame", "message", "plain", "ref", "text")

    def __init__(
        self, message: ServerMessage, ref: str | None = None, plain: "Outgoing | None" = None
    ) -> None:
        self.message = message
        self.ref = ref  # of the command that it answers
        self.plain = plain  # the same without `ref`, with which it shares its text
        # As a WebSocket frame, see `codec.framed`. Most connections take it, so it has a place of its own.
        self.frame: bytes | None = None
        self.text: bytes | None = None  # as JSON, without `ref`
        self._encodings: dict[object, Any] | None = None  # of other wires

    def answering(self, ref: str) -> "Outgoing":
        """The same message, for the one agent whose command it answers."""
        return Outgoing(self.message, ref, self)

    def encoded(self, encode: Callable[[ServerMessage], Encoded]) -> Encoded:
        """What `encode` makes of the message, called once for all connections of a wire."""
        encodings = self._encodings
        if encodings is None:
            encodings = self._encodings = {}
        if encode not in encodings:
            encodings[encode] = encode(self.message)
        made: Encoded = encodings[encode]
        return made


class Bundle:
    """Several messages that leave together, in their order."""

    __slots__ = ("frame", "is_replay", "parts")

    def __init__(
        self, parts: Sequence[Outgoing], *, is_replay: bool = False, frame: bytes | None = None
    ) -> None:
        self.parts = parts
        self.is_replay = is_replay  # they were said before; the receiver was not there
        self.frame = frame  # all frames in one piece
