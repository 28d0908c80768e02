"""Credits: what agents of the mesh pay each other, and what is put aside for a conversation (mesh wire 10).

An operator issues credits: they come in from `external`, and go out to it. When a conversation is COMMITTED, its
amount and the notary's fee move from the requester into the escrow of the conversation. One settlement empties it:

    approve    the provider is paid, the notary gets its fee
    claim      at the timeout, the provider is paid, and gets the notary's fee too
    cancel     the requester gets everything back

Parties that agree on another amount after a DISPUTE adjust the escrow; it stays locked. The treasury keeps half a
percent of what a provider is paid. All amounts are whole millionths of a credit.

Accounts of the book `credits` (see `ledger`):

    agent:<key in hex>                            what an agent can spend
    escrow:<requester>:<provider>:<conversation>  zero before the lock and after the settlement
    treasury                                      fees
    external                                      the world outside: the only account that may be below zero

A repeated operation posts nothing, and gives the escrow as the first one left it. Each entry names the envelope
that authorised it.
"""

import re
from typing import Final, Literal

from msgspec import Struct, structs

from moothall.errors import CreditsRefused, NoCover
from moothall.market import ledger
from moothall.market.records import Entry

TREASURY: Final = "treasury"
EXTERNAL: Final = "external"

MILLIONTHS: Final = 1_000_000  # in one credit
MAX_AMOUNT: Final = 2**63 - 1  # of any account; the specification has 64 bits, and stores have 63
PROTOCOL_FEE: Final = 50  # of 10,000 (mesh wire 10.2)
NOTARY_SHARE: Final = 10  # by default a notary gets a tenth (mesh wire 10.3)
DEFAULT_TIMEOUT: Final = 604_800_000  # milliseconds (mesh wire 10.3)
MAX_REFERENCE: Final = 128  # characters

_CONVERSATION: Final = "mesh:"
_DIGITS: Final = re.compile("[0-9a-f]{32}")

Settlement = Literal["approve", "claim", "cancel"]


class Authority(Struct, frozen=True, gc=False):
    """The envelope that authorised an entry: a verifier finds it in the log. For a signed order, and for a verdict
    of the court, it is the text that was signed (see `in_court`)."""

    envelope: bytes  # keccak256 of its encoding
    sender: bytes
    nonce: int


class Escrow(Struct, kw_only=True, frozen=True, gc=False):
    """What is put aside for a conversation, or was."""

    conversation_id: bytes
    requester: bytes
    provider: bytes
    amount: int
    notary: bytes | None = None
    notary_fee: int = 0
    created_at: int
    timeout: int  # milliseconds
    adjusted: int = 0  # how often the parties agreed on another amount
    settled: Settlement | None = None
    settled_at: int | None = None

    @property
    def account(self) -> str:
        return f"escrow:{self.requester.hex()}:{self.provider.hex()}:{self.conversation_id.hex()}"

    @property
    def total(self) -> int:
        """What the account holds until the escrow is settled."""
        return self.amount + self.notary_fee

    @property
    def ends_at(self) -> int:
        """From this moment on, the provider of a delivery may claim."""
        return self.created_at + self.timeout


class Posted(Struct, frozen=True, gc=False):
    """What an operation leaves behind, to be saved in one unit with the change of the conversation."""

    escrow: Escrow
    authority: Authority
    entry: Entry | None  # None: this operation was posted before, or there was nothing to move


def deal_name(conversation_id: bytes) -> str:
    """The conversation in the ledger."""
    return f"{_CONVERSATION}{conversation_id.hex()}"


def conversation_named(deal: str) -> bytes | None:
    """The id of the conversation that has this name in the ledger; None: it is another deal."""
    digits = deal.removeprefix(_CONVERSATION)
    if digits == deal or not _DIGITS.fullmatch(digits):
        return None
    return bytes.fromhex(digits)


def protocol_fee(amount: int) -> int:
    return amount * PROTOCOL_FEE // 10_000


def default_notary_fee(amount: int, notary: bytes | None) -> int:
    return 0 if notary is None else amount // NOTARY_SHARE


# -- the escrow of a conversation ------------------------------------------------------------------------


