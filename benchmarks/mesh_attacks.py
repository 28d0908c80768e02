"""What hostile clients send to `/mesh`: a row for every type of envelope, and for every text frame.

Envelopes have a timestamp of at most 30 seconds ago, and each counts once. So an attacker has as many of them ready
as it can send while it attacks, signed when it starts. After them come replays.
"""

import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.agents import frame, text
from benchmarks.attack import LONG, Attack, Attacker, Frames
from moothall.hall.mesh.frames import MAX_PAGE
from moothall.wire.mesh.announcements import Advertise, Beacon, Bounty, Discover
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import (
    MAX_PUBLISHED,
    MICROSECONDS,
    NO_CONVERSATION,
    NO_RECIPIENT,
    encode,
    seal,
)
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.notaries import BidType, NotarizeAssign, NotarizeBid

ENVELOPES: Final = 200  # of one connection
HEAD: Final = 400  # bytes of an envelope around its payload, and of a BROADCAST around its content

Payload = Callable[[Attacker, int], bytes]


def binary(payload: bytes) -> bytes:
    return frame(payload, 0x82)


def envelope(attacker: Attacker, msg_type: MsgType, payload: bytes, number: int) -> bytes:
    """An envelope that no other has the nonce of. It goes to an agent that is away, and starts a conversation."""
    now = int(time.time() * MICROSECONDS)
    is_bilateral = msg_type in BILATERAL
    sealed = seal(
        msg_type,
        payload,
        sender=attacker.key.public.raw,
        sign=attacker.key.sign_bytes,
        nonce=now + number,
        now=now,
        recipient=number.to_bytes(32, "big") if is_bilateral else NO_RECIPIENT,
        conversation_id=(attacker.number << 32 | number).to_bytes(16, "big")
        if is_bilateral
        else NO_CONVERSATION,
    )
    return encode(sealed)


def beacon(attacker: Attacker, name: str = "attacker", number: int = 0) -> bytes:
    payload = Beacon(attacker.key.public.raw, name).encode()
    return binary(envelope(attacker, MsgType.BEACON, payload, number))


def _hello(attacker: Attacker) -> list[bytes]:
    return [beacon(attacker)]


def _envelopes(msg_type: MsgType, payload: Payload, count: int = ENVELOPES) -> Attack:
    def frames(attacker: Attacker) -> list[bytes]:
        return [
            binary(envelope(attacker, msg_type, payload(attacker, number), number))
            for number in range(1, count + 1)
        ]

    return Attack(msg_type.name, "mesh", frames, prepare=_hello)


def _always(payload: bytes) -> Payload:
    return lambda attacker, number: payload


def _advertise(attacker: Attacker, number: int) -> bytes:
    """Other capabilities each time: a row for each of them is removed, and another is added."""
    names = tuple(f"skill-{attacker.number}-{number}-{each}" for each in range(32))
    return Advertise(capabilities=names).encode()


def _broadcast(attacker: Attacker, number: int) -> bytes:
    return Broadcast(topic="general", title="", content=LONG.encode()).encode()


def _bid(attacker: Attacker, number: int) -> bytes:
    return NotarizeBid(BidType.OFFER, number.to_bytes(16, "big"), b"x" * 1000).encode()


def _beacon(attacker: Attacker, number: int) -> bytes:
    """A new name each time, which is news for all."""
    return Beacon(attacker.key.public.raw, f"name-{number}").encode()


_BOUNTY: Final = Bounty(
    required_capability="x",
    max_budget_usd=1.0,
    deadline_secs=1,
    task_summary="x" * 200,
    conversation_id="00" * 16,
).encode()

