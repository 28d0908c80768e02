"""Which agent becomes the notary of a conversation (mesh wire 9).

Agents offer themselves on the notary topic: for one conversation, or with the id of zeros for any. The choice
follows from the conversation's id and the pool, so that it can be checked.

A notary decides over the credits of both parties, and the requester pays it. So both must want one. A party asks
for a notary on the topic (NOTARIZE_BID 0x00). The party that sends ACCEPT or NOTARIZE_ASSIGN need not ask: it sees
the topic, and may wait. Without this rule a provider could have a key of its own made notary, and approve its work.
"""

from collections.abc import Iterable
from typing import Final

from moothall.market.conversations import Conversation, State

MAX_POOL: Final = 100  # offers of one conversation (mesh wire 9)
STANDING_OFFER: Final = 24 * 60 * 60 * 1000  # ms for which an offer to any conversation counts
OPEN_TO_BIDS: Final[tuple[State, ...]] = ("NEGOTIATING", "COMMITTED")
_SEED_BYTES: Final = 8


def is_wanted(conversation: Conversation, by: bytes) -> bool:
    """True if both parties want a notary. `by` is the party whose message assigns it."""
    return conversation.notary is None and all(
        party == by or party in conversation.asked for party in conversation.parties
    )


def chosen(conversation: Conversation, own: Iterable[bytes], standing: Iterable[bytes]) -> bytes | None:
    """The notary: `own` offers are for this conversation and come first, `standing` ones for any."""
    pool = [agent for agent in dict.fromkeys((*own, *standing)) if agent not in conversation.parties]
    pool = sorted(pool[:MAX_POOL])
    if not pool:
        return None
    return pool[int.from_bytes(conversation.id[:_SEED_BYTES], "little") % len(pool)]
