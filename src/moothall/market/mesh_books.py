"""What decisions about conversations of the mesh read and leave behind, besides the market's books. The store
implements it."""

from typing import Protocol

from moothall.market import books as market
from moothall.market.books import MAX_READ, OpenOffers, Page
from moothall.market.conversations import Conversation
from moothall.market.credit_books import CreditBooks
from moothall.market.records import Entry, Standing


class ConversationBooks(market.Books, Protocol):
    def conversation(self, conversation_id: bytes, *, hold: bool = True) -> Conversation | None:
        """Locks the row for this unit on engines that can, unless one only looks: see `proposal`."""

    def conversations_of(
        self,
        key: bytes,
        *,
        limit: int = 100,
        open_only: bool = False,
        before: Conversation | None = None,
        most: int = MAX_READ,
    ) -> Page[Conversation]:
        """Where the key is a party or the notary, newest first. `before` is where an earlier list ended: those that
        come after it. As many as have at most `most` bytes together, and at least one."""

    def open_conversations(self, proposer: bytes, recipient: bytes, since: int, most: int) -> OpenOffers:
        """Open ones that `proposer` began after `since`: with `recipient`, and with all. It counts up to `most`."""

    def due_conversations(self, now: int, limit: int = 100) -> list[bytes]:
        """Ids of those whose deadline has come, the earliest first."""

    def next_conversation_deadline(self) -> int | None: ...

    def conversations_by_state(self) -> dict[str, int]: ...

    def add_bid(self, conversation_id: bytes, agent: bytes, at: int) -> None:
        """An offer to be the notary. A repeated one counts as of now."""

    def bids(self, conversation_id: bytes, since: int, most: int) -> list[bytes]:
        """Agents that offered after `since` to be the notary, the earliest first; at most so many."""

    def remove_bids(self, conversation_id: bytes, before: int | None = None) -> None:
        """All of them, or those that were made before this moment."""

    def save_conversation(self, conversation: Conversation) -> None: ...

    def save_standing(self, standing: Standing) -> None:
        """A change that follows from another one, and needs no audit row of its own."""

    def save_entry(self, entry: Entry) -> None:
        """A repeated one is a no-op."""


class MeshBooks(ConversationBooks, CreditBooks, Protocol):
    """What a step of a conversation needs."""
