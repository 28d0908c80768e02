"""The rules that a received envelope passes, in the order of the reference (mesh wire 3.1 to 3.4).

`envelope.decode` has the first ones: size, canonical CBOR, a known type. Then come version and signature, which
need nothing but the envelope: a second processor can check them. Then nonce, time, hash and length; and last
our own, of which the reference has none: a BEACON names the key that signed it, and an envelope is of a type
that belongs where it arrived. The first rule that is broken is the fault. A nonce counts as used only if all
are kept.
"""

from collections.abc import Callable
from typing import Final

from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import AGENT_ID_BYTES, NO_RECIPIENT, VERSION, Envelope, signing_bytes
from moothall.wire.mesh.faults import EnvelopeRefused, Fault, PayloadParseError
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, TOPICS, MsgType
from moothall.wire.mesh.nonces import TOLERANCE, ReplayGuard, within_tolerance

_BEACON: Final = MsgType.BEACON
_BROADCAST: Final = MsgType.BROADCAST

Verify = Callable[[bytes, bytes, bytes], bool]  # key, message, signature


def prove(envelope: Envelope, verify: Verify) -> None:
    """Rules 1 and 2: version and signature. The key is the sender, always (mesh wire 3.3)."""
    if envelope.version != VERSION:
        raise EnvelopeRefused(Fault.UNSUPPORTED_VERSION, f"version {envelope.version} is not {VERSION}")
    if not verify(envelope.sender, signing_bytes(envelope), envelope.signature):
        raise EnvelopeRefused(Fault.INVALID_SIGNATURE, "the sender did not sign this envelope")


def admit(
    envelope: Envelope,
    *,
    topic: str | None,
    guard: ReplayGuard,
    now: int,
    is_read: bool = False,
    relay: bytes | None = None,
) -> None:
    """The other rules, for an envelope that is proven. Its nonce is used from then on.

    `topic` is where it arrived; None is a bilateral stream. `now` is Unix microseconds. `is_read`: the topic of a
    BROADCAST was read from its payload, and need not be read again. `relay` is the peer that brought it.
    """
    if guard.is_replay(envelope, now):
        raise EnvelopeRefused(Fault.NONCE_REPLAY, f"nonce {envelope.nonce} was used, or is too old to know")
    if not within_tolerance(envelope.timestamp, now):
        raise EnvelopeRefused(
            Fault.TIMESTAMP_OUT_OF_TOLERANCE,
            f"the timestamp is more than {TOLERANCE} seconds from the time here; set the clock of the sender",
        )
    check(envelope, topic=topic, is_read=is_read)
    guard.add(envelope, now, relay)


def check(envelope: Envelope, *, topic: str | None, is_read: bool = False) -> None:
    """The rules that need neither a clock nor a memory: hash, length, BEACON, route. Raises EnvelopeRefused."""
    if keccak256(envelope.payload) != envelope.payload_hash:
        raise EnvelopeRefused(
            Fault.PAYLOAD_HASH_MISMATCH, "payload_hash is not the Keccak-256 of the payload"
        )
    if len(envelope.payload) != envelope.payload_len:
        raise EnvelopeRefused(Fault.PAYLOAD_LENGTH_MISMATCH, "payload_len is not the length of the payload")
    if envelope.msg_type is _BEACON:
        _check_beacon(envelope)
    _check_route(envelope, topic, is_read=is_read)


def validate(
    envelope: Envelope,
    *,
    topic: str | None,
    verify: Verify,
    guard: ReplayGuard,
    now: int,
    relay: bytes | None = None,
) -> None:
    """All rules but those of `envelope.decode`. Raises EnvelopeRefused."""
    prove(envelope, verify)
    admit(envelope, topic=topic, guard=guard, now=now, relay=relay)


def _check_beacon(envelope: Envelope) -> None:
    """The payload has the agent id and, again, its key. The reference believes the second (mesh wire 3.3)."""
    if envelope.payload[: 2 * AGENT_ID_BYTES] != envelope.sender * 2:
        raise EnvelopeRefused(Fault.BEACON_KEY_MISMATCH, "the BEACON names a key that is not its sender")


def _check_route(envelope: Envelope, topic: str | None, *, is_read: bool) -> None:
    """mesh wire 3.4. Whether this node serves the recipient of a bilateral envelope is for the node to say."""
    is_broadcast = envelope.msg_type is _BROADCAST
    if topic is None:
        belongs = envelope.msg_type in BILATERAL
    else:
        belongs = (is_read and is_broadcast) or _belongs_on(envelope, topic)
    if not belongs:
        place = "a bilateral stream" if topic is None else "this topic"
        raise EnvelopeRefused(Fault.WRONG_ROUTE, f"{envelope.msg_type.name} does not belong on {place}")
    if (envelope.recipient == NO_RECIPIENT) != (topic is not None):
        raise EnvelopeRefused(
            Fault.WRONG_ROUTE, "a message to a topic has no recipient, and one to an agent has one"
        )


def _belongs_on(envelope: Envelope, topic: str) -> bool:
    """A BROADCAST belongs on the topic that it names. One that cannot be read is passed on where it is."""
    if envelope.msg_type is not MsgType.BROADCAST:
        return TOPICS.get(envelope.msg_type) == topic
    try:
        return topic == topic_of(envelope)
    except PayloadParseError:
        return topic.startswith(NAMED_TOPIC)


def topic_of(envelope: Envelope) -> str | None:
    """The topic of an envelope, None if it is bilateral. Raises PayloadParseError for a BROADCAST that cannot
    be read.

    This is `topic` for `admit` where a transport does not say it.
    """
    if envelope.msg_type is MsgType.BROADCAST:
        return NAMED_TOPIC + Broadcast.decode(envelope.payload).topic
    return TOPICS.get(envelope.msg_type)
