"""Packets between the nodes of one hall: a byte with the version, then the node and its messages in MessagePack.

A node with a later version of moothall sends messages and fields that this one does not know. Unknown messages are
skipped; fields are only ever added, at the end and with a default. What cannot be read that way has another version
byte, and packets of a version outside `OLDEST` to `VERSION` are refused as a whole.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

import msgspec

from moothall.errors import MoothallError

VERSION: Final = 1
OLDEST: Final = 1

MAX_PACKET: Final = 512 * 1024  # bytes; NATS takes 1 MB, unless its operator has said otherwise
_FRAMING: Final = 16  # bytes around a message, at most
_LEAST: Final = -(2**63)  # and most: whole numbers that MessagePack has
_MOST: Final = 2**64 - 1

EVERY_NODE: Final = "all"  # the subject that all nodes listen to


def node_subject(node: str) -> str:
    """The subject that one node listens to."""
    return f"node.{node}"


def channel_subject(channel: str) -> str:
    """The subject that nodes with members of the channel listen to."""
    return f"channel.{channel.encode().hex()}"


class BusMessage(msgspec.Struct, array_like=True, frozen=True):
    """Every message names its `KIND`. The kind never changes its meaning."""

    KIND: ClassVar[str]


class Origin(NamedTuple):
    """The node that sent a packet, and which life of it: a node that was given up for dead comes back with a higher
    number."""

    node: str
    life: int


class BadPacket(MoothallError):
    """Not a packet of a version that this node can read."""


class _Packet(msgspec.Struct, array_like=True, frozen=True):
    node: str
    life: int
    messages: list[tuple[str, msgspec.Raw]]


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Packet).decode


def pack(message: Any) -> bytes:
    """MessagePack of a message, or of what is in one.

    JSON of agents can have what MessagePack cannot. A lone surrogate becomes U+FFFD, and a whole number beyond 64
    bits a float. So no text of an agent keeps the messages of others back.
    """
    try:
        return _encode(message)
    except (UnicodeEncodeError, OverflowError):
        return _encode(_packable(msgspec.to_builtins(message, builtin_types=(bytes,))))


def _packable(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        case int():
            return value if _LEAST <= value <= _MOST else float(value)
        case list() | tuple():
            return [_packable(each) for each in value]
        case dict():
            return {_packable(key): _packable(each) for key, each in value.items()}
        case _:
            return value


def packets(origin: Origin, messages: Iterable[BusMessage]) -> Iterator[bytes]:
    """Packets of at most `MAX_PACKET` bytes, or with a single message that is larger."""
    contents: list[tuple[str, msgspec.Raw]] = []
    size = 0
    for message in messages:
        content = pack(message)
        if contents and size + len(content) > MAX_PACKET:
            yield _packet(origin, contents)
            contents, size = [], 0
        contents.append((message.KIND, msgspec.Raw(content)))
        size += len(content) + len(message.KIND) + _FRAMING
    if contents:
        yield _packet(origin, contents)


def _packet(origin: Origin, contents: list[tuple[str, msgspec.Raw]]) -> bytes:
    return bytes((VERSION,)) + _encode(_Packet(origin.node, origin.life, contents))


class Kinds:
    """The messages that a node understands."""

    def __init__(self) -> None:
        self._decoders: dict[str, msgspec.msgpack.Decoder[Any]] = {}

    def add(self, kind: type[BusMessage]) -> None:
        self._decoders[kind.KIND] = msgspec.msgpack.Decoder(kind)

    def unpack(self, payload: bytes) -> tuple[Origin, Iterator[BusMessage | BadPacket]]:
        """The messages are read one by one, as they are taken. In place of one that cannot be read is the error.

        Raises BadPacket if the payload is no packet at all.
        """
        if not payload or not OLDEST <= payload[0] <= VERSION:
            raise BadPacket("The packet has a version that this node cannot read")
        try:
            packet = _decode(memoryview(payload)[1:])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPacket(f"Not a packet: {error}") from None
        return Origin(packet.node, packet.life), self._read(packet.messages)

    def _read(self, messages: list[tuple[str, msgspec.Raw]]) -> Iterator[BusMessage | BadPacket]:
        for kind, content in messages:
            decoder = self._decoders.get(kind)
            if decoder is None:
                continue
            try:
                yield decoder.decode(content)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                yield BadPacket(f"Not a message {kind}: {error}")
