"""Frames of yamux, `/yamux/1.0.0`: a header of twelve bytes, and data behind those of kind DATA.

Version, kind, flags, stream and length, in network order. For other kinds than DATA the length is a number: bytes
added to a window, the value of a ping, or why a peer goes away.
"""

from enum import IntEnum, IntFlag
from struct import Struct
from typing import Final

PROTOCOL: Final = "/yamux/1.0.0"
VERSION: Final = 0
HEADER: Final = Struct(">BBHII")
HEADER_BYTES: Final = HEADER.size
SESSION: Final = 0  # the stream of frames that belong to none

DATA: Final = 0
WINDOW_UPDATE: Final = 1
PING: Final = 2
GO_AWAY: Final = 3


class Flag(IntFlag):
    SYN = 1  # opens a stream; asks, in a ping
    ACK = 2  # takes a stream; answers, in a ping
    FIN = 4  # the sender sends no more data on this stream
    RST = 8  # the stream ends at once, in both directions


class Why(IntEnum):
    """Why a peer goes away."""

    NORMAL = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2


def header(kind: int, flags: int, stream: int, length: int) -> bytes:
    return HEADER.pack(VERSION, kind, flags, stream, length)
