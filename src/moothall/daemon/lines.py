"""The lines of an open file, in blocks, in both directions. A last line without its newline is not one yet."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

BLOCK: Final = 256 * 1024  # bytes
_COUNTED: Final = 1024 * 1024  # bytes; larger blocks are not counted faster


def forward(descriptor: int, position: int) -> Iterator[bytes]:
    """Each whole line from `position` on, with its newline."""
    pieces: list[bytes] = []
    while block := os.pread(descriptor, BLOCK, position):
        position += len(block)
        start = 0
        while (newline := block.find(b"\n", start)) >= 0:
            pieces.append(block[start : newline + 1])
            yield pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            start = newline + 1
        if start < len(block):
            pieces.append(block[start:])


def backward(descriptor: int, end: int) -> Iterator[bytes]:
    """Each whole line that ends at or before `end`, with its newline, the last one first."""
    pieces: list[bytes] = []  # of the line that is being put together, the last piece first
    is_whole = False  # True once the newline at the end of that line was seen
    while end > 0:
        start = max(0, end - BLOCK)
        block = os.pread(descriptor, end - start, start)
        stop = len(block)
        while (newline := block.rfind(b"\n", 0, stop)) >= 0:
            if is_whole:
                pieces.append(block[newline + 1 : stop])
                yield b"".join(reversed(pieces))
            is_whole = True
            pieces = [b"\n"]
            stop = newline
        if is_whole and stop > 0:
            pieces.append(block[:stop])
        end = start
    if is_whole:
        yield b"".join(reversed(pieces))


def count(descriptor: int, start: int, end: int) -> int:
    """How many lines end in this part of the file."""
    found = 0
    while start < end and (block := os.pread(descriptor, min(_COUNTED, end - start), start)):
        found += block.count(b"\n")
        start += len(block)
    return found


def has_whole_line(descriptor: int, position: int) -> bool:
    """True if a line ends after `position`."""
    return next(forward(descriptor, position), None) is not None


def append(descriptor: int, added: bytes) -> None:
    """Append whole lines, below a line that was torn by the end of its writer.

    Raises OSError; then nothing was added.
    """
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        added = b"\n" + added
    try:
        while added:
            added = added[os.write(descriptor, added) :]
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def line_at(descriptor: int, position: int, longest: int) -> tuple[bytes, int] | None:
    """The whole line that begins there, and how many bytes it has. None if it has no newline yet.

    Of a line with more than `longest` bytes, only the first ones are returned.
    """
    pieces: list[bytes] = []
    length = 0
    while block := os.pread(descriptor, BLOCK, position + length):
        newline = block.find(b"\n")
        piece = block if newline < 0 else block[: newline + 1]
        if length < longest:
            pieces.append(piece[: longest - length])
        length += len(piece)
        if newline >= 0:
            return b"".join(pieces), length
    return None
