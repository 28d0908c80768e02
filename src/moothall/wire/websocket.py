"""WebSocket frames, server side (RFC 6455): bytes in, messages out; no sockets.

`FrameReader.feed` takes whatever the network delivered and yields `(opcode, payload)` for every complete message
and control frame, in order. It also yields the parts of a message that is not complete, so that every byte can be
charged as it arrives: `(PIECE, bytes)` for a part of a frame, and `(CONTINUATION, bytes)` for the last part of a
fragment that does not end its message. A caller may stop in between and go on later. A violation is raised where it
is found, after everything before it was yielded. It carries the close code to answer with; do not use the reader
after it.
A frame that arrives whole, which is nearly all of them, takes one slice and one unmasking in C; one that arrives in
pieces is unmasked and checked piece by piece, so that invalid text is refused at its first wrong byte.
"""

import struct
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterator
from typing import Final

from moothall.wire.masking import apply_mask

CONTINUATION: Final = 0x0
TEXT: Final = 0x1
BINARY: Final = 0x2
CLOSE: Final = 0x8
PING: Final = 0x9
PONG: Final = 0xA
PIECE: Final = -1  # not on the wire: a part of a frame, see `feed`

NORMAL: Final = 1000
GOING_AWAY: Final = 1001
PROTOCOL_ERROR: Final = 1002
INVALID_TEXT: Final = 1007
POLICY_VIOLATION: Final = 1008
TOO_BIG: Final = 1009
INTERNAL_ERROR: Final = 1011
TRY_AGAIN_LATER: Final = 1013  # registered after RFC 6455

MAX_CONTROL_PAYLOAD: Final = 125  # RFC 6455, 5.5
MAX_REASON: Final = MAX_CONTROL_PAYLOAD - 2
MAX_TEXTS: Final = 64  # that are read at once before the first is handled, see `whole_texts`

_FIN: Final = 0x80
_RESERVED_BITS: Final = 0x70
_MASKED: Final = 0x80
_FINAL_TEXT: Final = _FIN | TEXT
_FINAL_BINARY: Final = _FIN | BINARY
_USUAL: Final = frozenset((_FINAL_TEXT, _FINAL_BINARY))
# RFC 6455, 7.4 and the IANA registry: 1004-1006 and 1015 may never be on the wire.
_REGISTERED_CLOSE_CODES: Final = frozenset((*range(1000, 1004), *range(1007, 1015)))
# The headers of the texts that are usually sent, ready to be put in front of them.
_TEXT_HEADERS: Final = (
    *(bytes((_FINAL_TEXT, length)) for length in range(126)),
    *(bytes((_FINAL_TEXT, 126)) + length.to_bytes(2, "big") for length in range(126, 2048)),
)

_LONG_HEADER: Final = struct.Struct(">BBH")
_LONGEST_HEADER: Final = struct.Struct(">BBQ")

_utf8_decoder: Final = getincrementaldecoder("utf-8")


