"""What the court reads and what it leaves behind: the market's books, and the cases."""

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol

from moothall.court.panel import Experience
from moothall.court.records import CourtChange, Dispute, Part
from moothall.market import books as market
from moothall.market.in_court import CourtBooks
from moothall.market.records import Standing


class Page(NamedTuple):
    """As many cases as can be read at once."""

    cases: list[Dispute]
    truncated: bool = False


class Filing(NamedTuple):
    """Which party has filed a case."""

    dispute_id: str
    disputant: bytes


class Books(market.Books, CourtBooks, Protocol):
    def case(self, dispute_id: str, *, hold: bool = True) -> Dispute | None:
        """Locks the row for this unit on engines that can, unless one only looks: see `proposal`."""

    def cases_about(self, proposal_id: str) -> list[Dispute]:
        """The cases of a deal, newest first, locked like `case`: one of each party at most, one open at most."""

    def filings(self, proposal_id: str) -> list[Filing]:
        """The same, without locks and without their records."""

    def part(self, dispute_id: str, key: bytes) -> Part | None:
        """What the key is in the case, without locks and without the record. None: there is no such case."""

    def cases_of(self, key: bytes, *, limit: int = 100, open_only: bool = False) -> Page:
        """Where the key is a party or has a slot, newest first; without the evidence, the
        pool and the settlement."""

    def due_cases(self, now: int, limit: int = 100) -> list[str]:
        """Ids of open cases whose deadline has come, the earliest first."""

    def next_case_deadline(self) -> int | None:
        """The earliest deadline of an open case."""

    def seats(self) -> list[tuple[bytes, str]]:
        """(key, dispute id) of every arbiter with a live slot in an open case."""

    def seats_of(self, keys: Collection[bytes]) -> list[tuple[bytes, str]]:
        """The same, of these keys only."""

    def elsewhere(self) -> list[tuple[bytes, str]]:
        """(key, presence) of the agents that are connected to other halls on the same store."""

    def panels(self, keys: Collection[bytes]) -> Mapping[bytes, int]:
        """How many live slots each of these has; those without any may be missing."""

    def qualified(self, keys: Collection[bytes], rating: int, transactions: int) -> list[Standing]:
        """The standings of these keys with at least this rating and number of transactions, newcomers included."""

    def experience(self, keys: Collection[bytes]) -> Mapping[bytes, Experience]:
        """Of each of these. Counterparties are counted among the latest 200 completed deals that it proposed and
        the latest 200 that it accepted."""

    def signed_file(self, dispute_id: str) -> bytes | None:
        """Of a case that was closed, as the hall signed it; None if it was closed before halls did."""

    def cases_by_phase(self) -> dict[str, int]: ...

    def save(self, *changes: CourtChange) -> None:
        """As the market's; a Dispute, a SignedFile and a Conversation may be among the changes."""
