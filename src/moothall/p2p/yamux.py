"""yamux: many streams on one connection, each with its own window.

A stream begins with SYN, which the other side answers with ACK or RST. Each side ends its direction with FIN; a
stream is gone when both did, or when one of them sent RST. The first frame of a stream carries SYN or ACK, whatever
kind it has.

A sender may send as many bytes on a stream as its window has left: 256 KiB in the beginning, and what the receiver
adds. So a receiver chooses how much it keeps: this one returns window for what was `consumed`, and a peer that
sends more than the window is cut off.

What is bounded: streams that the peer opens, and ours; bytes that were received and not consumed, for each stream
and for all of them; bytes that wait to be sent, likewise; answers that the peer does not read. A frame is never
kept as a whole: data are told of as they arrive.

Nothing is sent from here. `take` gives the next bytes when the connection can take some: answers first, then the
streams in turn, a frame each.
"""

from collections import OrderedDict, deque
from typing import Final

import msgspec

from moothall.p2p.yamux_frames import (
    GO_AWAY,
    HEADER,
    HEADER_BYTES,
    PING,
    SESSION,
    VERSION,
    WINDOW_UPDATE,
    Flag,
    Why,
    header,
)
from moothall.p2p.yamux_streams import (
    WINDOW,
    Broken,
    Event,
    Finished,
    Opened,
    Pong,
    Received,
    Reset,
    Stream,
    WentAway,
)

MAX_ANSWERS: Final = 1024  # frames that wait: pongs, and resets of streams that were refused
_WORTH_A_FRAME: Final = 512  # bytes: what is left of a `take` is not filled with tiny frames
_MOST_CREDIT: Final = (1 << 32) - 1

_SYN, _ACK, _FIN, _RST = (int(flag) for flag in (Flag.SYN, Flag.ACK, Flag.FIN, Flag.RST))


class Limits(msgspec.Struct, frozen=True):
    inbound: int = 256  # streams that the peer may have open
    outbound: int = 100  # streams that we have open: the reference refuses more (mesh wire 6.3)
    unread: int = 4 * 1024 * 1024  # bytes that were received and not consumed, on all streams
    unsent: int = 256 * 1024  # bytes that wait on one stream
    unsent_total: int = 4 * 1024 * 1024  # bytes that wait on all streams


