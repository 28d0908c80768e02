"""Double-entry bookkeeping: whatever one account gives, others get, and every entry sums to zero.

    agent:<key in hex>     what an agent has and has not staked: its rating less its open stakes
    escrow:<proposal id>   both stakes of a deal, from ACCEPT until it ends
    mint                   where rating comes from: openings, and gains that nobody paid for
    burn                   where rating goes: losses that nobody gained, stakes burned on mutual fault
    floor                  lifts an agent that would fall below the least rating back to it

So rating = balance of the agent's account + its own open stakes, and each of the three named accounts says
how much came into the world, left it, or was forgiven. An entry happens once per (deal, operation).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from moothall.market.records import Entry, Posting

MINT: Final = "mint"
BURN: Final = "burn"
FLOOR_ACCOUNT: Final = "floor"


def agent_account(key: bytes) -> str:
    return f"agent:{key.hex()}"


def escrow_account(proposal_id: str) -> str:
    return f"escrow:{proposal_id}"


def entry(deal: str, operation: str, at: int, movements: Iterable[tuple[str, int]]) -> Entry:
    """The movements as one entry: one posting per account that has something to show."""
    totals: dict[str, int] = {}
    for account, amount in movements:
        totals[account] = totals.get(account, 0) + amount
    postings = [Posting(account, amount) for account, amount in totals.items() if amount]
    return Entry(deal=deal, operation=operation, postings=tuple(postings), at=at)


def opening(key: bytes, rating: int, at: int) -> Entry:
    """The first entry of an agent: the rating it has before its first deal."""
    account = agent_account(key)
    return entry(account, "opening", at, ((MINT, -rating), (account, rating)))


def balances(entries: Iterable[Entry]) -> dict[str, int]:
    """What each account holds; a repeated entry counts once."""
    totals: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for each in entries:
        if (each.deal, each.operation) not in seen:
            seen.add((each.deal, each.operation))
            for posting in each.postings:
                totals[posting.account] += posting.amount
    return dict(totals)
