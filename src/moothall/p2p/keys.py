"""Public keys as libp2p writes them: a protobuf message with the kind of key, and the key (mesh wire 1).

The mesh knows Ed25519 only. The key of an agent is the key of its peer.
"""

from typing import Final

from moothall.identity.signatures import KEY_BYTES
from moothall.p2p import protobuf
from moothall.p2p.faults import MalformedMessage

_KIND, _DATA = 1, 2
_ED25519: Final = 1
_MAX_FIELDS: Final = 8


def encode_key(agent_id: bytes) -> bytes:
    return protobuf.number_field(_KIND, _ED25519) + protobuf.bytes_field(_DATA, agent_id)


def decode_key(data: bytes) -> bytes:
    """The Ed25519 key, which is the id of an agent. Raises MalformedMessage for others."""
    kind, key = None, b""
    for field, value in protobuf.fields(data, most=_MAX_FIELDS):
        if field == _KIND:
            kind = protobuf.as_number(value)
        elif field == _DATA:
            key = protobuf.as_bytes(value)
    if kind != _ED25519 or len(key) != KEY_BYTES:
        raise MalformedMessage("the key of the peer is not an Ed25519 key")
    return key
