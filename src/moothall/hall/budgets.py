"""What each connection, key and address may cost the hall (docs/security.md).

A `Price` says what a frame will cost: frames, bytes, messages told to others, time of the store. An `Account` has a
token bucket for each of them. The price is charged before the work is done. A bucket that is half empty takes a
price of any size and then owes the rest, so a large command is possible after a quiet moment, and the average
holds. A small price needs less room: or those who ask for much would take all that refills for their address, and a
neighbour with one short frame would never have its turn.

An agent with a key is charged to its key, so that a new connection refills nothing; others are charged to their
connection. What is over this budget is refused. All of them are charged to their address too, which has a small
bucket that refills fast: what is over that budget waits, so that many connections together never stop the loop for
more than some milliseconds, and neighbours behind one address are slowed down, not refused. Loopback clients have
the same buckets, many times larger.
"""

from collections.abc import Iterable
from math import ceil
from typing import Final, Generic, NamedTuple, TypeVar

from moothall.hall.access import holder_of
from moothall.settings import Settings
from moothall.settings.limits import Rate, Window

Owner = TypeVar("Owner", str, bytes)

# Accounts that owe nothing are as good as new. Look for them when the number of accounts has doubled since.
_MIN_TO_SWEEP: Final = 1024

_ROUNDING: Final = 1e-9  # of a bucket: after the time that `wait` has said, the price must be possible

# A new connection costs the hall about as much as this many frames: accept, upgrade, a session, the close.
CONNECTION_FRAMES: Final = 5

# To read a part of a frame costs about this share of a frame.
PIECE_FRAMES: Final = 0.25

# A session that waits for its address waits at least this long: to wake it costs as much as a few frames.
LEAST_PAUSE: Final = 0.1

# Refusals are cheap but not free: at least this many per 10 s are answered, then the hall stops reading.
LEAST_REFUSALS: Final = Rate(60, 10)


class Price(NamedTuple):
    """What a frame costs, in the order of an account's rates."""

    frames: float = 0
    bytes: float = 0
    told: float = 0  # messages to others, and entries of a list
    store: float = 0  # microseconds of the store's thread


class Shortage(NamedTuple):
    """A price that cannot be charged now."""

    seconds: float  # until it can
    is_address: bool  # it is the address that cannot pay, and not the connection or key itself


class Bucket(NamedTuple):
    """A rate as an account reckons with it: in seconds. An unlimited part of a price has no bucket."""

    part: int  # of a price
    per_unit: float  # seconds in which one unit refills
    seconds: float  # in which all of it refills
    tolerance: float


def buckets(rates: Iterable[Rate]) -> tuple[Bucket, ...]:
    return tuple(
        Bucket(part, rate.seconds / rate.limit, rate.seconds, rate.seconds * _ROUNDING)
        for part, rate in enumerate(rates)
        if rate.limit
    )


class Account:
    """Token buckets, one per part of a price.

    Each is kept as the time at which it will be full again. So a charge is one addition, and nothing has to be
    refilled. All frames pass here.
    """

    __slots__ = ("_buckets", "_full_at")

    def __init__(self, buckets: tuple[Bucket, ...]) -> None:
        self._buckets = buckets
        self._full_at = [0.0] * len(Price._fields)

    def take(self, price: Price, now: float, share: float = 1) -> float:
        """Charge this share of a price, or nothing and return the seconds until it can be charged."""
        longest = 0.0
        full_at = self._full_at
        for part, per_unit, seconds, tolerance in self._buckets:
            amount = price[part]
            if amount:
                needed = amount * per_unit * share
                room = seconds - needed
                if room < seconds / 2:
                    room = seconds / 2
                at = full_at[part]
                if at < now:
                    at = now
                full_at[part] = at + needed
                lacking = at - now - room
                if lacking > tolerance and lacking > longest:
                    longest = lacking
        if longest:
            Account.charge(self, price, now, -share)  # as it was added here
        return longest

    def charge(self, price: Price, now: float, share: float = 1) -> None:
        """Charge this share of a price, whatever is left. A negative share is given back."""
        for bucket in self._buckets:
            at = max(self._full_at[bucket.part], now)
            self._full_at[bucket.part] = at + price[bucket.part] * bucket.per_unit * share

    def refill_time(self, price: Price) -> float:
        """Seconds in which as much as this price refills."""
        return max((price[bucket.part] * bucket.per_unit for bucket in self._buckets), default=0.0)

    def debts(self, now: float) -> list[float]:
        """Seconds until each bucket is full again."""
        return [max(0.0, at - now) for at in self._full_at]

    def take_over(self, debts: Iterable[float], now: float) -> None:
        """Owe at least as much as the account did on another node."""
        self._full_at = [max(at, now + debt) for at, debt in zip(self._full_at, debts, strict=False)]

    def is_quiet(self, now: float) -> bool:
        """True if the account owes nothing."""
        return max(self._full_at) <= now