class Session:
    """One end of a connection. `is_client` says who dialled: its streams have odd numbers."""

    def __init__(self, *, is_client: bool, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._parity = 1 if is_client else 0  # of our streams
        self._next_id = 1 if is_client else 2
        self._streams: dict[int, Stream] = {}
        self._inbound = 0
        self._answers: deque[bytes] = deque()
        self._ready: OrderedDict[int, Stream] = OrderedDict()  # streams that have a frame to send, in turn
        self._asked_for_room: dict[int, Stream] = {}
        self._events: list[Event] = []
        self._head = b""  # of a frame that is cut off
        self._body = 0  # bytes that are missing of the data of a frame
        self._body_stream: Stream | None = None
        self._body_flags = 0
        self._ping: int | None = None
        self._is_leaving = False
        self.peer_left = False
        self.is_broken = False
        self.unread = 0
        self.unsent = 0

    @property
    def streams(self) -> int:
        return len(self._streams)

    @property
    def has_output(self) -> bool:
        """True if `take` has something to give."""
        return bool(self._answers or self._ready)

    # -- what we do ----------------------------------------------------------------------------------------

    def open(self) -> Stream | None:
        """A new stream, or None if there are too many, or one side is going away."""
        if (
            self.peer_left
            or self._is_leaving
            or self.is_broken
            or len(self._streams) - self._inbound >= self._limits.outbound
            or self._next_id > _MOST_CREDIT
        ):
            return None
        stream = self._streams[self._next_id] = Stream(self._next_id, is_inbound=False)
        self._next_id += 2
        self._make_ready(stream)
        return stream

    def send(self, stream: Stream, data: bytes) -> bool:
        """Queues data, all or nothing. False if the stream has ended, or has no room: `drained` tells of room."""
        if not stream.can_send:
            return False
        size = len(data)
        if len(stream.queue) + size > self._limits.unsent or self.unsent + size > self._limits.unsent_total:
            self._asked_for_room[stream.id] = stream
            return False
        stream.queue += data
        self.unsent += size
        self._make_ready(stream)
        return True

    def drained(self) -> list[Stream]:
        """Streams that had no room for data, and are half empty now. Ask after `take`."""
        if not self._asked_for_room or 2 * self.unsent > self._limits.unsent_total:
            return []
        streams = [
            each for each in self._asked_for_room.values() if 2 * len(each.queue) <= self._limits.unsent
        ]
        for stream in streams:
            del self._asked_for_room[stream.id]
        return streams

    def finish(self, stream: Stream) -> None:
        """Sends FIN behind the data that wait."""
        if stream.can_send:
            stream.can_send = False
            self._make_ready(stream)

    def reset(self, stream: Stream) -> None:
        """Ends a stream in both directions. Data that wait are dropped."""
        if not stream.is_gone:
            self._drop(stream)
            if stream.is_announced:
                self._answer(header(WINDOW_UPDATE, _RST, stream.id, 0))

    def consumed(self, stream: Stream, size: int) -> None:
        """Received data were dealt with. Their window is returned to the peer, in time."""
        size = min(size, stream.unread)
        stream.unread -= size
        self.unread -= size
        stream.credit += size
        self._make_ready(stream)

    def ping(self, value: int) -> None:
        """Asks for a Pong with this value, a number of 32 bits. A later ping takes the place of an earlier one."""
        self._ping = value
        self._answer(header(PING, _SYN, SESSION, value))

    def go_away(self, why: Why = Why.NORMAL) -> None:
        """Tells the peer that this side takes no new streams."""
        if not self._is_leaving:
            self._is_leaving = True
            self._answer(header(GO_AWAY, 0, SESSION, why))

    def take(self, most: int) -> bytes:
        """At most so many bytes to send now."""
        frames: list[bytes] = []
        size = 0
        while self._answers and size + HEADER_BYTES <= most:
            frames.append(self._answers.popleft())
            size += HEADER_BYTES
        while self._ready and most - size >= HEADER_BYTES + (_WORTH_A_FRAME if size else 1):
            _, stream = self._ready.popitem(last=False)
            if stream.has_frame:
                frame, data_size = stream.frame(most - size - HEADER_BYTES)
                frames.append(frame)
                size += len(frame)
                self.unsent -= data_size
                self._make_ready(stream)
                self._forget_if_done(stream)
        return b"".join(frames)

    # -- what the peer does --------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[Event]:
        """What the bytes say. Data come in the pieces they arrive in; all else is the same for any split."""
        if self.is_broken:
            return []
        position, end = 0, len(data)
        if self._head:
            position = HEADER_BYTES - len(self._head)
            self._head += data[:position]
            if len(self._head) < HEADER_BYTES:
                return []
            head, self._head = self._head, b""
            self._take_header(*HEADER.unpack(head))
        while position < end and not self.is_broken:
            if self._body:
                piece = data[position : position + self._body]
                position += len(piece)
                self._body -= len(piece)
                self._take_data(piece)
            elif end - position < HEADER_BYTES:
                self._head = data[position:]
                break
            else:
                self._take_header(*HEADER.unpack_from(data, position))
                position += HEADER_BYTES
        events, self._events = self._events, []
        return events

    def _take_header(self, version: int, kind: int, flags: int, number: int, length: int) -> None:
        if version != VERSION or kind > GO_AWAY or flags > 0xF:
            self._break(f"a frame of version {version}, kind {kind} and flags {flags:#x}")
        elif kind == PING:
            self._take_ping(flags, length)
        elif kind == GO_AWAY:
            self.peer_left = True
            self._events.append(WentAway(length))
        else:
            self._take_stream_frame(kind, flags, number, length)

    def _take_ping(self, flags: int, value: int) -> None:
        if flags == _SYN:
            self._answer(header(PING, _ACK, SESSION, value))
        elif flags != _ACK:
            self._break("a ping that neither asks nor answers")
        elif value == self._ping:
            self._ping = None
            self._events.append(Pong(value))

    def _take_stream_frame(self, kind: int, flags: int, number: int, length: int) -> None:
        stream = self._streams.get(number)
        if flags & _SYN:
            if stream is not None or number == SESSION or number & 1 == self._parity:
                self._break(f"stream {number} cannot be opened by the peer")
                return
            stream = self._accept(number)
        elif stream is None and (
            number == SESSION or (number & 1 == self._parity and number >= self._next_id)
        ):
            self._break(f"a frame on stream {number}, which was never opened")
            return
        if kind == WINDOW_UPDATE:
            if stream is not None:
                self._take_window(stream, length)
                self._take_flags(stream, flags)
            return
        # A frame on a stream that is gone was on its way when it ended; nothing of it is kept.
        if length > (WINDOW if stream is None else stream.receive_window):
            self._break(f"{length:,} bytes on stream {number}, which is more than its window")
            return
        if stream is not None and length:
            stream.receive_window -= length
            if stream.peer_finished or self.unread + length > self._limits.unread:
                self._events.append(Reset(stream))
                self.reset(stream)
            else:
                stream.unread += length
                self.unread += length
        self._body, self._body_stream, self._body_flags = length, stream, flags
        if not length and stream is not None:
            self._take_flags(stream, flags)

    def _take_data(self, piece: bytes) -> None:
        stream = self._body_stream
        if stream is None or stream.is_gone:
            return
        self._events.append(Received(stream, piece))
        if not self._body:
            self._take_flags(stream, self._body_flags)

    def _take_window(self, stream: Stream, credit: int) -> None:
        if stream.send_window + credit > _MOST_CREDIT:
            self._break(f"the window of stream {stream.id} was made too large")
            return
        stream.send_window += credit
        self._make_ready(stream)

    def _take_flags(self, stream: Stream, flags: int) -> None:
        if stream.is_gone:
            return
        if flags & _RST:
            self._events.append(Reset(stream))
            self._drop(stream)
        elif flags & _FIN and not stream.peer_finished:
            stream.peer_finished = True
            self._events.append(Finished(stream))
            self._forget_if_done(stream)

    def _accept(self, number: int) -> Stream | None:
        if self._inbound >= self._limits.inbound or self._is_leaving:
            self._answer(header(WINDOW_UPDATE, _RST, number, 0))
            return None
        stream = self._streams[number] = Stream(number, is_inbound=True)
        self._inbound += 1
        self._make_ready(stream)
        self._events.append(Opened(stream))
        return stream

    # -- how it is done ------------------------------------------------------------------------------------

    def _make_ready(self, stream: Stream) -> None:
        if not stream.is_gone and stream.has_frame:
            self._ready[stream.id] = stream

    def _answer(self, frame: bytes) -> None:
        self._answers.append(frame)
        if len(self._answers) > MAX_ANSWERS and not self.is_broken:
            self._break("the peer asks and does not read the answers")

    def _forget_if_done(self, stream: Stream) -> None:
        if stream.is_finished and stream.peer_finished:
            self._forget(stream)

    def _drop(self, stream: Stream) -> None:
        """Ends a stream with all that it has."""
        self.unread -= stream.unread
        self.unsent -= len(stream.queue)
        stream.unread = 0
        stream.queue.clear()
        stream.can_send = False
        self._forget(stream)

    def _forget(self, stream: Stream) -> None:
        stream.is_gone = True
        del self._streams[stream.id]
        self._ready.pop(stream.id, None)
        self._asked_for_room.pop(stream.id, None)
        if stream.is_inbound:
            self._inbound -= 1

    def _break(self, reason: str) -> None:
        self.is_broken = True
        for stream in list(self._streams.values()):
            self._drop(stream)
        self._answers.clear()
        self._answers.append(header(GO_AWAY, 0, SESSION, Why.PROTOCOL_ERROR))
        self._events.append(Broken(reason))