def lock(
    conversation_id: bytes,
    requester: bytes,
    provider: bytes,
    amount: int,
    *,
    balance: int,
    now: int,
    authority: Authority,
    notary: bytes | None = None,
    notary_fee: int | None = None,
    timeout: int = DEFAULT_TIMEOUT,
    held: Escrow | None = None,
) -> Posted:
    """Put the amount and the notary's fee aside.

    `balance` is what the requester can spend. `authority` is the requester's envelope that names the amount: its
    ACCEPT, or its offer that the provider accepted. `notary_fee` None is the default fee, and `timeout` 0 the
    default timeout. `held` is the escrow that the conversation has already: its amount is adjusted, and the rest of
    it stays.

    Raises NoCover, or CreditsRefused for an amount or an envelope that the rules do not allow.
    """
    if authority.sender != requester:
        raise CreditsRefused("Only the requester puts its credits aside", "Unauthorized")
    if amount <= 0:
        raise CreditsRefused("An escrow holds more than nothing", "ZeroAmount")
    if held is not None:
        return _adjust(held, amount, balance, now, authority)
    fee = default_notary_fee(amount, notary) if notary_fee is None else notary_fee
    if fee and notary is None:
        raise CreditsRefused("There is a fee for a notary, and no notary", "NotaryFeeWithoutNotary")
    escrow = Escrow(
        conversation_id=conversation_id,
        requester=requester,
        provider=provider,
        amount=amount,
        notary=notary,
        notary_fee=fee,
        created_at=now,
        timeout=timeout or DEFAULT_TIMEOUT,
    )
    _require_bounds(escrow)
    _require_cover(balance, escrow.total)
    return _posted(escrow, "lock", now, authority, ((_agent(requester), -escrow.total),))


def appoint(escrow: Escrow, notary: bytes) -> Escrow:
    """The escrow with a notary that was assigned after the lock. It gets no fee: none was put aside."""
    _require_open(escrow)
    if escrow.notary is not None:
        raise CreditsRefused("The escrow has a notary", "Unauthorized")
    return structs.replace(escrow, notary=notary)


def approve(escrow: Escrow, *, by: bytes, now: int, authority: Authority) -> Posted:
    """Pay the provider and the notary. For the requester, or the notary that the escrow names."""
    if by not in (escrow.requester, escrow.notary):
        raise CreditsRefused("The requester or the assigned notary approves the payment", "Unauthorized")
    paid = [(_agent(escrow.provider), escrow.amount - protocol_fee(escrow.amount))]
    if escrow.notary is not None:
        paid.append((_agent(escrow.notary), escrow.notary_fee))
    return _settle(escrow, "approve", now, authority, (*paid, _fee(escrow)))


def claim(
    escrow: Escrow, *, by: bytes, now: int, authority: Authority, delivered: bool, rejected: bool
) -> Posted:
    """Pay the provider because the timeout has passed. `rejected`: the notary's last verdict was 0x01.

    Without a delivery there is nothing to pay for, and a rejecting verdict blocks the claim: the requester cancels.
    """
    if by != escrow.provider:
        raise CreditsRefused("Only the provider claims the payment", "Unauthorized")
    if escrow.settled is None:
        if now < escrow.ends_at:
            raise CreditsRefused(
                "The payment can be claimed when its timeout has passed", "TimeoutNotReached"
            )
        if rejected:
            raise CreditsRefused("The notary rejected the delivery", "Unauthorized")
        if not delivered:
            raise CreditsRefused("Nothing was delivered", "Unauthorized")
    paid = (_agent(escrow.provider), escrow.total - protocol_fee(escrow.amount))
    return _settle(escrow, "claim", now, authority, (paid, _fee(escrow)))


def cancel(
    escrow: Escrow,
    *,
    by: bytes,
    now: int,
    authority: Authority,
    delivered: bool,
    rejected: bool,
    consented: bool,
) -> Posted:
    """Give everything back to the requester, without a fee.

    Allowed before the delivery and after a rejecting verdict, at any time: the provider cannot claim then, and the
    credits must not stay locked. After another delivery it takes the provider's consent, before the timeout.
    """
    if by != escrow.requester:
        raise CreditsRefused("Only the requester cancels the escrow", "Unauthorized")
    if escrow.settled is None and delivered and not rejected:
        if now >= escrow.ends_at:
            raise CreditsRefused(
                "The timeout has passed: the provider may claim the payment", "TimeoutAlreadyReached"
            )
        if not consented:
            raise CreditsRefused(
                "The work was delivered: the provider must consent, or DISPUTE", "Unauthorized"
            )
    return _settle(escrow, "cancel", now, authority, ((_agent(escrow.requester), escrow.total),))


def extend(escrow: Escrow, time: int) -> Escrow:
    """The escrow with so many milliseconds more: those that a court case took."""
    _require_open(escrow)
    return structs.replace(escrow, timeout=escrow.timeout + max(time, 0))


def _adjust(held: Escrow, amount: int, balance: int, now: int, authority: Authority) -> Posted:
    """The fee stays as it was put aside, and so does the timeout."""
    _require_open(held)
    more = amount - held.amount
    if not more:
        return Posted(held, authority, None)
    escrow = structs.replace(held, amount=amount, adjusted=held.adjusted + 1)
    _require_bounds(escrow)
    _require_cover(balance, more)
    return _posted(escrow, f"adjust:{escrow.adjusted}", now, authority, ((_agent(held.requester), -more),))


