"""A stream of yamux, and what can happen to it and to its session."""

from typing import Final, TypeAlias

import msgspec

from moothall.p2p.yamux_frames import DATA, WINDOW_UPDATE, Flag, header

WINDOW: Final = 256 * 1024  # bytes, of each direction of a stream
MAX_DATA: Final = 16 * 1024  # bytes in a frame that we send, so that streams take turns
_RETURN_AT: Final = WINDOW // 2  # window is returned in halves: one update for many frames

_SYN, _ACK, _FIN = int(Flag.SYN), int(Flag.ACK), int(Flag.FIN)


class Stream:
    """One stream of a session. Only its session changes it.

    Events of one `receive` are told together, so a stream can be gone when its first event is looked at.
    """

    __slots__ = (
        "can_send",
        "credit",
        "flags",
        "id",
        "is_finished",
        "is_gone",
        "is_inbound",
        "peer_finished",
        "queue",
        "receive_window",
        "send_window",
        "unread",
    )

    def __init__(self, number: int, *, is_inbound: bool) -> None:
        self.id = number
        self.is_inbound = is_inbound
        self.send_window = WINDOW  # bytes that we may send
        self.receive_window = WINDOW  # bytes that the peer may send
        self.unread = 0  # bytes that the peer sent and that were not consumed
        self.credit = 0  # bytes that were consumed, and whose window was not returned
        self.can_send = True  # False after `finish`, and when the stream was reset
        self.is_finished = False  # our FIN was sent
        self.peer_finished = False  # the peer sends no more data
        self.is_gone = False
        self.queue = bytearray()  # data that wait
        self.flags = _ACK if is_inbound else _SYN  # of the next frame

    @property
    def is_announced(self) -> bool:
        """False before our SYN was sent."""
        return not self.flags & _SYN

    @property
    def has_frame(self) -> bool:
        return bool(
            self.flags
            or self.owes_window
            or (self.queue and self.send_window)
            or not (self.queue or self.can_send or self.is_finished)
        )

    @property
    def owes_window(self) -> bool:
        return self.credit >= _RETURN_AT and not self.peer_finished

    def frame(self, most: int) -> tuple[bytes, int]:
        """The next frame, with at most so many bytes of data, and how many it has. Only if `has_frame`."""
        flags, self.flags = self.flags, 0
        if self.owes_window:
            credit, self.credit = self.credit, 0
            self.receive_window += credit
            return header(WINDOW_UPDATE, flags, self.id, credit), 0
        size = min(len(self.queue), self.send_window, MAX_DATA, most)
        if not size:
            if not (self.queue or self.can_send or self.is_finished):
                # In a frame of its own: js-libp2p takes the flags of a frame first, and then refuses its data.
                flags |= _FIN
                self.is_finished = True
            return header(WINDOW_UPDATE, flags, self.id, 0), 0
        data = header(DATA, flags, self.id, size) + self.queue[:size]
        del self.queue[:size]
        self.send_window -= size
        return data, size


class Opened(msgspec.Struct, frozen=True):
    """The peer opened a stream."""

    stream: Stream


class Received(msgspec.Struct, frozen=True):
    """Data arrived. Say `consumed` when they are dealt with: the peer can only send as much again."""

    stream: Stream
    data: bytes


class Finished(msgspec.Struct, frozen=True):
    """The peer sends no more data on a stream. We still can."""

    stream: Stream


class Reset(msgspec.Struct, frozen=True):
    """A stream ended at once: the peer reset it, or it went over the bytes that may be unread."""

    stream: Stream


class Pong(msgspec.Struct, frozen=True):
    """The peer answered a ping."""

    value: int


class WentAway(msgspec.Struct, frozen=True):
    """The peer takes no new streams, and will close the connection."""

    code: int


class Broken(msgspec.Struct, frozen=True):
    """The peer broke the protocol: the last event. Send what `take` gives, a go-away, and close the connection."""

    reason: str


Event: TypeAlias = Opened | Received | Finished | Reset | Pong | WentAway | Broken
