"""What envelopes and text frames of the mesh cost (see `moothall.hall.budgets`).

A frame and its bytes are charged before anything is decoded. The rest of the price is charged when the signature
has held, before the envelope is taken: the connections that get it, and the time of the store.
"""

from collections.abc import Mapping
from typing import Final

from moothall.hall.budgets import Price
from moothall.hall.costs import LOOKUP, REGISTRATION, SEARCH, STEP
from moothall.hall.mesh.frames import (
    AskBalance,
    AskReputation,
    Cancel,
    Consent,
    ListConversations,
    Question,
    ShowConversation,
)
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.msg_types import MsgType

# An address has 400 frames for 10 ms of the hall's time. An envelope takes about 100 us, its signature alone 60.
ENVELOPE_FRAMES: Final = 4
# A proof and an order have a signature too; other questions are charged for what they ask the store.
SIGNED_TEXT_FRAMES: Final = 3
# Bytes that are copied to a connection in the time in which it is told a short message. Envelopes may be long, and
# a topic may have many listeners: all of them are written to in one turn of the loop.
COPIED_FOR_ONE: Final = 4096
LOGGED: Final = 50  # microseconds of the store: one row of a batch
INBOX_ENTRY: Final = 20  # microseconds of the store, to read or put one envelope

# Microseconds of the store for each type, and for each KiB of the envelope. A step of a conversation reads and
# writes rows, the log and perhaps an entry of the ledger.
_STORE: Final[Mapping[MsgType, tuple[int, int]]] = {
    MsgType.ADVERTISE: (REGISTRATION.store, REGISTRATION.store_per_kb),
    MsgType.DISCOVER: (SEARCH.store + LOGGED, STEP.store_per_kb),
    MsgType.BEACON: (0, 0),
    MsgType.BROADCAST: (LOGGED, STEP.store_per_kb),
    MsgType.BOUNTY: (LOGGED, STEP.store_per_kb),
}
_STEP: Final = (2 * STEP.store, STEP.store_per_kb)

_QUESTIONS: Final[Mapping[type[Question], int]] = {
    ListConversations: LOOKUP.store,
    ShowConversation: 2 * LOOKUP.store,
    AskReputation: LOOKUP.store,
    AskBalance: LOOKUP.store,
    Cancel: 2 * STEP.store,
    Consent: STEP.store,
}


def frame_price(size: int, *, is_text: bool) -> Price:
    """What a frame costs whatever is in it. `size` is without what was charged when its parts arrived."""
    return Price(frames=1 if is_text else ENVELOPE_FRAMES, bytes=size)


def envelope_price(envelope: Envelope, size: int, audience: int) -> Price:
    """`audience` is how many connections get it. A long one costs more: it is copied to each of them."""
    store, per_kb = _STORE.get(envelope.msg_type, _STEP)
    return Price(
        told=audience + audience * size // COPIED_FOR_ONE,
        store=store + per_kb * size // 1024,
    )


def question_price(question: Question) -> Price:
    entries = question.limit if isinstance(question, ListConversations) else 0
    frames = SIGNED_TEXT_FRAMES if isinstance(question, Cancel | Consent) else 0
    return Price(frames=frames, told=entries, store=_QUESTIONS[type(question)])


def inbox_price(limit: int) -> Price:
    return Price(told=limit, store=INBOX_ENTRY * limit)