MESH: Final = (
    _envelopes(MsgType.ADVERTISE, _advertise),
    _envelopes(MsgType.DISCOVER, _always(Discover("x").encode())),
    _envelopes(MsgType.PROPOSE, _always(bytes(16) + b'{"message":"' + b"x" * 4000 + b'"}')),
    _envelopes(MsgType.COUNTER, _always(bytes(16) + b"{}")),
    _envelopes(MsgType.ACCEPT, _always(bytes(16) + b"{}")),
    _envelopes(MsgType.REJECT, _always(b"x" * 4000)),
    _envelopes(MsgType.DELIVER, _always(b"x" * 4000)),
    _envelopes(MsgType.NOTARIZE_BID, _bid),
    _envelopes(MsgType.NOTARIZE_ASSIGN, _always(NotarizeAssign(bytes(32)).encode())),
    _envelopes(MsgType.VERDICT, _always(bytes(65))),
    _envelopes(MsgType.FEEDBACK, _always(b"x" * 100)),
    _envelopes(MsgType.DISPUTE, _always(b"x" * 4000)),
    _envelopes(MsgType.BEACON, _beacon),
    _envelopes(MsgType.BROADCAST, _broadcast),
    _envelopes(MsgType.BOUNTY, _always(_BOUNTY)),
)


# -- text frames -----------------------------------------------------------------------------------------


def _texts(kind: str, **fields: Any) -> Attack:
    """Without a proof, most of them are refused after they are read."""
    payload = text(type=kind, **fields)
    return Attack(kind, "mesh", lambda attacker: [payload], prepare=_hello)


def _proofs(attacker: Attacker) -> list[bytes]:
    """A challenge each time, and a signature of something else."""
    return [
        text(type="prove", agent_id=attacker.key.public.raw.hex()),
        text(type="prove", signature="00" * 64),
    ]


def _topics(kind: str) -> Frames:
    return lambda attacker: [text(type=kind, topic=f"topic-{attacker.number}-{each}") for each in range(64)]


_ORDER: Final = {"conversation_id": "00" * 16, "nonce": 1, "timestamp": 1, "signature": "00" * 64}

TEXTS: Final = (
    Attack("prove", "mesh", _proofs),
    Attack("subscribe", "mesh", _topics("subscribe"), prepare=_hello),
    Attack("unsubscribe", "mesh", _topics("unsubscribe"), prepare=_hello),
    _texts("inbox", after=0, limit=MAX_PAGE),
    _texts("conversations", limit=MAX_PAGE),
    _texts("conversation", conversation_id="00" * 16),
    _texts("reputation", agent_id="00" * 32),
    _texts("balance"),
    _texts("cancel", **_ORDER),
    _texts("consent", **_ORDER),
)


# -- frames that are no envelopes ------------------------------------------------------------------------


def _replays(attacker: Attacker) -> list[bytes]:
    return [binary(envelope(attacker, MsgType.BOUNTY, _BOUNTY, 1))]


def _forged(attacker: Attacker) -> list[bytes]:
    """The signature does not hold, which is known after it was checked."""
    raw = envelope(attacker, MsgType.BOUNTY, _BOUNTY, 1)
    return [binary(raw[:-64] + bytes(64))]


def _long(attacker: Attacker) -> list[bytes]:
    content = b"x" * (MAX_PUBLISHED - HEAD)
    payload = Broadcast(topic="general", title="", format="data", content=content).encode()
    return [binary(envelope(attacker, MsgType.BROADCAST, payload, number)) for number in range(1, 20)]


BELOW_ENVELOPES: Final = (
    Attack("(replays)", "mesh", _replays),
    Attack("(bad signatures)", "mesh", _forged),
    Attack("(malformed)", "mesh", lambda attacker: [binary(b"\xff" * 100)]),
    Attack("(too long)", "mesh", lambda attacker: [binary(bytes(100_000))]),
    Attack("(broadcasts of 64 KB)", "mesh", _long, prepare=_hello),
    Attack("(unknown texts)", "mesh", lambda attacker: [text(type="nonsense", x="x" * 4000)]),
    Attack("(comes and goes)", "mesh", _hello, reconnects=True),
)
