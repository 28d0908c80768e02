"""Chunks on their way to an archive: on disk, in the order in which they came, and read in their own order."""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from moothall.files.control import MAX_FILES, Offer
from moothall.wire.agentchat.jstext import utf8

# What an archive may have, at most: a byte that is not UTF-8 becomes a character of three, and each file has a line
# in the header and two markers.
_GROWTH: Final = 3
_FOR_HEADER: Final = 64 * 1024
_FOR_FILE: Final = 4 * 1024

_has_surrogate: Final = re.compile("[\ud800-\udfff]").search
_ends_high: Final = re.compile("[\ud800-\udbff]\\Z").search


class TooMuch(Exception):
    """The chunks have more data than was offered."""


def most_bytes(offer: Offer) -> int:
    """The size that an archive with these files can have."""
    files = min(len(offer.files) + offer.more, MAX_FILES)
    return _GROWTH * offer.total_size + _FOR_HEADER + _FOR_FILE * files


class Spool:
    """A file without a name: it is gone when it is closed, also by a crash."""

    def __init__(self, folder: Path, offer: Offer) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  # closed by close()
        self._places: list[tuple[int, int] | None] = [None] * offer.chunks
        self._odd: set[int] = set()  # chunks with halves of characters
        self._room = most_bytes(offer)
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def put(self, idx: int, text: str) -> None:
        """Keep one chunk. Raises TooMuch, and OSError."""
        if _has_surrogate(text):
            self._odd.add(idx)
        raw = text.encode("utf-8", "surrogatepass")
        if self._end + len(raw) > self._room:
            raise TooMuch
        written = 0
        while written < len(raw):
            written += os.pwrite(self._file.fileno(), raw[written:], self._end + written)
        self._places[idx] = (self._end, len(raw))
        self._end += len(raw)

    def read(self) -> Iterator[bytes]:
        """The archive in UTF-8, one chunk at a time. A character that was cut in two is put together."""
        half = ""
        for idx, place in enumerate(self._places):
            raw = b"" if place is None else os.pread(self._file.fileno(), place[1], place[0])
            if not half and idx not in self._odd:
                yield raw
                continue
            text = half + raw.decode("utf-8", "surrogatepass")
            half = text[-1] if _ends_high(text) else ""
            yield utf8(text.removesuffix(half))
        if half:
            yield utf8(half)

    def sha256(self) -> str:
        digest = hashlib.sha256()
        for block in self.read():
            digest.update(block)
        return digest.hexdigest()