def _settle(
    escrow: Escrow,
    settlement: Settlement,
    now: int,
    authority: Authority,
    paid: tuple[tuple[str, int], ...],
) -> Posted:
    if escrow.settled == settlement:
        return Posted(escrow, authority, None)
    _require_open(escrow)
    settled = structs.replace(escrow, settled=settlement, settled_at=now)
    return _posted(settled, settlement, now, authority, paid)


def _posted(
    escrow: Escrow, operation: str, now: int, authority: Authority, moved: tuple[tuple[str, int], ...]
) -> Posted:
    """What others get comes out of the escrow, and what they give goes into it."""
    into = (escrow.account, -sum([amount for _, amount in moved]))
    deal = deal_name(escrow.conversation_id)
    return Posted(escrow, authority, ledger.entry(ledger.CREDITS, deal, operation, now, (*moved, into)))


def _fee(escrow: Escrow) -> tuple[str, int]:
    return TREASURY, protocol_fee(escrow.amount)


def _require_open(escrow: Escrow) -> None:
    if escrow.settled is not None:
        raise CreditsRefused(f"The escrow was settled before ({escrow.settled})", "AlreadySettled")


def _require_bounds(escrow: Escrow) -> None:
    if escrow.notary_fee < 0 or escrow.total > MAX_AMOUNT:
        raise CreditsRefused(
            f"The amount and the notary's fee are at most {MAX_AMOUNT} millionths together", "AmountOverflow"
        )


def _require_cover(balance: int, amount: int) -> None:
    """The provider that accepts is told too, so how much the requester has is not said."""
    if balance < amount:
        raise NoCover(
            f"The requester has to put {shown(amount)} credits aside, and has fewer."
            " It asks the operator for a deposit, or the parties agree on less"
        )


# -- credits that come and go ----------------------------------------------------------------------------


def deposit(
    key: bytes, amount: int, reference: str, *, external: int, now: int, posted: Entry | None = None
) -> Entry:
    """Credits that the operator issues to an agent. `external` is the balance of that account.

    A reference counts once: `posted` is the deposit that has it, and is returned if it says the same.
    """
    _require_amount(amount)
    if posted is None and amount - external > MAX_AMOUNT:
        raise CreditsRefused(f"All accounts hold at most {MAX_AMOUNT} millionths together", "AmountOverflow")
    return _across("deposit", key, amount, reference, now, posted)


def withdraw(
    key: bytes, amount: int, reference: str, *, balance: int, now: int, posted: Entry | None = None
) -> Entry:
    """Credits that the operator takes back from an agent. `balance` is what it can spend."""
    _require_amount(amount)
    if posted is None and balance < amount:
        raise NoCover(f"{shown(amount)} credits cannot be withdrawn: the balance is {shown(balance)}")
    return _across("withdraw", key, -amount, reference, now, posted)


def reference_name(reference: str) -> str:
    """A deposit or a withdrawal in the ledger."""
    return f"reference:{reference}"


def _across(operation: str, key: bytes, amount: int, reference: str, now: int, posted: Entry | None) -> Entry:
    if not (0 < len(reference) <= MAX_REFERENCE and reference.isascii() and reference.isprintable()):
        raise CreditsRefused(
            f"A reference has 1 to {MAX_REFERENCE} printable ASCII characters", "InvalidReference"
        )
    moved = ((_agent(key), amount), (EXTERNAL, -amount))
    entry = ledger.entry(ledger.CREDITS, reference_name(reference), operation, now, moved)
    if posted is None:
        return entry
    if set(posted.postings) != set(entry.postings):
        raise CreditsRefused(f"Another {operation} has the reference {reference!r}", "ReferenceUsed")
    return posted


def _require_amount(amount: int) -> None:
    if amount <= 0:
        raise CreditsRefused("The amount must be more than 0", "ZeroAmount")
    if amount > MAX_AMOUNT:
        raise CreditsRefused(f"The amount is at most {MAX_AMOUNT} millionths", "AmountOverflow")


# -- amounts as people write them ------------------------------------------------------------------------


def shown(amount: int) -> str:
    """Millionths as credits: 1500000 is "1.5"."""
    sign = "-" if amount < 0 else ""
    whole, rest = divmod(abs(amount), MILLIONTHS)
    return f"{sign}{whole}" + (f".{rest:06}".rstrip("0") if rest else "")


def _agent(key: bytes) -> str:
    return ledger.agent_account(key)
