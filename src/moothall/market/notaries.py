"""Which agent becomes the notary of a conversation (mesh wire 9).

Agents offer themselves on the notary topic: for one conversation, or with the id of zeros for any. The choice
follows from the conversation's id and the pool, so that it can be checked.

A party asks for a notary on the topic (NOTARIZE_BID 0x00). The requester pays the notary, and a verdict may give
its credits away. So it must agree: it asked itself, or it sends the ACCEPT or NOTARIZE_ASSIGN after the provider
asked. Without this rule a provider could ask, accept, have a key of its own made notary, and approve its work. The
provider is told which notary there is before it delivers.
"""

from collections.abc import Iterable
from typing import Final

from moothall.market.conversations import Conversation, State

MAX_POOL: Final = 100  # offers of one conversation (mesh wire 9)
STANDING_OFFER: Final = 24 * 60 * 60 * 1000  # ms for which an offer to any conversation counts
OPEN_TO_BIDS: Final[tuple[State, ...]] = ("NEGOTIATING", "COMMITTED")
_SEED_BYTES: Final = 8


def is_wanted(conversation: Conversation, by: bytes) -> bool:
    """True if a party asked for a notary, and the requester agrees. `by` is the party whose message assigns it.

    The hall of the conversation assigns it, and no other.
    """
    if conversation.notary is not None or not conversation.asked or conversation.elsewhere:
        return False
    return conversation.requester in (by, *conversation.asked)


def chosen(conversation: Conversation, own: Iterable[bytes], standing: Iterable[bytes]) -> bytes | None:
    """The notary: `own` offers are for this conversation and come first, `standing` ones for any."""
    pool = [agent for agent in dict.fromkeys((*own, *standing)) if agent not in conversation.parties]
    pool = sorted(pool[:MAX_POOL])
    if not pool:
        return None
    return pool[int.from_bytes(conversation.id[:_SEED_BYTES], "little") % len(pool)]