class Violation(Exception):
    """The peer broke the protocol; close with this code and reason."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


def encode_frame(opcode: int, payload: bytes) -> bytes:
    """One unfragmented, unmasked frame: what a server sends."""
    length = len(payload)
    if length < 126:
        return bytes((_FIN | opcode, length)) + payload
    if length < 65536:
        return _LONG_HEADER.pack(_FIN | opcode, 126, length) + payload
    return _LONGEST_HEADER.pack(_FIN | opcode, 127, length) + payload


def encode_text(payload: bytes) -> bytes:
    """`encode_frame(TEXT, payload)`, for the path that every message takes."""
    length = len(payload)
    return _TEXT_HEADERS[length] + payload if length < 2048 else encode_frame(TEXT, payload)


def encode_close(code: int, reason: str = "") -> bytes:
    """A close frame; a reason that is too long is cut at a character boundary."""
    text = reason.encode()[:MAX_REASON].decode(errors="ignore").encode()
    return encode_frame(CLOSE, code.to_bytes(2, "big") + text)


def is_valid_close_code(code: int) -> bool:
    return code in _REGISTERED_CLOSE_CODES or 3000 <= code < 5000


def decode_close(payload: bytes) -> tuple[int | None, str]:
    """Code and reason of a received close frame; no code when it carried none."""
    if not payload:
        return None, ""
    if len(payload) == 1:
        raise Violation(PROTOCOL_ERROR, "Close frame with half a code")
    code = int.from_bytes(payload[:2], "big")
    if not is_valid_close_code(code):
        raise Violation(PROTOCOL_ERROR, "Invalid close code")
    try:
        return code, payload[2:].decode()
    except UnicodeDecodeError:
        raise Violation(INVALID_TEXT, "Close reason is not UTF-8") from None


class FrameReader:
    """Turns one connection's bytes into messages of at most `max_message` bytes."""

    __slots__ = (
        "_final",
        "_mask",
        "_max_message",
        "_message",
        "_opcode",
        "_remaining",
        "_size",
        "_stub",
        "_utf8",
    )

    def __init__(self, max_message: int) -> None:
        self._max_message = max_message
        self._stub = b""  # the start of a header or control frame that is not complete yet
        self._opcode = 0  # type of the message being assembled; 0 between messages
        # One array, not a list of pieces: a million empty fragments must cost nothing. Most connections need none.
        self._message: bytearray | None = None
        self._size = 0  # its bytes so far, those announced by the current frame included
        self._utf8: IncrementalDecoder | None = None  # checks it as it arrives, when it is text
        self._remaining = 0  # payload bytes of the current frame still to come
        self._mask = b""
        self._final = False

    @property
    def unfinished(self) -> int:
        """Bytes that are held of a message whose end has not arrived."""
        return 0 if self._message is None else len(self._message)

    def whole_text(self, data: bytes) -> bytes | None:
        """The message, if the data is one complete text frame and nothing else; if not, `feed` has to look.

        That is how most messages arrive, and it needs neither the state nor the loop of `feed`.
        """
        size = len(data)
        if size < 6 or data[0] != _FINAL_TEXT or self._opcode or self._stub or size > self._max_message:
            return None
        second = data[1]
        if second == _MASKED | 126:
            length, start = data[2] << 8 | data[3], 8
        else:
            length, start = second - _MASKED, 6
        if size != start + length or (length < 126) is (start == 8):
            return None  # in pieces, or several, or with another form of its length
        payload = apply_mask(data[start:], data[start - 4 : start])
        if not payload.isascii():
            _check_text(payload)
        return payload

    def whole_texts(self, data: bytes) -> list[bytes] | None:
        """The messages, if the data is some complete text frames and nothing else; if not, `feed` has to look.

        That is how the messages of a busy sender arrive. A flood of them is left to `feed`, whose caller can stop
        before all are read.
        """
        end = len(data)
        if self._opcode or self._stub or end > self._max_message:
            return None
        texts: list[bytes] = []
        position = 0
        while position < end:
            start = position + 6
            if start > end or data[position] != _FINAL_TEXT or len(texts) == MAX_TEXTS:
                return None
            length = data[position + 1] - _MASKED
            if length == 126 and start + 2 <= end:
                length = data[position + 2] << 8 | data[position + 3]
                start += 2
                if length < 126:
                    return None
            elif not 0 <= length < 126:
                return None
            position = start + length
            if position > end:
                return None
            payload = apply_mask(data[start:position], data[start - 4 : start])
            if not (payload.isascii() or _is_text(payload)):
                return None  # a violation, after the messages before it
            texts.append(payload)
        return texts

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        if self._stub:
            data = self._stub + data
            self._stub = b""
        position = 0
        end = len(data)
        if self._remaining:
            position = min(self._remaining, end)
            piece = data[:position]
            self._take_piece(piece)
            if self._remaining:
                yield PIECE, piece
                return
            yield self._finish() if self._final else (CONTINUATION, piece)
        while end - position >= 2:
            first = data[position]
            second = data[position + 1]
            if first not in _USUAL or second < _MASKED or self._opcode:
                self._check_header(first, second)
            length = second & 0x7F
            start = position + 6
            if length >= 126:
                start = position + (8 if length == 126 else 14)
                if start > end:
                    break
                length = _extended_length(data[position + 2 : start - 4])
            stop = start + length
            if first & 0x08:
                if stop > end:
                    break
            elif self._size + length > self._max_message:
                raise Violation(TOO_BIG, f"Message over {self._max_message} bytes")
            elif stop > end:
                if start > end:
                    break
                self._begin_frame(first, data[start - 4 : start], length)
                piece = data[start:]
                self._take_piece(piece)
                yield PIECE, piece
                return
            payload = apply_mask(data[start:stop], data[start - 4 : start])
            position = stop
            if first == _FINAL_TEXT:
                if not payload.isascii():
                    _check_text(payload)
                yield TEXT, payload
            elif first & 0x08 or first == _FINAL_BINARY:
                yield first & 0x0F, payload
            else:
                self._begin_frame(first, b"", 0)
                self._append(payload)
                self._size += length
                yield self._finish() if self._final else (CONTINUATION, payload)
        self._stub = data[position:]
        if self._stub:
            yield PIECE, b""  # its bytes belong to no message yet

    def _check_header(self, first: int, second: int) -> None:
        if first & _RESERVED_BITS:
            raise Violation(PROTOCOL_ERROR, "Reserved bits set")
        opcode = first & 0x0F
        if not second & _MASKED:
            raise Violation(PROTOCOL_ERROR, "Client frames must be masked")
        if opcode >= CLOSE:
            if opcode > PONG:
                raise Violation(PROTOCOL_ERROR, "Unknown opcode")
            if not first & _FIN:
                raise Violation(PROTOCOL_ERROR, "Fragmented control frame")
            if second & 0x7F > MAX_CONTROL_PAYLOAD:
                raise Violation(PROTOCOL_ERROR, "Control frame over 125 bytes")
        elif opcode > BINARY:
            raise Violation(PROTOCOL_ERROR, "Unknown opcode")
        elif (opcode == CONTINUATION) is (self._opcode == 0):
            raise Violation(PROTOCOL_ERROR, "Continuation out of place")

    def _begin_frame(self, first: int, mask: bytes, length: int) -> None:
        if self._opcode == 0:
            self._opcode = first & 0x0F
            self._utf8 = _utf8_decoder() if self._opcode == TEXT else None
        self._final = bool(first & _FIN)
        self._mask = mask
        self._remaining = length
        self._size += length

    def _take_piece(self, masked: bytes) -> None:
        self._append(apply_mask(masked, self._mask))
        turn = len(masked) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        self._remaining -= len(masked)

    def _append(self, piece: bytes) -> None:
        if self._utf8 is not None:
            _check_text_piece(self._utf8, piece)
        if self._message is None:
            self._message = bytearray()
        self._message += piece

    def _finish(self) -> tuple[int, bytes]:
        if self._utf8 is not None and self._utf8.getstate()[0]:
            raise Violation(INVALID_TEXT, "Text ends inside a character")
        opcode, message = self._opcode, bytes(self._message or b"")
        self._opcode = 0
        self._message = None
        self._utf8 = None
        self._size = 0
        return opcode, message


def _extended_length(field: bytes) -> int:
    length = int.from_bytes(field, "big")
    if length < (126 if len(field) == 2 else 65536):
        raise Violation(PROTOCOL_ERROR, "Length not in its shortest form")
    if length >> 63:
        raise Violation(PROTOCOL_ERROR, "Length with its highest bit set")
    return length


def _is_text(payload: bytes) -> bool:
    try:
        payload.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_text(payload: bytes) -> None:
    if not _is_text(payload):
        raise Violation(INVALID_TEXT, "Text is not UTF-8")


def _check_text_piece(decoder: IncrementalDecoder, piece: bytes) -> None:
    try:
        decoder.decode(piece)
    except UnicodeDecodeError:
        raise Violation(INVALID_TEXT, "Text is not UTF-8") from None
    undecided = decoder.getstate()[0]
    # Python's decoder waits for the third byte of a surrogate; the second is already invalid.
    if len(undecided) == 2 and undecided[0] == 0xED and undecided[1] >= 0xA0:
        raise Violation(INVALID_TEXT, "Text is not UTF-8")
