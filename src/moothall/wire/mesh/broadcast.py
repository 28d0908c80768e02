"""BROADCAST: content on a named topic, as a CBOR array (mesh wire 5)."""

from typing import Any, Final, Literal, Self, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

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


class Broadcast(Struct, frozen=True, kw_only=True):
    topic: str
    title: str
    tags: tuple[str, ...] = ()
    format: Format = "text"
    content: bytes | None = None
    content_type: str | None = None
    chunk_index: int | None = None
    total_chunks: int | None = None
    duration_ms: int | None = None
    price_per_epoch_micro: int | None = None
    epoch: int | None = None

    def encode(self) -> bytes:
        """Raises ValueError for what is over a limit."""
        if fault := self._fault():
            raise ValueError(fault)
        return cbor.encode(
            (
                self.topic,
                self.title,
                self.tags,
                self.format,
                self.content,
                self.content_type,
                self.chunk_index,
                self.total_chunks,
                self.duration_ms,
                self.price_per_epoch_micro,
                self.epoch,
            )
        )

    @classmethod
    def decode(cls, payload: bytes) -> Self:
        """Raises PayloadParseError."""
        try:
            reader = Reader(payload)
            reader.array_of(_ITEMS)
            topic, title = reader.text(), reader.text()
            tags = tuple([reader.text() for _ in range(reader.array(MAX_TAGS))])
            format_ = cast("Format", reader.text())
            content = None if reader.null() else reader.bytes_()
            message = cls(topic=topic, title=title, tags=tags, format=format_, content=content)
            others = None if reader.skips(_NO_OTHERS) else _read_others(reader)
            reader.end()
        except MalformedCbor as error:
            raise PayloadParseError(f"not a BROADCAST: {error}") from None
        if fault := message._fault():
            raise PayloadParseError(fault)
        return message if others is None else replace(message, **others)

    def _fault(self) -> str | None:
        if len(self.topic.encode()) > MAX_TOPIC or len(self.title.encode()) > MAX_TITLE:
            return f"a topic has at most {MAX_TOPIC} bytes, and a title {MAX_TITLE}"
        if len(self.tags) > MAX_TAGS:
            return f"a BROADCAST has at most {MAX_TAGS} tags"
        if self.format not in _FORMATS:
            return f"the format of a BROADCAST is one of {', '.join(_FORMATS)}"
        return None


def _read_others(reader: Reader) -> dict[str, Any]:
    return {
        "content_type": None if reader.null() else reader.text(),
        "chunk_index": None if reader.null() else reader.uint(UINT32_MAX),
        "total_chunks": None if reader.null() else reader.uint(UINT32_MAX),
        "duration_ms": None if reader.null() else reader.uint(UINT32_MAX),
        "price_per_epoch_micro": None if reader.null() else reader.uint(UINT64_MAX),
        "epoch": None if reader.null() else reader.uint(UINT64_MAX),
    }
