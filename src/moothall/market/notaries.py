"""Which agent becomes the notary of a conversation (mesh wire 9).

Agents offer themselves on the notary topic: for one conversation, or with the id of zeros for any. The choice
follows from the conversation's id and the pool, so that it can be checked.

The requester pays the notary, and a verdict may give its credits away. So there is a notary only if the requester
asked for one on the topic (NOTARIZE_BID 0x00). Without this rule a provider could have a key of its own made
notary, and approve its work. The provider is told which notary there is before it delivers.
"""

from collections.abc import Iterable
from typing import Final

from moothall.market.conversations import Conversation, State

MAX_POOL: Final = 100  # offers of one conversation (mesh wire 9)
STANDING_OFFER: Final = 24 * 60 * 60 * 1000  # ms for which an offer to any conversation counts
OPEN_TO_BIDS: Final[tuple[State, ...]] = ("NEGOTIATING", "COMMITTED")
_SEED_BYTES: Final = 8


def is_wanted(conversation: Conversation) -> bool:
    """True if the conversation needs a notary, and the requester asked for one."""
    return conversation.notary is None and conversation.requester in conversation.asked


def chosen(conversation: Conversation, own: Iterable[bytes], standing: Iterable[bytes]) -> bytes | None:
    """The notary: `own` offers are for this conversation and come first, `standing` ones for any."""
    pool = [agent for agent in dict.fromkeys((*own, *standing)) if agent not in conversation.parties]
    pool = sorted(pool[:MAX_POOL])
    if not pool:
        return None
    return pool[int.from_bytes(conversation.id[:_SEED_BYTES], "little") % len(pool)]
