"""The items of a BROADCAST: how they are read, and what is over a limit (mesh wire 5)."""

from typing import Any, Final, Literal, cast, get_args

from moothall.wire.mesh import cbor
from moothall.wire.mesh.cbor import UINT32_MAX, UINT64_MAX, MalformedCbor, Reader
from moothall.wire.mesh.faults import PayloadParseError

MAX_TOPIC: Final = 128  # bytes
MAX_TITLE: Final = 256  # bytes
MAX_TAGS: Final = 32

_ITEMS: Final = 11
_NO_OTHERS: Final = cbor.encode(None) * 6  # most have nothing after the content

Format = Literal["audio", "text", "data"]
_FORMATS: Final = get_args(Format)

First = tuple[str, str, tuple[str, ...], Format, bytes | None]  # topic, title, tags, format, content


def read_items(payload: bytes) -> tuple[First, dict[str, Any] | None]:
    """The first items, and the others by name, or None if there are none. Raises PayloadParseError."""
    try:
        reader = Reader(payload)
        reader.array_of(_ITEMS)
        topic, title = reader.text(), reader.text()
        tags = tuple([reader.text() for _ in range(reader.array(MAX_TAGS))])
        format_ = cast("Format", reader.text())
        content = None if reader.null() else reader.bytes_()
        others = None if reader.skips(_NO_OTHERS) else _read_others(reader)
        reader.end()
    except MalformedCbor as error:
        raise PayloadParseError(f"not a BROADCAST: {error}") from None
    fault = find_fault(topic, title, tags, format_)
    if fault is not None:
        raise PayloadParseError(fault)
    return (topic, title, tags, format_, content), others


def _read_others(reader: Reader) -> dict[str, Any]:
    return {
        "content_type": None if reader.null() else reader.text(),
        "chunk_index": None if reader.null() else reader.uint(UINT32_MAX),
        "total_chunks": None if reader.null() else reader.uint(UINT32_MAX),
        "duration_ms": None if reader.null() else reader.uint(UINT32_MAX),
        "price_per_epoch_micro": None if reader.null() else reader.uint(UINT64_MAX),
        "epoch": None if reader.null() else reader.uint(UINT64_MAX),
    }


def find_fault(topic: str, title: str, tags: tuple[str, ...], format_: str) -> str | None:
    """What is wrong with them, or None."""
    if len(topic.encode()) > MAX_TOPIC or len(title.encode()) > MAX_TITLE:
        return f"a topic has at most {MAX_TOPIC} bytes, and a title {MAX_TITLE}"
    if len(tags) > MAX_TAGS:
        return f"a BROADCAST has at most {MAX_TAGS} tags"
    if format_ not in _FORMATS:
        return f"the format of a BROADCAST is one of {', '.join(_FORMATS)}"
    return None