class Accounts(Generic[Owner]):
    """The accounts of keys or addresses. One that owes nothing is as good as new, so it is forgotten."""

    def __init__(self, rates: Iterable[Rate]) -> None:
        self._buckets = buckets(rates)
        self._accounts: dict[Owner, Account] = {}
        self._sweep_at = _MIN_TO_SWEEP

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, owner: Owner, now: float) -> Account:
        """The account of an owner. Do not keep it: a quiet account is forgotten and made anew."""
        account = self._accounts.get(owner)
        if account is None:
            if len(self._accounts) >= self._sweep_at:
                self._sweep(now)
            account = self._accounts[owner] = self._new(owner)
        return account

    def _new(self, owner: Owner) -> Account:
        return Account(self._buckets)

    def debts(self, owner: Owner, now: float) -> list[float]:
        """What the owner owes, for another node. Empty: nothing."""
        account = self._accounts.get(owner)
        return [] if account is None or account.is_quiet(now) else account.debts(now)

    def _sweep(self, now: float) -> None:
        self._accounts = {
            owner: account for owner, account in self._accounts.items() if not account.is_quiet(now)
        }
        self._sweep_at = max(_MIN_TO_SWEEP, 2 * len(self._accounts))


class Budgets:
    """What all connections, keys and addresses may cost. A hall with `no_limits` does not ask."""

    def __init__(self, settings: Settings) -> None:
        own = (Rate(0, 1), settings.budget_bytes, settings.budget_told, settings.budget_store)
        self.own = buckets(own)
        self.keys: Accounts[bytes] = Accounts(own)
        self.address_rates = (
            settings.address_frames,
            settings.address_bytes,
            settings.address_told,
            settings.address_store,
        )
        self.addresses: Accounts[str] = Accounts(self.address_rates)
        self.shared: Accounts[str] | None = None  # those that the other nodes of this hall know of
        self._loopback_share = 1 / settings.loopback_factor

    def meter(self, ip: str, *, is_loopback: bool, factor: float = 1) -> "Meter":
        """`factor`: how many times larger the buckets of this connection are."""
        addresses = self.addresses if is_loopback or self.shared is None else self.shared
        return Meter(self, addresses, ip, (self._loopback_share if is_loopback else 1) / factor)


class Meter:
    """Counts what one connection costs: its frames, its refusals, and what its accounts have left.

    It is charged a `share` of each price, which is the same as larger buckets.
    """

    __slots__ = (
        "_address",
        "_addresses",
        "_budgets",
        "_key",
        "_own",
        "_share",
        "frames",
        "prepaid",
        "refusals",
    )

    def __init__(self, budgets: Budgets, addresses: Accounts[str], ip: str, share: float) -> None:
        self._budgets = budgets
        self._addresses = addresses
        self._address = holder_of(ip)
        self._share = share
        self._own = Account(budgets.own)
        self._key: bytes | None = None
        self.frames: Window | None = None
        self.refusals: Window | None = None
        self.prepaid = 0  # bytes of messages to come that were charged already

    def limit_frames(self, rate: Rate) -> None:
        """Count frames with this rate from now on. As many refusals as it allows frames are answered."""
        self.frames = rate.window()
        least = ceil(LEAST_REFUSALS.per_second * rate.seconds)
        self.refusals = Window(Rate(max(rate.limit, least), rate.seconds)) if rate.limit else None

    def belongs_to(self, key: bytes) -> None:
        """Charge the key from now on, not the connection."""
        self._key = key

    def charge(self, price: Price, now: float) -> Shortage | None:
        """Charge both accounts, or say which of them cannot pay and charge none."""
        own, address = self._accounts(now)
        share = self._share
        if seconds := own.take(price, now, share):
            return Shortage(seconds, is_address=False)
        if seconds := address.take(price, now, share):
            own.charge(price, now, -share)
            return Shortage(max(seconds, LEAST_PAUSE), is_address=True)
        return None

    def owe(self, price: Price, now: float) -> None:
        """Charge a price that is known only after the work."""
        for account in self._accounts(now):
            account.charge(price, now, self._share)

    def prepay(self, size: int, now: float) -> float:
        """Charge a part of a message as it arrives. Returns the seconds to wait before reading the next one."""
        self.prepaid += size
        price = Price(frames=PIECE_FRAMES, bytes=size)
        own, address = self._accounts(now)
        own.charge(price, now, self._share)
        seconds = address.take(price, now, self._share)
        if not seconds:
            return 0.0
        address.charge(price, now, self._share)
        return max(seconds, LEAST_PAUSE)

    def refill_time(self, price: Price, now: float) -> float:
        """Seconds in which as much as this price refills in both accounts."""
        return max(account.refill_time(price) for account in self._accounts(now)) * self._share

    def _accounts(self, now: float) -> tuple[Account, Account]:
        own = self._own if self._key is None else self._budgets.keys.of(self._key, now)
        return own, self._addresses.of(self._address, now)
