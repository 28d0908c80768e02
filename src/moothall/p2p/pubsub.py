"""Messages of pubsub and what peers say about them: the RPC of gossipsub 1.1, as protobuf (mesh wire 6.2).

Signing is strict: a message names its author, its number and its topic, and the author's key has signed all of it.
The key itself is in the author's peer id. A message is passed on in its one canonical form, whatever form it
came in: what the signature does not cover does not travel.
"""

from functools import lru_cache
from typing import Final

import msgspec

from moothall.identity.signatures import SIGNATURE_BYTES, sign_expanded, verify
from moothall.p2p import protobuf, varint
from moothall.p2p.delimited import delimit
from moothall.p2p.faults import MalformedMessage
from moothall.p2p.keys import decode_key
from moothall.wire.mesh.peer_ids import agent_id_of, peer_id, peer_id_bytes

PROTOCOLS: Final = ("/meshsub/1.1.0", "/meshsub/1.0.0")

MAX_MESSAGE: Final = 65_536  # bytes of a message, and of an RPC that the reference reads (mesh wire 6.2)
# Bytes of an RPC that we read. js-libp2p tells of 5,000 messages in one piece, with 70 bytes each.
MAX_RPC: Final = 512 * 1024
MAX_TOPIC: Final = 256  # bytes of a topic's name
MAX_ID: Final = 128  # bytes of a message id; ours have up to 72

# Fields of one RPC that are read. Each costs about a microsecond; messages have a price of their own. An RPC of any
# form is read in less than a tenth of a second.
_MAX_FIELDS: Final = 5000  # of the RPC itself, and as many of all its control messages
_MAX_IDS: Final = 20_000  # of all control messages of an RPC
_MAX_SMALL: Final = 32

_SIGNED: Final = b"libp2p-pubsub:"
_SUBSCRIPTIONS, _PUBLISH, _CONTROL = 1, 2, 3
_FROM, _DATA, _SEQNO, _TOPIC, _SIGNATURE, _KEY = range(1, 7)
_IHAVE, _IWANT, _GRAFT, _PRUNE = range(1, 5)
_SEQNO_BYTES: Final = 8

# What a canonical message begins with, up to the author's key, and where its data follow; what comes before its
# number, and before its signature, which is the last field.
_HEAD: Final = bytes((0x0A, 38)) + peer_id_bytes(bytes(32))[:6]
_DATA_AT: Final = len(_HEAD) + 32
_SEQNO_HEAD: Final = bytes((_SEQNO << 3 | 2, _SEQNO_BYTES))
_PUBLISH_TAG: Final = bytes((_PUBLISH << 3 | 2,))
_CONTROL_TAG: Final = bytes((_CONTROL << 3 | 2,))
_OFFER_TAGS: Final = tuple(bytes((field << 3 | 2,)) for field in (_IHAVE, _IWANT))
_TOPIC_TAG: Final = bytes((_TOPIC << 3 | 2,))
_TAIL_HEAD: Final = bytes((_SIGNATURE << 3 | 2, SIGNATURE_BYTES))
_TAIL_BYTES: Final = len(_TAIL_HEAD) + SIGNATURE_BYTES
_LEAST_MESSAGE: Final = _DATA_AT + len(_SEQNO_HEAD) + _SEQNO_BYTES + _TAIL_BYTES  # with no topic yet


class Message(msgspec.Struct, frozen=True):
    """A message in a topic. `author` is the key of the agent whose node published it first.

    `id` and `encoded` follow from the other fields.
    """

    author: bytes
    seqno: int
    topic: str
    data: bytes
    signature: bytes
    id: bytes
    encoded: bytes  # canonical, without its place in an RPC

    @property
    def is_authentic(self) -> bool:
        """True if the author signed it. Takes sixty times as long as all else here."""
        return verify(self.author, _SIGNED + self.encoded[:-_TAIL_BYTES], self.signature)


class Prune(msgspec.Struct, frozen=True):
    topic: str
    backoff: int | None = None  # seconds


