"""Offers that wait for an answer (seed 000, file transfer). Pure, and bounded: any agent may offer files."""

from collections import Counter
from collections.abc import Iterator
from typing import Final, Generic, Protocol, TypeVar

from moothall.files.control import MAX_SIZE, Offer
from moothall.files.sending import OFFER_EXPIRY
from moothall.files.slurp import human_size

MAX_PENDING: Final = 64
MAX_OF_ONE: Final = 8  # offers of one sender


class Pending(Protocol):
    @property
    def sender(self) -> str: ...
    @property
    def transfer_id(self) -> str: ...
    @property
    def received_at(self) -> float: ...


Item = TypeVar("Item", bound=Pending)


def objection(offer: Offer) -> str | None:
    """Why an offer is refused as it arrives."""
    if offer.total_size > MAX_SIZE:
        return f"{human_size(offer.total_size)} is more than the {human_size(MAX_SIZE)} of a transfer"
    return None


class PendingOffers(Generic[Item]):
    """In the order in which they came. A transfer is known by its sender and id, as two agents may use one id."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], Item] = {}

    def __iter__(self) -> Iterator[Item]:
        return iter(tuple(self._items.values()))

    def add(self, item: Item) -> bool:
        """False if the sender has too many here, or offered this one before."""
        key = (item.sender, item.transfer_id)
        of_senders = Counter(sender for sender, _ in self._items)
        if key in self._items or of_senders[item.sender] >= MAX_OF_ONE:
            return False
        if len(self._items) >= MAX_PENDING:
            busiest = max(of_senders.values())
            del self._items[next(each for each in self._items if of_senders[each[0]] == busiest)]
        self._items[key] = item
        return True

    def remove(self, sender: str, transfer_id: str) -> None:
        self._items.pop((sender, transfer_id), None)

    def sweep(self, now: float) -> None:
        """Forget those that have expired."""
        for key, item in tuple(self._items.items()):
            if now >= item.received_at + OFFER_EXPIRY:
                del self._items[key]
