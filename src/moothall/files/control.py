"""The messages of a transfer: JSON texts in the content of MSG and FILE_CHUNK (agentchat wire 15.1).

Ours, which the reference ignores: an offer with `resume` says that its sender takes a second `accept`, whose
`have` lists the chunks that have arrived; an accept with `resume` says that its sender asks in this way. `more`
counts files that found no room in the offer. `cancel` ends a transfer from the sender's side; the receiver's way
is an `ack` that is not ok. `reason` is for people.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from moothall.wire.agentchat.client import MAX_CONTENT
from moothall.wire.agentchat.jstext import utf16_length

MAX_SIZE: Final = 50 * 1024 * 1024  # bytes of all files (seed 001, file transfer)
# Ours need some 400; at the hall's limit of 10 a second no more than 1,200 arrive in time
MAX_CHUNKS: Final = 8192
MAX_FILES: Final = 10_000
MAX_LISTED: Final = 200  # files of an offer that are remembered
MAX_SHOWN_NAME: Final = 1024  # characters of their names
MAX_REASON: Final = 200  # characters
MAX_OFFER: Final = 256 * 1024  # characters; halls in the profile of the reference take long messages
_RANGES_ROOM: Final = 3000  # characters of `have`

TransferId = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z")]
Digest = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, le=2**53)]


class Control(Struct, tag_field="_ft", omit_defaults=True, frozen=True):
    tid: TransferId


class OfferedFile(Struct, frozen=True):
    """A file of an offer, by the word of its sender."""

    name: str
    size: Count


class Offer(Control, tag="offer", frozen=True):
    files: list[OfferedFile]
    total_size: Count = msgspec.field(name="totalSize")
    sha256: Digest
    chunks: Annotated[int, Meta(ge=1, le=MAX_CHUNKS)]
    sender_nick: str = msgspec.field(name="senderNick", default="")
    more: Count = 0
    resume: bool = False


class Accept(Control, tag="accept", frozen=True):
    resume: bool = False
    have: str | None = None


class Reject(Control, tag="reject", frozen=True):
    reason: str = ""


class Chunk(Control, tag="chunk", frozen=True):
    idx: Count
    total: Count
    data: str


class Complete(Control, tag="complete", frozen=True):
    sha256: Digest | None = None


class Ack(Control, tag="ack", frozen=True):
    ok: bool
    error: str = ""


class Cancel(Control, tag="cancel", frozen=True):
    reason: str = ""


class Unknown(Struct, frozen=True):
    """A message of a transfer that this program does not know, or that has wrong fields. It is no chat either."""


Known = Offer | Accept | Reject | Chunk | Complete | Ack | Cancel

_encode: Final = msgspec.json.Encoder().encode
_decoder: Final = msgspec.json.Decoder(Known)


def encode(message: Known) -> str:
    """The content of a MSG or a FILE_CHUNK. A name with @@ in it must not be taken for a marker."""
    try:
        text = _encode(message).decode()
    except UnicodeEncodeError:  # a reason that another agent gave may have half a character in it
        text = json.dumps(msgspec.to_builtins(message), separators=(",", ":"))
    return text if isinstance(message, Chunk) else text.replace("@@", r"@\u0040")


def encode_offer(offer: Offer, room: int = MAX_CONTENT) -> str:
    """The same, with as many file names as a message of `room` UTF-16 code units has room for."""
    text = encode(offer)
    fits, too_many = 0, len(offer.files)
    if utf16_length(text) <= room or not too_many:
        return text
    while too_many - fits > 1:
        middle = (fits + too_many) // 2
        if utf16_length(encode(_shortened(offer, middle))) <= room:
            fits = middle
        else:
            too_many = middle
    return encode(_shortened(offer, fits))


def _shortened(offer: Offer, listed: int) -> Offer:
    return msgspec.structs.replace(
        offer, files=offer.files[:listed], more=offer.more + len(offer.files) - listed
    )


def decode(content: str) -> Known | Unknown | None:
    """None: it is no message of a transfer, but chat."""
    if '"_ft"' not in content or not content.lstrip().startswith("{"):
        return None
    try:
        found: Known = _decoder.decode(content)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return _decode_slowly(content)
    return found


def _decode_slowly(content: str) -> Known | Unknown | None:
    """Half characters, where a JavaScript program has cut, and everything that is wrong."""
    try:
        message: Any = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not isinstance(message.get("_ft"), str):
        return None
    try:
        found: Known = msgspec.convert(message, Known)
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError):
        return Unknown()
    return found


def trimmed(offer: Offer) -> Offer:
    """What is kept of another agent's offer."""
    listed = [OfferedFile(each.name[:MAX_SHOWN_NAME], each.size) for each in offer.files[:MAX_LISTED]]
    return msgspec.structs.replace(
        offer, files=listed, more=min(MAX_FILES, offer.more + len(offer.files) - len(listed)), sender_nick=""
    )


# -- which chunks have arrived -----------------------------------------------------------------------


def ranges(indices: Iterable[int]) -> str:
    """`0-57,60` for ascending indices. What finds no room is left out, and will be sent again."""
    text = ""
    for first, last in _runs(indices):
        part = f"{first}" if first == last else f"{first}-{last}"
        if len(text) + len(part) > _RANGES_ROOM:
            break
        text = f"{text},{part}" if text else part
    return text


def _runs(indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = -1
    for index in indices:
        if index != last + 1 or first < 0:
            if first >= 0:
                yield first, last
            first = index
        last = index
    if first >= 0:
        yield first, last


def indices(text: str, total: int) -> set[int]:
    """The chunks that a `have` lists. Parts that make no sense list none."""
    found: set[int] = set()
    for part in text[:MAX_CONTENT].split(","):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal() and len(first) < 9 and len(last) < 9:
            found.update(range(int(first), min(int(last or first), total - 1) + 1))
    return found
