"""The end of a deal: ratings move, stakes leave the escrow, and one ledger entry says both.

Each agent that takes part has a Share. What a share is, the caller decides (a completion, a dispute, a
verdict); that it is kept consistently, in standing, ledger, history and message, is decided here alone.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import structs

from moothall.market import ledger
from moothall.market.movement import Movement, Share
from moothall.market.records import EscrowResult, RatingPoint, SkillStanding, Standing
from moothall.market.reputation import FLOOR

# Capabilities in which one agent has a rating: the parties of a deal choose their names freely.
MAX_SKILLS: Final = 100


class Deal(Protocol):
    """What is settled: a proposal, or a conversation of the mesh."""

    @property
    def id(self) -> str: ...

    @property
    def capability(self) -> str | None: ...


def settle(
    deal: Deal, operation: str, shares: Sequence[Share], now: int, stakes: EscrowResult | None = None
) -> Movement:
    """Every share counts as one transaction. Whatever the shares leave in the escrow is burned."""
    moved: list[tuple[Standing, Standing]] = []
    points: list[RatingPoint] = []
    why = f"{operation} {deal.id}"
    for share in shares:
        before, after = share.standing, _after(share, deal.capability, now)
        moved.append((before, after))
        points.append(RatingPoint(key=after.key, at=now, rating=after.rating, why=why))
    return Movement(
        moved=tuple(moved),
        entry=ledger.entry(ledger.ELO, deal.id, operation, now, _postings(deal, shares)),
        points=tuple(points),
        shares=tuple(shares),
        stakes=stakes,
    )


def floored(rating: int) -> int:
    return max(FLOOR, rating)


def _after(share: Share, capability: str | None, now: int) -> Standing:
    before = share.standing
    skills = before.skills
    if capability and share.in_capability:
        skills = _with_skill(skills, capability, share.change, now)
    return structs.replace(
        before,
        rating=floored(before.rating + share.change),
        transactions=before.transactions + 1,
        updated=now,
        escrowed=before.escrowed - share.staked,
        skills=skills,
        curbs=share.curbs or before.curbs,
    )


def _with_skill(
    skills: dict[str, SkillStanding], capability: str, change: int, now: int
) -> dict[str, SkillStanding]:
    """The same change, within one capability (agentchat wire 12.8). The one dealt in least lately makes way."""
    before = skills.get(capability) or SkillStanding()
    after = SkillStanding(
        rating=floored(before.rating + change), transactions=before.transactions + 1, updated=now
    )
    others = {name: skill for name, skill in skills.items() if name != capability}
    if len(others) >= MAX_SKILLS:
        del others[min(others, key=lambda name: others[name].updated or 0)]
    return {**others, capability: after}


def _postings(deal: Deal, shares: Sequence[Share]) -> list[tuple[str, int]]:
    postings: list[tuple[str, int]] = []
    earned = staked = awarded = 0
    for share in shares:
        rating = share.standing.rating + share.change
        lift = floored(rating) - rating
        account = ledger.agent_account(share.standing.key)
        postings += ((account, share.earned + share.awarded + lift), (ledger.FLOOR_ACCOUNT, -lift))
        earned += share.earned
        staked += share.staked
        awarded += share.awarded
    return [
        *postings,
        (ledger.escrow_account(deal.id), -staked),
        (ledger.BURN, staked - awarded),
        (ledger.MINT if earned > 0 else ledger.BURN, -earned),
    ]
