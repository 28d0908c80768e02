"""Cutting an archive so that each FILE_CHUNK frame stays just under 256 KiB (seed 001, transport).

A chunk is JSON inside JSON, so some characters take several bytes of a frame. The pieces are cut by what they take
there, not by their length. At five chunks a second this lets 50 MB arrive within the seed's 120 seconds.
"""

from typing import BinaryIO, Final

from moothall.wire.agentchat.client import MAX_FRAME

# The rest of the frame: both JSON objects without the data, with the longest numbers and a long `ref`.
ENVELOPE: Final = 512
ROOM: Final = MAX_FRAME - ENVELOPE

_SHORT: Final = b"\b\t\n\f\r"  # \n is two characters in JSON, three bytes in JSON inside JSON
_QUOTED: Final = b'"\\'  # four bytes
_LONG: Final = bytes(set(range(0x20)) - set(_SHORT))  # \u0001: seven bytes


def escaped_size(text: bytes) -> int:
    """Bytes that a text in UTF-8 takes in a frame."""
    size = len(text)
    plain = len(text.translate(None, _SHORT + _QUOTED + _LONG))
    if plain == size:
        return size
    short = size - len(text.translate(None, _SHORT))
    quoted = size - len(text.translate(None, _QUOTED))
    return plain + 3 * short + 4 * quoted + 7 * (size - plain - short - quoted)


def fitting(text: bytes, room: int = ROOM) -> int:
    """How many bytes from the beginning fit into a frame, without cutting a character."""
    longest = min(len(text), room)
    if escaped_size(text[:longest]) > room:
        shortest = 0
        while longest - shortest > 1:
            middle = (shortest + longest) // 2
            if escaped_size(text[:middle]) > room:
                longest = middle
            else:
                shortest = middle
        longest = shortest
    while longest < len(text) and text[longest] & 0xC0 == 0x80:
        longest -= 1
    return longest


def cut(archive: BinaryIO, room: int = ROOM) -> list[int]:
    """The offsets at which the chunks of an archive begin, and its end. `room` must fit any character."""
    offsets = [0]
    while True:
        archive.seek(offsets[-1])
        window = archive.read(room + 4)  # a whole character beyond, to tell where one begins
        if not window:
            return offsets
        offsets.append(offsets[-1] + fitting(window, room))
