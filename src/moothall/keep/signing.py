"""Packets as a client makes them, and their signatures, made and checked with `cryptography` (keep wire 3)."""

from typing import Final, TypedDict
from uuid import uuid4

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from moothall.wire.keep.codec import encode, signing_bytes
from moothall.wire.keep.packet import MAX_PACKET, Packet

DEFAULT_TTL: Final = 60  # seconds
KEY_BYTES: Final = 32
SIGNATURE_BYTES: Final = 64


class Fields(TypedDict, total=False):
    """Of a packet, besides its body and who says it to whom."""

    typ: int
    fee: int
    ttl: int
    msg_id: str | None
    scar: bytes


def compose(
    key: Ed25519PrivateKey,
    body: str,
    src: str,
    dst: str,
    *,
    typ: int = 0,
    fee: int = 0,
    ttl: int = DEFAULT_TTL,
    msg_id: str | None = None,
    scar: bytes = b"",
) -> Packet:
    """A signed packet that fits into a frame, else ValueError."""
    packet = Packet(
        typ=typ, id=msg_id or str(uuid4()), src=src, dst=dst, body=body, fee=fee, ttl=ttl, scar=scar
    )
    sign(packet, key)
    size = len(encode(packet))
    if size > MAX_PACKET:
        raise ValueError(f"the packet has {size} bytes, {size - MAX_PACKET} more than a server takes")
    return packet


def sign(packet: Packet, key: Ed25519PrivateKey) -> Packet:
    """The same packet, with its `sig` and `pk`."""
    packet.sig = key.sign(signing_bytes(packet))
    packet.pk = key.public_key().public_bytes_raw()
    return packet


def is_signed(packet: Packet) -> bool:
    """True when the packet claims a signature. The server's own packets have none (keep wire 7)."""
    return bool(packet.sig or packet.pk)


def verify(packet: Packet) -> bool:
    """True if `packet.pk` signed it. Unknown fields are never covered, so they are never to be trusted."""
    if len(packet.pk) != KEY_BYTES or len(packet.sig) != SIGNATURE_BYTES:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(packet.pk).verify(packet.sig, signing_bytes(packet))
    except (InvalidSignature, ValueError):
        return False
    return True
