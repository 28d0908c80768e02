"""The lines of an output that may have something to count, out of blocks of any size, in bounded memory.

Most output has nothing to count. So whole blocks are searched for a few words, and only a line with such a word is
cut out. The C library's search is four times as fast as that of Python, and it is most of what a guard does.
"""

import ctypes
from collections.abc import Iterator
from typing import Final

_NEWLINE: Final = b"\n"

_memmem: Final = ctypes.CDLL(None).memmem
_memmem.restype = ctypes.c_void_p
_memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)


class Sieve:
    """`words`: a line without any of them is of no interest. A line longer than `longest` comes in pieces."""

    def __init__(self, words: tuple[bytes, ...], longest: int) -> None:
        self._words = words
        self._longest = longest
        self._open = bytearray()  # what is not yet searched: the beginning of a line

    def feed(self, block: bytes | memoryview) -> Iterator[bytes]:
        """Lines of interest that this block completes, in their order, without their newline."""
        for start in range(0, len(block), self._longest):
            piece = block[start : start + self._longest]
            known = len(self._open)
            self._open += piece
            end = self._open.rfind(_NEWLINE, known)
            if end < 0 and len(self._open) >= self._longest:
                end = len(self._open)
            if end >= 0:
                yield from self._lines(end)
                del self._open[: end + 1]

    def rest(self) -> Iterator[bytes]:
        """The last line, if it had no newline."""
        yield from self._lines(len(self._open))
        self._open.clear()

    def _lines(self, end: int) -> Iterator[bytes]:
        found: dict[int, int] = {}  # where a line begins: where it ends
        for word in self._words:
            at = _first(self._open, word, end)
            while at >= 0:
                start = self._open.rfind(_NEWLINE, 0, at) + 1
                stop = self._open.find(_NEWLINE, at, end)
                stop = end if stop < 0 else stop
                found[start] = stop
                at = self._open.find(word, stop, end)
        for start in sorted(found):
            yield bytes(self._open[start : found[start]])


def _first(text: bytearray, word: bytes, end: int) -> int:
    """`text.find(word, 0, end)`."""
    if not end:
        return -1
    beginning = ctypes.c_char.from_buffer(text)  # while it exists, the text cannot be changed
    start = ctypes.addressof(beginning)
    found: int | None = _memmem(start, end, word, len(word))
    return -1 if found is None else found - start
