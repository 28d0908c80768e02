"""A message on its way out of the hall, and what the wires have made of it.

The hall hands the same `Outgoing` to every connection that is to get a message. A connection knows its own wire and
asks for the bytes; they are made at the first question, so a message to a thousand members is encoded once per wire
and all of them get the same object.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from moothall.wire.agentchat.server import ServerMessage

Encoded = TypeVar("Encoded")


class Outgoing(msgspec.Struct, eq=False, gc=False):
    """One message."""

    message: ServerMessage
    ref: str | None = None  # of the command that it answers
    # As a WebSocket frame, see `codec.framed`. Most connections take it, so it has a place of its own.
    frame: bytes | None = None
    text: bytes | None = None  # as JSON, without `ref`
    plain: "Outgoing | None" = None  # the same without `ref`, with which it shares its text
    encodings: dict[object, Any] | None = None  # of other wires

    def answering(self, ref: str) -> "Outgoing":
        """The same message, for the one agent whose command it answers."""
        return Outgoing(self.message, ref, plain=self)

    def encoded(self, encode: Callable[[ServerMessage], Encoded]) -> Encoded:
        """What `encode` makes of the message, called once for all connections of a wire."""
        encodings = self.encodings
        if encodings is None:
            encodings = self.encodings = {}
        if encode not in encodings:
            encodings[encode] = encode(self.message)
        made: Encoded = encodings[encode]
        return made


class Bundle(msgspec.Struct, eq=False, gc=False):
    """Several messages that leave together, in their order."""

    parts: Sequence[Outgoing]
    is_replay: bool = False  # they were said before; the receiver was not there
    frame: bytes | None = None  # all frames in one piece
