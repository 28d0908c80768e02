"""What decisions about credits read and leave behind, which the store implements; and the operator's own units of
work: deposits and withdrawals."""

from typing import Protocol

from msgspec import Struct

from moothall.market import credits
from moothall.market.credits import EXTERNAL, Authority, Escrow, Posted
from moothall.market.ledger import agent_account
from moothall.market.records import Entry


class JournalEntry(Struct, frozen=True, gc=False):
    """An entry of the book `credits`, and the envelope that authorised it. The operator's have none."""

    entry: Entry
    authority: Authority | None


class CreditBooks(Protocol):
    def balance(self, account: str) -> int:
        """What an account of the book `credits` holds."""

    def is_guarded(self, account: str) -> bool:
        """True if credits of this account move only with a proof of the key."""

    def guard(self, account: str) -> None:
        """The agent has proven its key: from now on its credits move only with a proof."""

    def totals(self) -> dict[str, int]:
        """What `agents` and `escrows` hold together, and the treasury; `external` is below zero by their sum."""

    def escrow(self, conversation_id: bytes) -> Escrow | None: ...

    def posted(self, deal: str, operation: str) -> Entry | None:
        """The entry of the book `credits` that has this name."""

    def journal(
        self, account: str | None = None, *, limit: int = 100, before: Entry | None = None
    ) -> list[JournalEntry]:
        """Of one account, or of all; newest first. `before` is where an earlier list ended."""

    def save_escrow(self, escrow: Escrow) -> None:
        """Without an entry: a notary was assigned to it."""

    def save_posted(self, posted: Posted) -> None:
        """An escrow as an operation left it, its entry, and the envelope that authorised it."""

    def save_entry(self, entry: Entry) -> None:
        """A repeated one is a no-op. One that would leave an account below zero makes the unit run again."""


def deposit(books: CreditBooks, key: bytes, amount: int, reference: str, *, now: int) -> Entry:
    """Issue credits to an agent, once per reference. Raises CreditsRefused."""
    posted = books.posted(credits.reference_name(reference), "deposit")
    held = books.balance(EXTERNAL)
    entry = credits.deposit(key, amount, reference, external=held, now=now, posted=posted)
    if posted is None:
        books.save_entry(entry)
    return entry


def withdraw(books: CreditBooks, key: bytes, amount: int, reference: str, *, now: int) -> Entry:
    """Take credits back from an agent, once per reference. Raises CreditsRefused, NoCover among them."""
    posted = books.posted(credits.reference_name(reference), "withdraw")
    held = books.balance(agent_account(key))
    entry = credits.withdraw(key, amount, reference, balance=held, now=now, posted=posted)
    if posted is None:
        books.save_entry(entry)
    return entry
