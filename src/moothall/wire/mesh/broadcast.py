"""BROADCAST: content on a named topic, as a CBOR array (mesh wire 5)."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from moothall.wire.mesh import cbor
from moothall.wire.mesh.broadcast_items import Format, find_fault, read_items


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
        if fault := find_fault(self.topic, self.title, self.tags, self.format):
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
        (topic, title, tags, format_, content), others = read_items(payload)
        message = cls(topic=topic, title=title, tags=tags, format=format_, content=content)
        return message if others is None else replace(message, **others)
