"""Double-entry bookkeeping: whatever one account gives, others get, and every entry sums to zero.

There are two books. Each entry belongs to one of them, so each book sums to zero by itself. An entry happens once
per (book, deal, operation).

`elo` holds ratings and stakes:

    agent:<key in hex>     what an agent has and has not staked: its rating less its open stakes
    escrow:<proposal id>   both stakes of a deal, from ACCEPT until it ends
    mint                   where rating comes from: openings, and gains that no agent paid for
    burn                   where rating goes: losses that no agent gained, stakes burned on mutual fault
    floor                  lifts an agent that would fall below the least rating back to it

So rating = balance of the agent's account + its own open stakes, and each of the three named accounts says
how much came into the world, left it, or was forgiven.

`credits` holds what agents pay each other. Deals that are paid in ratings do not post to it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from moothall.market.records import Book, Entry, Posting

ELO: Final = "elo"
CREDITS: Final = "credits"

MINT: Final = "mint"
BURN: Final = "burn"
FLOOR_ACCOUNT: Final = "floor"


def agent_account(key: bytes) -> str:
    return f"agent:{key.hex()}"


def escrow_account(proposal_id: str) -> str:
    return f"escrow:{proposal_id}"


def entry(book: Book, deal: str, operation: str, at: int, movements: Iterable[tuple[str, int]]) -> Entry:
    """The movements as one entry: one posting per account that has something to show."""
    totals: dict[str, int] = {}
    for account, amount in movements:
        totals[account] = totals.get(account, 0) + amount
    postings = [Posting(account, amount) for account, amount in totals.items() if amount]
    return Entry(book=book, deal=deal, operation=operation, postings=tuple(postings), at=at)


def opening(key: bytes, rating: int, at: int) -> Entry:
    """The first entry of an agent in `elo`: the rating it has before its first deal."""
    account = agent_account(key)
    return entry(ELO, account, "opening", at, ((MINT, -rating), (account, rating)))


def balances(entries: Iterable[Entry], book: Book) -> dict[str, int]:
    """What each account of the book holds. A repeated entry counts once."""
    totals: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for each in entries:
        if each.book == book and (each.deal, each.operation) not in seen:
            seen.add((each.deal, each.operation))
            for posting in each.postings:
                totals[posting.account] += posting.amount
    return dict(totals)
