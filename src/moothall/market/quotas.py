"""How much of the store a key and an address may fill in one day, and how many open proposals a key may have.

What agents sign is kept for good: deals, skills, cases and their evidence. A decision is charged to the key that
caused it, with the bytes of the records that it writes. The count of a key is kept in the store, beside the change:
it survives a restart, and holds for all halls on one database. Keys are free, so an address has a share too, which
this hall counts in memory. Both begin anew every day, at midnight UTC. Nothing that is kept is ever given back, and
an agent that deals for years must be able to go on.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from moothall.errors import RateLimited
from moothall.hall.access import holder_of
from moothall.hall.outside import Store
from moothall.hall.services import Services
from moothall.hall.session import Session
from moothall.market.books import Books, OpenOffers
from moothall.market.rules import Quotas
from moothall.market.signed import AnyCommand, Signed

DAY: Final = 24 * 60 * 60 * 1000  # ms
COUNTED_FOR: Final = 7 * DAY  # an open proposal

Kept = TypeVar("Kept", bound=Books)
Result = TypeVar("Result")


def require_room(books: Books, proposer: bytes, recipient: bytes, now: int, quotas: Quotas) -> None:
    """Refuse one more open proposal than the proposer may have. The wire has no way to withdraw one, and some are
    never answered: after a week they do not count."""
    most = max(quotas.open_proposals, quotas.open_per_pair)
    if not most:
        return
    found = books.open_offers(proposer, recipient, now - COUNTED_FOR, most)
    require_within(found, quotas, "proposals")


def require_within(found: OpenOffers, quotas: Quotas, what: str) -> None:
    """Refuse one more of these if there are as many as a key may have."""
    if quotas.open_per_pair and found.of_pair >= quotas.open_per_pair:
        raise RateLimited(
            f"You have {found.of_pair} open {what} to this agent, which is the limit. Wait until some are"
            " answered, completed or expired"
        )
    if quotas.open_proposals and found.of_proposer >= quotas.open_proposals:
        raise RateLimited(
            f"You have {found.of_proposer} open {what}, which is the limit. Wait until some are answered,"
            " completed or expired"
        )


class Bill:
    """Who pays for something that is kept."""

    __slots__ = ("account", "address", "day", "factor")

    def __init__(self, account: str, address: str, day: int, factor: int) -> None:
        self.account = account  # the key, in hex
        self.address = address
        self.day = day
        self.factor = factor  # times the quotas


class Usage(Protocol):
    """A part of a unit of work."""

    def disk_used(self, account: str, day: int) -> int: ...


class Disk:
    """What was added to the store today, and who added it."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._day = 0
        self._addresses: dict[str, int] = {}  # bytes of today

    def transact(
        self,
        hall: Services,
        session: Session,
        store: Store[Kept],
        prove: Callable[[], Signed[AnyCommand]],
        work: Callable[[Kept, Signed[AnyCommand]], Result],
        then: Callable[[Result], None],
    ) -> None:
        """As `Durable.transact`, for a signed command. `prove` checks the signature, before any row is read.
        What the unit writes is charged to the agent of the session and to its address."""
        key = hall.agent_of(session).key
        if key is None:
            hall.durable.transact(session, store, lambda books: work(books, prove()), then)
            return
        bill = self.open_bill(key.raw, session.ip, hall.timestamp(), is_loopback=not session.counted)

        def metered(books: Kept) -> tuple[Result, int]:
            order = prove()
            return self.metered(books, bill, lambda kept: work(kept, order))

        def kept(answer: tuple[Result, int]) -> None:
            result, size = answer
            self.pay(bill, size)
            then(result)

        hall.durable.transact(session, store, metered, kept)

    def open_bill(self, key: bytes, ip: str, now: int, *, is_loopback: bool) -> Bill:
        """For something that this key, at this address, wants to have kept. Raises RateLimited if the address has
        used its share of the day."""
        quotas, day = self._quotas, now // DAY
        bill = Bill(key.hex(), holder_of(ip), day, quotas.loopback_factor if is_loopback else 1)
        if quotas.disk_per_address and self._used(bill.address, day) >= quotas.disk_per_address * bill.factor:
            raise RateLimited(_too_much("Your address", "disk_quota_per_address"))
        return bill

    def metered(self, books: Kept, bill: Bill, work: Callable[[Kept], Result]) -> tuple[Result, int]:
        """In a unit of work: do it, and charge the key. Return what `work` returns, and the bytes, for `pay`.
        Raises RateLimited if the key has used its share of the day."""
        quotas = self._quotas
        if not (quotas.disk_per_key or quotas.disk_per_address):
            return work(books), 0
        if self.limits_keys and self.is_over(bill, books.disk_used(bill.account, bill.day)):
            raise RateLimited(_too_much("Your key", "disk_quota_per_key"))
        result = work(books)
        return result, books.spend_disk(bill.account, bill.day)

    @property
    def limits_keys(self) -> bool:
        return bool(self._quotas.disk_per_key)

    def is_over(self, bill: Bill, used: int) -> bool:
        """True if the key has used its share of the day. `used` is what it has added so far."""
        most = self._quotas.disk_per_key * bill.factor
        return bool(most) and used >= most

    def pay(self, bill: Bill, size: int) -> None:
        """It is committed: charge the address."""
        if size:
            self.charge_address(bill.address, bill.day, size)

    def charge_address(self, address: str, day: int, size: int) -> None:
        self._addresses[address] = self._used(address, day) + size

    def _used(self, address: str, day: int) -> int:
        if day > self._day:  # a clock that was set back changes nothing
            self._day = day
            self._addresses.clear()
        return self._addresses.get(address, 0)


def _too_much(owner: str, setting: str) -> str:
    return (
        f"{owner} has added as much to the store as it may in one day. Try again after midnight UTC,"
        f" or ask the operator to raise `{setting}`"
    )
