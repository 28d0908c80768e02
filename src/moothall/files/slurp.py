"""SLURP v4, the text format in which files travel: its lines, and how an archive is written (agentchat wire 15.3).

    # --- SLURP v4 ---          the header: comments, which readers ignore
    #
    === notes.txt ===           a text file
    hello
    === END notes.txt ===

    === photo.png [binary] ===  any other file, as base64
    iVBORw0KGgo=
    === END photo.png ===

The format has no escapes. A text file without a final newline gains one, one that ends with an empty line loses
it, and a line that looks like its own end marker cuts it. `survey` finds such files, and they are written as
[binary], so that what arrives is identical.
"""

import codecs
import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from moothall.files.chunks import escaped_size
from moothall.wire.agentchat.jstext import utf16_length

MAGIC: Final = "# --- SLURP v4 ---"
KIB: Final = 1024
LINE: Final = 76  # characters of base64
BLOCK: Final = 1024 * 57  # bytes read at a time: a whole number of base64 lines
LOOKED_AT: Final = 8192  # bytes in which a NUL makes a file binary
# Escaped twice as JSON, some texts grow to several times their size. Those travel as base64, which grows by two
# fifths.
MAX_GROWTH: Final = 2
GROWTH_ALLOWED: Final = 4096  # bytes more, so that short texts stay readable

find_binary_opener: Final = re.compile(r"=== (.+) \[binary\] ===\Z").match
find_text_opener: Final = re.compile(r"=== (?!END )(.+) ===\Z").match


def closer(path: str) -> str:
    return f"=== END {path} ==="


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What one look at the content of a file tells."""

    size: int
    sha256: str
    is_binary: bool  # it has to be written as [binary] to arrive as it is


@dataclass(frozen=True, slots=True)
class Entry:
    """A file to be packed. `open` is called once, and its content must be what was surveyed."""

    name: str
    size: int
    sha256: str
    is_binary: bool
    open: Callable[[], BinaryIO]


def survey(name: str, source: BinaryIO) -> Surveyed:
    """Read a file once, in blocks."""
    digest = hashlib.sha256()
    marker = f"\n{closer(name)}\n".encode()
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_text = not (name.startswith("END ") or name.endswith(" [binary]"))
    size = grown = 0
    tail = b"\n"  # a marker at the very beginning is one too
    while block := source.read(BLOCK):
        digest.update(block)
        if is_text:
            grown += escaped_size(block)
            is_text = b"\0" not in block[: max(0, LOOKED_AT - size)]
            is_text = is_text and marker not in tail + block and _decodes(decoder, block)
            tail = (tail + block)[-len(marker) :]
        size += len(block)
    is_text = is_text and size > 0 and _keeps_its_end(tail) and _decodes(decoder, b"", final=True)
    is_text = is_text and grown <= MAX_GROWTH * size + GROWTH_ALLOWED
    return Surveyed(size, digest.hexdigest(), not is_text)


def _keeps_its_end(text: bytes) -> bool:
    return text.endswith(b"\n") and not text.endswith(b"\n\n")


def _decodes(decoder: codecs.IncrementalDecoder, block: bytes, *, final: bool = False) -> bool:
    try:
        decoder.decode(block, final)
    except UnicodeDecodeError:
        return False
    return True


def human_size(size: int) -> str:
    """As the reference's sender writes sizes."""
    if size < KIB:
        return f"{size} B"
    unit, name = (KIB, "KB") if size < KIB * KIB else (KIB * KIB, "MB")
    tenths = (20 * size + unit) // (2 * unit)  # halves go up, as in JavaScript
    return f"{tenths // 10}.{tenths % 10} {name}"


def header(entries: Sequence[Entry], created: str) -> str:
    """The comment lines of an archive. `created` is an ISO 8601 time."""
    width = max((4, *(utf16_length(entry.name) for entry in entries)))
    lines = [
        MAGIC,
        "#",
        "# name: transfer",
        f"# files: {len(entries)}",
        f"# total: {human_size(sum(entry.size for entry in entries))}",
        f"# created: {created}",
        "#",
        "# MANIFEST:",
        *(_manifest_line(entry, width) for entry in entries),
        "#",
    ]
    return "".join(f"{line}\n" for line in lines)


def _manifest_line(entry: Entry, width: int) -> str:
    mark = "  [binary]" if entry.is_binary else ""
    size = human_size(entry.size)
    name = entry.name + " " * (width - utf16_length(entry.name))
    return f"#   {name}  {size:>10}  sha256:{entry.sha256[:16]}{mark}"


def write(entries: Sequence[Entry], created: str) -> Iterator[bytes]:
    """The archive, in UTF-8, in pieces of a bounded size."""
    yield header(entries, created).encode()
    for entry in entries:
        mark = " [binary]" if entry.is_binary else ""
        yield f"\n=== {entry.name}{mark} ===\n".encode()
        with entry.open() as source:
            yield from _base64_lines(source) if entry.is_binary else _text(source)
        yield f"{closer(entry.name)}\n".encode()


def _text(source: BinaryIO) -> Iterable[bytes]:
    last = b""
    while block := source.read(BLOCK):
        last = block
        yield block
    if not last.endswith(b"\n"):
        yield b"\n"


def _base64_lines(source: BinaryIO) -> Iterable[bytes]:
    rest = b""
    while block := source.read(BLOCK):
        rest += block  # a read may return less than it was asked for
        whole = len(rest) - len(rest) % (LINE // 4 * 3)
        yield _wrapped(rest[:whole])
        rest = rest[whole:]
    yield _wrapped(rest)


def _wrapped(raw: bytes) -> bytes:
    encoded = b64encode(raw)
    return b"".join(encoded[start : start + LINE] + b"\n" for start in range(0, len(encoded), LINE))
