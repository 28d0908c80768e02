"""Identify: what a peer tells of itself (`/ipfs/id/1.0.0`), and again when it changes (`/ipfs/id/push/1.0.0`).

The side that is asked sends one message and closes the stream; a push is the same in the other direction. Some
peers cut their message in several, which are read as one. The reference learns from it which agent is behind a
connection (mesh wire 1), so the key must be there. Ours knows that from the handshake: another key is refused.
"""

from typing import Final

import msgspec

from moothall.p2p import protobuf
from moothall.p2p.delimited import Delimited, delimit
from moothall.p2p.faults import MalformedAddress, MalformedMessage
from moothall.p2p.keys import decode_key, encode_key
from moothall.p2p.multiaddr import Multiaddr

IDENTIFY: Final = "/ipfs/id/1.0.0"
IDENTIFY_PUSH: Final = "/ipfs/id/push/1.0.0"
PROTOCOL_VERSION: Final = "/0x01/identify/1.0.0"  # mesh wire 6.1; not checked by any peer

MAX_MESSAGE: Final = 8192  # bytes, as go-libp2p and js-libp2p read them
MAX_WRITTEN: Final = 4096  # bytes, because rust-libp2p reads no more
MAX_MESSAGES: Final = 10
MAX_PROTOCOLS: Final = 200
MAX_ADDRESSES: Final = 50
MAX_VERSION: Final = 128  # characters of a version that are kept
_MAX_FIELDS: Final = 512

_KEY, _ADDRESS, _PROTOCOL, _OBSERVED, _PROTOCOL_VERSION, _AGENT_VERSION = range(1, 7)


class Identification(msgspec.Struct, frozen=True):
    """What is empty was not told: in a push it has not changed."""

    agent_id: bytes = b""
    addresses: tuple[Multiaddr, ...] = ()  # where the peer listens; those that this program could dial
    protocols: tuple[str, ...] = ()
    observed: Multiaddr | None = None  # the address of the side that asked, as the peer sees it
    protocol_version: str = PROTOCOL_VERSION
    agent_version: str = ""

    def encode(self) -> bytes:
        """The message with its length. Raises ValueError if it is too long for some peers to read."""
        parts = [protobuf.bytes_field(_KEY, encode_key(self.agent_id))] if self.agent_id else []
        parts += [protobuf.bytes_field(_ADDRESS, address.encode()) for address in self.addresses]
        parts += [protobuf.text_field(_PROTOCOL, protocol) for protocol in self.protocols]
        if self.observed is not None:
            parts.append(protobuf.bytes_field(_OBSERVED, self.observed.encode()))
        parts.append(protobuf.text_field(_PROTOCOL_VERSION, self.protocol_version))
        parts.append(protobuf.text_field(_AGENT_VERSION, self.agent_version))
        message = b"".join(parts)
        if len(message) > MAX_WRITTEN:
            raise ValueError(f"a message of identify has at most {MAX_WRITTEN:,} bytes")
        return delimit(message)


class Reading:
    """Reads what one stream says. `agent_id` is the key that the peer has proven."""

    def __init__(self, agent_id: bytes) -> None:
        self._agent_id = agent_id
        self._messages = Delimited(MAX_MESSAGE)
        self._whole = b""
        self._count = 0

    def receive(self, data: bytes) -> None:
        """Raises MalformedMessage."""
        for message in self._messages.receive(data):
            self._count += 1
            self._whole += message  # protobuf messages are merged by joining them
            if self._count > MAX_MESSAGES or len(self._whole) > MAX_MESSAGE:
                raise MalformedMessage("identify said more than a peer has to tell")

    def end(self) -> Identification:
        """What the peer told, when its side of the stream has ended. Raises MalformedMessage."""
        if not self._count or not self._messages.is_between_messages:
            raise MalformedMessage("identify ended before its message did")
        return _decode(self._whole, self._agent_id)


def _decode(message: bytes, agent_id: bytes) -> Identification:
    told = b""
    addresses: list[Multiaddr] = []
    protocols: list[str] = []
    observed: Multiaddr | None = None
    versions = {_PROTOCOL_VERSION: "", _AGENT_VERSION: ""}
    for field, value in protobuf.fields(message, most=_MAX_FIELDS):
        if field == _KEY:
            told = decode_key(protobuf.as_bytes(value))
        elif field == _ADDRESS:
            address = _address(value)
            if address is not None and len(addresses) < MAX_ADDRESSES:
                addresses.append(address)
        elif field == _PROTOCOL and len(protocols) < MAX_PROTOCOLS:
            protocols.append(protobuf.as_text(value))
        elif field == _OBSERVED:
            observed = _address(value)
        elif field in versions:
            versions[field] = protobuf.as_text(value)[:MAX_VERSION]
    if told not in (b"", agent_id):
        raise MalformedMessage("identify told another key than the one that the peer has proven")
    return Identification(
        told,
        tuple(addresses),
        tuple(protocols),
        observed,
        versions[_PROTOCOL_VERSION],
        versions[_AGENT_VERSION],
    )


def _address(value: int | bytes) -> Multiaddr | None:
    """None for an address of a transport that is not known here."""
    try:
        return Multiaddr.decode(protobuf.as_bytes(value))
    except MalformedAddress:
        return None
