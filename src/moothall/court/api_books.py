"""What the HTTP API reads of the court besides its books. The store implements it."""

from typing import Protocol

from moothall.court import books as court
from moothall.court.phases import Phase
from moothall.court.records import Dispute
from moothall.hall.api_pages import Page, Place
from moothall.market.api_books import ApiBooks


class CourtApiBooks(court.Books, ApiBooks, Protocol):
    def list_cases(
        self, part_of: bytes | None, *, phase: Phase | None, after: Place | None, limit: int, most: int
    ) -> Page[Dispute]:
        """Cases of this party or arbiter, or all; in this phase, or any. Without evidence, pool and settlement.
        Records of at most `most` bytes together, and at least one."""
