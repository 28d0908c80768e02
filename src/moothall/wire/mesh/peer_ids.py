"""Peer ids: the name that libp2p has for an agent, made from the same key (mesh wire 1, 6.2)."""

from typing import Final

from moothall.wire.mesh.envelope import AGENT_ID_BYTES

# An identity hash of 36 bytes: a protobuf message that says Ed25519, and the key.
_PREFIX: Final = bytes.fromhex("002408011220")
_PEER_ID_BYTES: Final = len(_PREFIX) + AGENT_ID_BYTES

_DIGITS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"  # base58btc
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)}
_LENGTH: Final = 52  # characters, of every peer id: a zero byte, and 37 bytes that begin alike


def peer_id_bytes(agent_id: bytes) -> bytes:
    """Raises ValueError if this is not the id of an agent."""
    if len(agent_id) != AGENT_ID_BYTES:
        raise ValueError(f"an agent id has {AGENT_ID_BYTES} bytes, not {len(agent_id)}")
    return _PREFIX + agent_id


def peer_id(agent_id: bytes) -> str:
    """The peer id as text. Raises ValueError if this is not the id of an agent."""
    return base58(peer_id_bytes(agent_id))


def base58(data: bytes) -> str:
    """Each zero byte at the beginning is a digit of its own."""
    number = int.from_bytes(data, "big")
    digits: list[str] = []
    while number:
        number, value = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[value])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return _DIGITS[0] * zeros + "".join(reversed(digits))


def agent_id_of(peer: str | bytes) -> bytes:
    """The agent of a peer id, in bytes or as text. Raises ValueError if it is not made from an Ed25519 key."""
    data = _from_text(peer) if isinstance(peer, str) else peer
    if len(data) != _PEER_ID_BYTES or not data.startswith(_PREFIX):
        raise ValueError("this is not the peer id of an Ed25519 key")
    return data[len(_PREFIX) :]


def _from_text(peer: str) -> bytes:
    if len(peer) != _LENGTH or peer[0] != _DIGITS[0] or not _VALUES.keys() >= set(peer):
        return b""
    number = 0
    for digit in peer:
        number = number * len(_DIGITS) + _VALUES[digit]
    # 51 digits can be a little more than 37 bytes; then the prefix is another one.
    return number.to_bytes(_PEER_ID_BYTES, "big")


def message_id(peer: bytes, seqno: int) -> bytes:
    """The id of a pubsub message, from its author's peer id and its sequence number. Raises ValueError."""
    return f"{peer_id(agent_id_of(peer))}{seqno}".encode()
