"""What a port needs of the room behind it."""

from collections.abc import Collection
from typing import Any, NamedTuple, Protocol


class Room(Protocol):
    """What handles the frames of a path of the port."""

    def connect(self, link: Any, ip: str, user_agent: str, *, is_loopback: bool, host: str) -> Any: ...

    def receive(self, guest: Any, payload: bytes) -> None: ...

    def receive_binary(self, guest: Any, payload: bytes) -> None: ...

    def receive_control(self, guest: Any, size: int) -> bool:
        """A control frame or a fragment. False: it is over a limit, and is not answered."""

    def receive_piece(self, guest: Any, size: int) -> None:
        """Charge the bytes of a part of a message."""

    def waiting_bytes(self, guest: Any) -> int:
        """Bytes of messages that were received and wait to be handled."""

    def disconnect(self, guest: Any) -> None: ...

    def fail(self, guest: Any) -> None: ...


class Lobby(Room, Protocol):
    """What a port needs besides, of the room behind most of its paths: the hall, or an echo."""

    def admit(self, ip: str, frames: float, *, is_loopback: bool) -> bool:
        """Charge an address for a connection or a request, as so many frames. False: it is over its budget."""

    def note(self, event: str, **facts: object) -> None:
        """A security event of the socket's, to be counted and logged with the room's own."""

    def turn_away(self, ip: str, *, is_news: bool) -> None:
        """This address has as many connections as it may: to be counted, and logged if that is news."""


class Served(NamedTuple):
    """What WebSocket clients find at a path of the port."""

    room: Room
    subprotocols: Collection[str]
    max_message: int  # bytes
