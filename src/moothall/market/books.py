"""What a decision reads and what it leaves behind. The store implements this; the market never sees a database."""

from collections.abc import Collection
from typing import Protocol

from moothall.market.records import Change, Proposal, Receipt, Registration, Standing


class Books(Protocol):
    """One unit of work: everything between load and commit. It saves and never decides."""

    def proposal(
        self, proposal_id: str, *, hold: bool = True, besides: Collection[bytes] = ()
    ) -> Proposal | None:
        """Locks the row for this unit on engines that can, and the standings of its parties; `besides` are others
        whose standings the decision may change, to be locked with them. Whoever only looks does not `hold` it:
        others need not wait, and rows may be looked at in any order."""

    def proposals_of(
        self, key: bytes, *, limit: int = 100, open_only: bool = False, before: Proposal | None = None
    ) -> list[Proposal]:
        """Where the key is a party, newest first. Open ones are pending or accepted. `before` is where an
        earlier list ended: those that come after it."""

    def due(self, now: int, limit: int = 100) -> list[Proposal]:
        """Pending or accepted, not frozen, `expires <= now`; the earliest first."""

    def next_deadline(self) -> int | None:
        """The earliest `expires` of a pending or accepted proposal that is not frozen."""

    def standing(self, key: bytes) -> Standing:
        """A default Standing when the key is unknown. Locks the row like `proposal`; callers ask in the order
        of the keys, so that two units never wait for each other.

        Binds an imported row, known by 16 digits only, to the first key that has them, and then posts its
        opening entry (ledger.opening): the ledger has not seen that rating yet.
        """

    def standings_of(self, keys: Collection[bytes]) -> dict[bytes, Standing]:
        """The same for many that one does not mean to change, in the order of the keys."""

    def missed(self) -> set[str]:
        """The 16 digits of imported rows that no key has claimed yet, and perhaps of some that one just did."""

    def standings(self, limit: int) -> list[Standing]:
        """The leaderboard: rating, then transactions, both descending."""

    def history(self, key: bytes, limit: int = 100) -> list[tuple[int, int, str]]:
        """(at, rating, why) of the latest points, newest first."""

    def registration(self, key: bytes) -> Registration | None: ...

    def registrations(self) -> list[Registration]: ...

    def find_key(self, agent_id: str) -> bytes | None:
        """The key behind an id of 8 or 16 digits, if it has a row."""

    def counts(self) -> dict[str, int]:
        """Proposals by status."""

    def receipts(
        self, key: bytes | None = None, *, limit: int = 100, before: str | None = None
    ) -> list[Receipt]:
        """Newest first; of one party, or of all. `before` is the deal at which an earlier list ended."""

    def save(self, *changes: Change) -> None:
        """All changes of one decision, exactly one AuditRow among them. A repeated Entry is a no-op."""
