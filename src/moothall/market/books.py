"""What a decision reads and what it leaves behind. The store implements this; the market never sees a database."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from moothall.hall.elsewhere import PostBooks
from moothall.hall.revocation import RevocationBooks
from moothall.market.records import Change, Offer, Proposal, Receipt, Registration, Standing
from moothall.market.skills import Filters

# Bytes of records for one list: other commits do not wait longer than for that.
MAX_READ: Final = 16 * 1024 * 1024
MAX_ANSWER: Final = 1024 * 1024  # bytes of a list: well within what a client may leave unread

Item = TypeVar("Item")


class Page(NamedTuple, Generic[Item]):
    items: list[Item]
    truncated: bool = False  # there are more, within the limit that was asked for, but they do not fit


def what_fits(
    items: Iterable[Item], size: Callable[[Item], int], most: int = MAX_ANSWER
) -> tuple[list[Item], bool]:
    """The first of these, as many as are at most so many bytes together, but at least one; and whether there are
    more. No more are taken than it takes to know that."""
    fitting: list[Item] = []
    total = 0
    for item in items:
        total += size(item)
        if total > most and fitting:
            return fitting, True
        fitting.append(item)
    return fitting, False


class OpenOffers(NamedTuple):
    """How many proposals of one agent are pending or accepted; counting ends where it is told to."""

    of_pair: int
    of_proposer: int


class Leader(NamedTuple):
    key: bytes
    rating: int
    transactions: int


class Books(RevocationBooks, PostBooks, Protocol):
    """One unit of work: everything between load and commit. It saves and never decides."""

    def proposal(
        self, proposal_id: str, *, hold: bool = True, besides: Collection[bytes] = ()
    ) -> Proposal | None:
        """Locks the row for this unit on engines that can, and the standings of its parties; `besides` are others
        whose standings the decision may change, to be locked with them. A unit that only looks does not `hold` it:
        others need not wait, and rows may be looked at in any order."""

    def proposals_of(
        self,
        key: bytes,
        *,
        limit: int = 100,
        open_only: bool = False,
        before: Proposal | None = None,
        most: int = MAX_READ,
    ) -> Page[Proposal]:
        """Where the key is a party, newest first. Open ones are pending or accepted. `before` is where an
        earlier list ended: those that come after it. As many as have at most `most` bytes together, and at least
        one: no other record is read. `terms` may be a `msgspec.Raw`: they are for passing on."""

    def open_offers(self, proposer: bytes, recipient: bytes, since: int, most: int) -> OpenOffers:
        """Of `proposer`, made after `since`: to `recipient`, and to all. It counts up to `most`."""

    def completions(self, one: bytes, other: bytes, limit: int) -> list[int]:
        """When these two completed deals with each other, in either direction; the latest so many, in order."""

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

    def leaders(self, limit: int) -> list[Leader]:
        """The leaderboard: rating, then transactions, both descending. Without keys that have only been rated on
        the mesh."""

    def history(self, key: bytes, limit: int = 100) -> list[tuple[int, int, str]]:
        """(at, rating, why) of the latest points, newest first."""

    def registration(self, key: bytes, *, hold: bool = False) -> Registration | None:
        """Locks the row for this unit, on engines that can, if it is to `hold` it."""

    def offers(self, filters: Filters, most: int) -> list[Offer]:
        """Skills that a search asks for. At most so many; then those whose agents were rated best when they
        registered."""

    def offering(self, capability: str, most: int) -> list[bytes]:
        """Who offers exactly this capability, in lower case."""

    def offered(self, offers: Sequence[Offer]) -> list[tuple[Offer, dict[str, Any]]]:
        """The skills themselves, in this order, as far as they are still there."""

    def find_key(self, agent_id: str) -> bytes | None:
        """The key behind an id of 8 or 16 digits, if it has a row."""

    def counts(self) -> dict[str, int]:
        """Proposals by status."""

    def parties(self) -> int:
        """Agents that made or got a proposal."""

    def receipts(
        self,
        key: bytes | None = None,
        *,
        limit: int = 100,
        before: str | None = None,
        most: int = MAX_READ,
    ) -> Page[Receipt]:
        """Newest first; of one party, or of all. `before` is the deal at which an earlier list ended. As many as
        have at most `most` bytes together, and at least one."""

    def disk_used(self, account: str, day: int) -> int:
        """Bytes that were added to the store on behalf of this account on this day."""

    def spend_disk(self, account: str, day: int) -> int:
        """Charge the account with what this unit has saved so far; returns how many bytes that is."""

    def save(self, *changes: Change) -> None:
        """All changes of one decision, exactly one AuditRow among them. A repeated Entry is a no-op."""
