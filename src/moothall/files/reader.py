"""Reading a SLURP v4 archive, in blocks of any size (agentchat wire 15.3).

The archive is another agent's text, so nothing here raises: a file that cannot be read ends with the reason.
Memory is bounded by a block and the longest marker, however long lines and files are.
"""

import binascii
from collections.abc import Generator, Iterable, Iterator
from typing import Final, NamedTuple

from moothall.files.slurp import closer, find_binary_opener, find_text_opener

MAX_MARKER: Final = 64 * 1024  # bytes; a longer line opens no file


class Opened(NamedTuple):
    """A file begins. `path` is what the archive says, unchecked."""

    path: str


class Closed(NamedTuple):
    """The file has ended. `fault` says why its content cannot be used."""

    fault: str | None


Event = Opened | bytes | Closed


def read(archive: Iterable[bytes]) -> Iterator[Event]:
    """Yield Opened, the content in pieces, and Closed; and again for the next file."""
    blocks = iter(archive)
    rest: bytes | None = b""
    while rest is not None:
        opener, rest = _next_opener(rest, blocks)
        if opener is None or rest is None:
            return
        path, content = opener
        yield Opened(path)
        rest = yield from _until_closed(closer(path).encode(), content, rest, blocks)
        yield Closed("the archive ends in the middle of it" if rest is None else content.fault)


def _next_opener(
    rest: bytes, blocks: Iterator[bytes]
) -> "tuple[tuple[str, _Text | _Base64] | None, bytes | None]":
    """Find the next line that opens a file, and what follows it. `rest` begins with a line."""
    is_too_long = False
    while True:
        start = 0
        while (end := rest.find(b"\n", start)) >= 0:
            is_too_long = is_too_long or end - start > MAX_MARKER
            opener = None if is_too_long else _opener(rest[start:end])
            is_too_long, start = False, end + 1
            if opener is not None:
                return opener, rest[start:]
        rest = rest[start:]
        if len(rest) > MAX_MARKER:
            is_too_long, rest = True, b""
        block = next(blocks, None)
        if block is None:
            return None, None
        rest += block


def _opener(line: bytes) -> "tuple[str, _Text | _Base64] | None":
    if not line.startswith(b"=== "):
        return None
    text = line.decode(errors="replace")
    if (binary := find_binary_opener(text)) is not None:
        return binary[1], _Base64()
    if (plain := find_text_opener(text)) is not None:
        return plain[1], _Text()
    return None


def _until_closed(
    marker: bytes, content: "_Text | _Base64", rest: bytes, blocks: Iterator[bytes]
) -> Generator[bytes, None, bytes | None]:
    """Yield the content, and return what follows its end marker. None: the archive has ended without one."""
    closing = b"\n" + marker + b"\n"
    rest = b"\n" + rest  # so that a marker right at the beginning is found like any other
    is_first = True
    while (end := rest.find(closing)) < 0:
        block = next(blocks, None)
        if block is None:
            break
        # The marker may be half here.
        if (ready := len(rest) - len(closing)) > 0:
            yield from content.take(rest[is_first:ready])
            rest, is_first = rest[ready:], False
        rest += block
    if end < 0:
        if not rest.endswith(closing[:-1]):
            return None
        end = len(rest) - len(closing) + 1  # without the last LF it is a marker as well
    if end > 0:
        yield from content.take(rest[is_first:end])
    yield from content.finish()
    return rest[end + len(closing) :]


class _Text:
    """Lines joined with LF, and a final LF if there is none."""

    fault: str | None = None

    def __init__(self) -> None:
        self._last = b""

    def take(self, text: bytes) -> Iterator[bytes]:
        if text:
            self._last = text
            yield text

    def finish(self) -> Iterator[bytes]:
        if not self._last.endswith(b"\n"):
            yield b"\n"


class _Base64:
    """Lines joined with nothing, and decoded. Padding may be missing."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self._rest = b""
        self._ended = False  # there was padding

    def take(self, text: bytes) -> Iterator[bytes]:
        self._rest += text.translate(None, b"\r\n")
        whole = len(self._rest) - len(self._rest) % 4
        yield from self._decoded(self._rest[:whole])
        self._rest = self._rest[whole:]

    def finish(self) -> Iterator[bytes]:
        yield from self._decoded(self._rest + b"=" * (-len(self._rest) % 4))

    def _decoded(self, text: bytes) -> Iterator[bytes]:
        if not text or self.fault is not None:
            return
        try:
            decoded = binascii.a2b_base64(text, strict_mode=True)
        except binascii.Error:
            decoded = b""
        if self._ended or not decoded:  # something after the padding, or no base64 at all
            self.fault = "its content is not base64"
            return
        yield decoded
        self._ended = text.endswith(b"=")
