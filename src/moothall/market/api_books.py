"""What the HTTP API reads of the market besides its books: lists by time, a page at a time."""

from typing import NamedTuple, Protocol

from moothall.hall.api_pages import Page, Place
from moothall.market import books as market
from moothall.market.conversations import Conversation, State
from moothall.market.desk_books import DeskBooks
from moothall.market.records import Proposal, Status


class RatingStep(NamedTuple):
    number: int  # in the order of time
    at: int
    rating: int
    why: str


class ApiBooks(market.Books, Protocol):
    def list_deals(
        self, party: bytes | None, *, status: Status | None, after: Place | None, limit: int, most: int
    ) -> Page[Proposal]:
        """Deals of this party, or of all; with this status, or any. Records of at most `most` bytes together, and
        at least one. `terms` may be a `msgspec.Raw`."""

    def rating_steps(self, key: bytes, *, before: int | None, limit: int) -> list[RatingStep]:
        """Newest first. `before` is the number of the last one of an earlier list."""


class MeshApiBooks(DeskBooks, Protocol):
    def list_conversations(
        self, party: bytes | None, *, state: State | None, after: Place | None, limit: int, most: int
    ) -> Page[Conversation]:
        """Conversations of this party or notary, or all; in this state, or any. The id of a place is hex."""