class Rpc(msgspec.Struct):
    """What one peer tells another in one piece."""

    subscriptions: list[tuple[bool, str]] = []  # True: subscribes; False: does not any more
    messages: list[Message] = []
    malformed: int = 0  # messages without a signature, or without what it must cover
    ihave: list[tuple[str, list[bytes]]] = []
    iwant: list[bytes] = []
    graft: list[str] = []
    prune: list[Prune] = []

    def encode(self) -> bytes:
        """The RPC with its length."""
        parts = [
            protobuf.bytes_field(
                _SUBSCRIPTIONS, protobuf.number_field(1, int(subscribes)) + protobuf.text_field(2, topic)
            )
            for subscribes, topic in self.subscriptions
        ]
        parts += [protobuf.bytes_field(_PUBLISH, message.encoded) for message in self.messages]
        control = [
            protobuf.bytes_field(_IHAVE, protobuf.text_field(1, topic) + _ids(2, ids))
            for topic, ids in self.ihave
        ]
        if self.iwant:
            control.append(protobuf.bytes_field(_IWANT, _ids(1, self.iwant)))
        control += [protobuf.bytes_field(_GRAFT, protobuf.text_field(1, topic)) for topic in self.graft]
        for prune in self.prune:
            backoff = b"" if prune.backoff is None else protobuf.number_field(3, prune.backoff)
            control.append(protobuf.bytes_field(_PRUNE, protobuf.text_field(1, prune.topic) + backoff))
        if control:
            parts.append(protobuf.bytes_field(_CONTROL, b"".join(control)))
        return delimit(b"".join(parts))


def publication(message: Message) -> bytes:
    """The RPC that carries one message: the same bytes for all peers."""
    return delimit(protobuf.bytes_field(_PUBLISH, message.encoded))


def is_publication(frame: bytes) -> bool:
    """True for a frame of `publication`: if it is dropped, IHAVE brings its message back."""
    head = varint.read(frame)
    return head is not None and frame[head[1] : head[1] + 1] == _PUBLISH_TAG


def is_offer(frame: bytes) -> bool:
    """True for a frame that tells of messages, or asks for them: if it is dropped, others do the same."""
    head = varint.read(frame)
    if head is None or frame[head[1] : head[1] + 1] != _CONTROL_TAG:
        return False
    size = varint.read(frame, head[1] + 1)
    return size is not None and frame[size[1] : size[1] + 1] in _OFFER_TAGS


def signed_message(secret: bytes, seqno: int, topic: str, data: bytes) -> Message:
    """A message of our own. `secret` comes from `identity.signatures.expand`.

    Raises ValueError if it is too long.
    """
    author = secret[-32:]
    content = _content(peer_id_bytes(author), data, seqno, topic)
    signature = sign_expanded(secret, _SIGNED + content)
    encoded = content + protobuf.bytes_field(_SIGNATURE, signature)
    if len(encoded) > MAX_MESSAGE or len(topic.encode()) > MAX_TOPIC:
        raise ValueError(f"a message in a topic has at most {MAX_MESSAGE:,} bytes, not {len(encoded):,}")
    return Message(author, seqno, topic, data, signature, _id(author, seqno), encoded)


def decode_rpc(data: bytes) -> Rpc:
    """Reads an RPC without its length. Raises MalformedMessage. Signatures are not checked here."""
    rpc = Rpc()
    control = _Control(rpc)
    for field, value in protobuf.fields(data, most=_MAX_FIELDS):
        if field == _PUBLISH:
            message = _message(protobuf.as_bytes(value))
            if message is None:
                rpc.malformed += 1
            else:
                rpc.messages.append(message)
        elif field == _SUBSCRIPTIONS:
            rpc.subscriptions.append(_subscription(protobuf.as_bytes(value)))
        elif field == _CONTROL:
            control.read(protobuf.as_bytes(value))
    return rpc


def _message(data: bytes) -> Message | None:
    """None for a message that is malformed."""
    if len(data) < _LEAST_MESSAGE:
        return None
    try:
        return _canonical(data) or _in_any_form(data)
    except MalformedMessage:
        return None


def _canonical(data: bytes) -> Message | None:
    """A message in the form that all known nodes send, which needs no other. None for other forms."""
    tail = len(data) - _TAIL_BYTES
    if not (
        _DATA_AT < tail <= MAX_MESSAGE - _TAIL_BYTES
        and data.startswith(_HEAD)
        and data[_DATA_AT] == _DATA << 3 | 2
        and data[tail : tail + 2] == _TAIL_HEAD
    ):
        return None
    size = varint.read(data, _DATA_AT + 1)
    if size is None:
        return None
    start, end = size[1], sum(size)
    topic = end + 2 + _SEQNO_BYTES
    if data[end : end + 2] != _SEQNO_HEAD or data[topic : topic + 1] != _TOPIC_TAG:
        return None
    name = data[topic + 2 : tail]
    if not 0 < len(name) < 0x80 or data[topic + 1] != len(name):
        return None
    author = data[len(_HEAD) : _DATA_AT]
    seqno = int.from_bytes(data[end + 2 : topic], "big")
    return Message(
        author, seqno, protobuf.as_text(name), data[start:end], data[tail + 2 :], _id(author, seqno), data
    )


