"""How agents stand: ratings, what a settlement did to them, skills on offer, receipts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from moothall.client.incoming import raw
from moothall.wire.agentchat import market


@dataclass(frozen=True, slots=True)
class RatingChange:
    """What the end of a deal did to one agent. `change` is the number before the floor of 100. `withheld` is what
    the hall's rules against farming kept from the agent."""

    old: int
    new: int
    change: int
    transactions: int
    withheld: int = 0


def rating_changes(found: Mapping[str, Mapping[str, Any]]) -> dict[str, RatingChange]:
    """By `@id`; the stakes are beside them (agentchat wire 12.6)."""
    names = ("oldRating", "newRating", "change", "transactions", "withheld")
    return {
        agent: RatingChange(*(change.get(name, 0) for name in names))
        for agent, change in found.items()
        if agent.startswith("@")
    }


def stakes_went(found: Mapping[str, Mapping[str, Any]]) -> str | None:
    settlement = found.get("_escrow", {}).get("settlement")
    return settlement if isinstance(settlement, str) else None


@dataclass(frozen=True, slots=True)
class SkillOffer:
    """A skill that an agent offers, as a search finds it."""

    agent: str  # with @
    capability: str
    description: str | None
    rate: float | None
    currency: str | None
    agent_rating: int
    agent_transactions: int
    skill_rating: int  # in this capability; the agent's own rating before its first deal in it
    skill_transactions: int
    online: bool | None  # None: the hall does not say
    skill: Mapping[str, Any]  # every field, as it was registered


@dataclass(frozen=True, slots=True)
class SkillRating:
    """A rating in one skill."""

    rating: int
    transactions: int
    updated: datetime | None


@dataclass(frozen=True, slots=True)
class MeshReputation:
    """What agents of the mesh say about an agent. The first three are averages of scores from -100 to 100."""

    reliability: float
    cooperation: float
    notary_accuracy: float
    total_tasks: int
    total_notarized: int
    total_disputes: int


@dataclass(frozen=True, slots=True)
class RatingPoint:
    """A rating from `at` on; `why` names the deal that made it."""

    at: datetime
    rating: int
    why: str


@dataclass(frozen=True, slots=True)
class Rating:
    """How an agent stands."""

    agent: str  # with @
    rating: int
    transactions: int
    escrowed: int  # staked in deals that are not over
    available: int  # what it can stake
    updated: datetime | None
    skills: Mapping[str, SkillRating]
    history: tuple[RatingPoint, ...]  # newest first
    mesh: MeshReputation | None = None  # None: no FEEDBACK yet


@dataclass(frozen=True, slots=True)
class RankedAgent:
    """A place on the leaderboard."""

    rank: int  # from 1
    agent: str  # with @
    rating: int
    transactions: int
    mesh: MeshReputation | None = None  # None: no FEEDBACK yet


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a completed deal, with the signed operations behind it. `verify_receipt(body)` checks it."""

    body: bytes

    @property
    def raw(self) -> dict[str, Any]:
        """The receipt as a dict."""
        return raw(self.body)

    @property
    def proposal_id(self) -> str:
        """The deal that it is about."""
        return str(self.raw.get("proposal_id"))


# The first and the last millisecond that a datetime can name; JavaScript has more of them (agentchat wire 2.1).
FIRST_MOMENT: Final = -62_135_596_800_000
LAST_MOMENT: Final = 253_402_300_799_000


def moment(ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(ms, FIRST_MOMENT), LAST_MOMENT) / 1000, UTC)


def moment_or_none(ms: float | None) -> datetime | None:
    return None if ms is None else moment(ms)


class _Found(msgspec.Struct, kw_only=True):
    """A search result (agentchat wire 14). The agent that registered the skill chose its first fields."""

    capability: str
    description: Any = None
    rate: Any = None
    currency: Any = None
    agent_id: str
    agent_rating: int
    agent_transactions: int
    skill_rating: int
    skill_transactions: int
    online: bool | None = None


# What the hall says about a skill, beside the skill itself.
_STANDING: Final = frozenset(
    (
        "agent_id",
        "registered_at",
        "agent_rating",
        "agent_transactions",
        "skill_rating",
        "skill_transactions",
        "skill_updated",
        "online",
    )
)


def skill_offer(result: dict[str, Any]) -> SkillOffer:
    """Raises msgspec.ValidationError for a result that makes no sense."""
    found = msgspec.convert(result, _Found, strict=False)
    is_priced = isinstance(found.rate, int | float) and not isinstance(found.rate, bool)
    return SkillOffer(
        agent=found.agent_id,
        capability=found.capability,
        description=found.description if isinstance(found.description, str) else None,
        rate=found.rate if is_priced else None,
        currency=found.currency if isinstance(found.currency, str) else None,
        agent_rating=found.agent_rating,
        agent_transactions=found.agent_transactions,
        skill_rating=found.skill_rating,
        skill_transactions=found.skill_transactions,
        online=found.online,
        skill={name: value for name, value in result.items() if name not in _STANDING},
    )


def rating(body: market.Ratings) -> Rating:
    return Rating(
        agent=body.agent_id,
        rating=body.rating,
        transactions=body.transactions,
        escrowed=body.escrowed,
        available=body.available,
        updated=moment_or_none(body.updated),
        skills={
            capability: SkillRating(skill.rating, skill.transactions, moment_or_none(skill.updated))
            for capability, skill in body.skills.items()
        },
        history=tuple(RatingPoint(moment(step.at), step.rating, step.why) for step in body.history),
        mesh=_mesh(body.mesh),
    )


def _mesh(found: market.MeshReputation | UnsetType) -> MeshReputation | None:
    if not found:
        return None
    return MeshReputation(
        reliability=found.reliability / 1000,
        cooperation=found.cooperation / 1000,
        notary_accuracy=found.notary_accuracy / 1000,
        total_tasks=found.total_tasks,
        total_notarized=found.total_notarized,
        total_disputes=found.total_disputes,
    )


def ranking(body: market.Leaderboard) -> list[RankedAgent]:
    return [
        RankedAgent(rank, entry.agent_id, entry.rating, entry.transactions, _mesh(entry.mesh))
        for rank, entry in enumerate(body.list, 1)
    ]
