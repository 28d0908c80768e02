"""The budget of an address over several nodes: it may spend about one budget in all (docs/security.md).

Each node measures the *load* of an address: the part of its budget that it has spent here in the last second. Nodes
tell each other the loads that matter. While an address spends more than one budget in all, each node lets it have a
*portion* of one, and divides prices by that. So no debt can be charged twice, or remain. A report that is lost or
late only makes the portion a second older.

Loopback clients are not among these: those of two machines have nothing in common.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Final

from moothall.hall.budgets import Account, Accounts, Bucket, Price
from moothall.settings.limits import Rate

MOST_TOLD: Final = 512  # addresses that a node tells of: those with the highest loads
# All nodes together may overlook this part of a budget. What an address spends at one node below its part of that
# costs the bus nothing.
OVERLOOKED: Final = 0.5
# A load keeps at least this part of itself each second. So an address that floods all nodes for a moment, again
# and again, does not begin each time with a whole budget at each of them.
CALMING: Final = 0.75


def portion(own: float, others: float, nodes: int) -> float:
    """The part of its budget that an address has here, after these loads here and on the other nodes.

    Over one budget, each node keeps what it had in proportion. Below, a node may add what is left. No node goes
    below an equal part, so a client is not shut out because others of its address were first.
    """
    total = own + others
    fair = own / total if total > 1 else 1 - others
    return min(1.0, max(fair, 1 / nodes))


class SharedAccount(Account):
    """All frames of the address pass here, so counting them is as short as it can be."""

    __slots__ = ("_accounts", "_owner", "_period", "_spent")

    def __init__(self, buckets: tuple[Bucket, ...], accounts: "SharedAccounts", owner: str) -> None:
        super().__init__(buckets)
        self._accounts = accounts
        self._owner = owner
        self._period = -1  # in which `_spent` was spent
        self._spent = [0.0] * len(Price._fields)

    def take(self, price: Price, now: float, share: float = 1) -> float:
        accounts = self._accounts
        dearer = share / accounts.portions.get(self._owner, 1.0) if accounts.portions else share
        longest = Account.take(self, price, now, dearer)
        if not longest:
            if self._period != accounts.period:
                self._begin()
            spent = self._spent
            for part, amount in enumerate(price):
                if amount:
                    spent[part] += amount * share
        return longest

    def charge(self, price: Price, now: float, share: float = 1) -> None:
        super().charge(price, now, share / self._portion)
        if self._period != self._accounts.period:
            self._begin()
        self._spent = [spent + amount * share for spent, amount in zip(self._spent, price, strict=True)]

    def refill_time(self, price: Price) -> float:
        return super().refill_time(price) / self._portion

    def is_quiet(self, now: float) -> bool:
        return self._period != self._accounts.period and super().is_quiet(now)

    @property
    def _portion(self) -> float:
        return self._accounts.portions.get(self._owner, 1.0)

    def _begin(self) -> None:
        self._period = self._accounts.period
        self._spent = [0.0] * len(Price._fields)
        self._accounts.spenders[self._owner] = self

    def spent(self) -> float:
        """In this period, in the seconds in which it refills: the part that takes longest."""
        return max((self._spent[bucket.part] * bucket.per_unit for bucket in self._buckets), default=0.0)


class SharedAccounts(Accounts[str]):
    """The accounts of addresses. `end_period` is to be called about once a second."""

    def __init__(self, rates: Iterable[Rate]) -> None:
        super().__init__(rates)
        self.period = 0
        self.spenders: dict[str, SharedAccount] = {}  # that have spent in this period
        self.loads: dict[str, float] = {}  # in the last period, where they are worth telling
        # Of addresses that have less than all of their budget here.
        self.portions: dict[str, float] = {}

    def end_period(self, seconds: float, nodes: int) -> None:
        """Measure the loads of a period that was so long, in a hall of so many nodes."""
        least = OVERLOOKED / nodes
        loads = {address: load * CALMING for address, load in self.loads.items()}
        for address, account in self.spenders.items():
            load = account.spent() / seconds
            if load >= least:
                loads[address] = max(load, loads.get(address, 0.0))
        worth_telling = (each for each in loads.items() if each[1] >= least)
        self.loads = dict(nlargest(MOST_TOLD, worth_telling, key=lambda each: each[1]))
        self.period += 1
        self.spenders = {}

    def divide(self, addresses: Iterable[str], others: Iterable[Mapping[str, float]], nodes: int) -> None:
        """Set the portions of these addresses, after their loads here and on each of the other nodes."""
        told = list(others)
        for address in addresses:
            elsewhere = sum(loads.get(address, 0.0) for loads in told)
            found = portion(self.loads.get(address, 0.0), elsewhere, nodes) if elsewhere else 1.0
            if found < 1:
                self.portions[address] = found
            else:
                self.portions.pop(address, None)

    def _new(self, owner: str) -> Account:
        return SharedAccount(self._buckets, self, owner)