def _in_any_form(data: bytes) -> Message:
    peer = payload = seqno = signature = key = b""
    topic = ""
    for field, value in protobuf.fields(data, most=_MAX_SMALL):
        if field == _DATA:
            payload = protobuf.as_bytes(value)
        elif field == _FROM:
            peer = protobuf.as_bytes(value)
        elif field == _SEQNO:
            seqno = protobuf.as_bytes(value)
        elif field == _TOPIC:
            topic = _topic(value)
        elif field == _SIGNATURE:
            signature = protobuf.as_bytes(value)
        elif field == _KEY:
            key = protobuf.as_bytes(value)
    try:
        author = agent_id_of(peer)
    except ValueError:
        raise MalformedMessage("a message has no author with an Ed25519 key") from None
    if len(seqno) != _SEQNO_BYTES or len(signature) != SIGNATURE_BYTES or not topic:
        raise MalformedMessage("a message has no number, no topic or no signature")
    if key and decode_key(key) != author:
        raise MalformedMessage("a message has the key of another author")
    number = int.from_bytes(seqno, "big")
    encoded = _content(peer, payload, number, topic) + protobuf.bytes_field(_SIGNATURE, signature)
    if len(encoded) > MAX_MESSAGE:
        raise MalformedMessage("a message is too long")
    return Message(author, number, topic, payload, signature, _id(author, number), encoded)


def _content(peer: bytes, data: bytes, seqno: int, topic: str) -> bytes:
    """What the signature covers, after its prefix."""
    return b"".join(
        (
            protobuf.bytes_field(_FROM, peer),
            protobuf.bytes_field(_DATA, data),
            protobuf.bytes_field(_SEQNO, seqno.to_bytes(_SEQNO_BYTES, "big")),
            protobuf.text_field(_TOPIC, topic),
        )
    )


def _id(author: bytes, seqno: int) -> bytes:
    """The id of a message (mesh wire 6.2), as `wire.mesh.peer_ids.message_id` has it."""
    return b"%b%d" % (_peer_text(author), seqno)


@lru_cache(maxsize=4096)
def _peer_text(agent_id: bytes) -> bytes:
    return peer_id(agent_id).encode()


def _subscription(data: bytes) -> tuple[bool, str]:
    subscribes, topic = False, ""
    for field, value in protobuf.fields(data, most=_MAX_SMALL):
        if field == 1:
            subscribes = bool(protobuf.as_number(value))
        elif field == 2:
            topic = _topic(value)
    return subscribes, topic


class _Control:
    """Reads the control messages of an RPC. There may be several; their fields and ids are counted together."""

    def __init__(self, rpc: Rpc) -> None:
        self._rpc = rpc
        self._fields = _MAX_FIELDS
        self._ids = _MAX_IDS

    def read(self, data: bytes) -> None:
        """Raises MalformedMessage."""
        rpc = self._rpc
        for field, value in protobuf.fields(data, most=self._fields):
            self._fields -= 1
            if field == _IHAVE:
                topic, ids, _ = _control(value, self._ids, topic=1, ids=2)
                rpc.ihave.append((topic, ids))
                self._ids -= len(ids)
            elif field == _IWANT:
                _, ids, _ = _control(value, self._ids, ids=1)
                rpc.iwant += ids
                self._ids -= len(ids)
            elif field == _GRAFT:
                rpc.graft.append(_control(value, 0, topic=1)[0])
            elif field == _PRUNE:
                topic, _, backoff = _control(value, 0, topic=1, number=3)
                rpc.prune.append(Prune(topic, backoff))


def _control(
    value: int | bytes, room: int, *, topic: int = 0, ids: int = 0, number: int = 0
) -> tuple[str, list[bytes], int | None]:
    """The fields of a control message, by their numbers, with at most `room` ids."""
    name, found, backoff = "", list[bytes](), None
    for field, each in protobuf.fields(protobuf.as_bytes(value), most=room + _MAX_SMALL):
        if field == topic:
            name = _topic(each)
        elif field == ids:
            found.append(_message_id(each))
        elif field == number:
            backoff = protobuf.as_number(each)
    return name, found, backoff


def _message_id(value: int | bytes) -> bytes:
    """Raises MalformedMessage. Other nodes may have longer ids for the same messages than ours, but not by much."""
    message_id = protobuf.as_bytes(value)
    if len(message_id) > MAX_ID:
        raise MalformedMessage(f"the id of a message has at most {MAX_ID} bytes")
    return message_id


def _topic(value: int | bytes) -> str:
    if len(protobuf.as_bytes(value)) > MAX_TOPIC:
        raise MalformedMessage(f"a topic has at most {MAX_TOPIC} bytes")
    return protobuf.as_text(value)


def _ids(field: int, ids: list[bytes]) -> bytes:
    return b"".join([protobuf.bytes_field(field, each) for each in ids])
