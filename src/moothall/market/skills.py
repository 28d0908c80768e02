"""The directory: who offers what, and who among them stands best (agentchat wire 14)."""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from moothall.errors import InvalidMessage
from moothall.market.audit import audit_row
from moothall.market.commands import RegisterSkills
from moothall.market.ledger import agent_account
from moothall.market.news import SkillsRegistered
from moothall.market.outcome import MarketOutcome, Notice, Outcome
from moothall.market.records import Number, Offer, Registration, Revoked, SkillStanding, Standing
from moothall.market.signed import Signed
from moothall.market.storable import kept_json, require_bounded
from moothall.wire.agentchat.jstext import utf16_length

DEFAULT_LIMIT: Final = 50  # agentchat wire 14
# Together these keep an answer well within what a client may leave unread.
MAX_LIMIT: Final = 200
MAX_SKILLS: Final = 100
MAX_SKILL_SIZE: Final = 4096  # bytes of one skill as JSON, as a message has characters
MAX_SIZE: Final = 16 * 1024  # of all that an agent offers
# Skills that one search puts in order; where more match, those of the best rated agents
CANDIDATES: Final = 1000
MAX_CAPABILITY: Final = 256  # characters of its name

Skill = dict[str, Any]


# -- registration --------------------------------------------------------------------------------------


def register(
    order: Signed[RegisterSkills], before: Registration | None, agent_id: str, now: int
) -> MarketOutcome:
    """Replaces what the agent registered before, and not what it advertised. `agent_id` is without "@"."""
    registration = Registration(
        key=order.key,
        agent_id=agent_id,
        skills=order.command.skills,
        registered_at=now,
        sig=order.sig,
        advertised=None if before is None else before.advertised,
    )
    row = audit_row("register_skills", agent_account(order.key), now, order=order)
    news = SkillsRegistered(registration)
    return Outcome(changes=(registration, row), notices=(Notice((order.key,), news),))


def withdraw(key: bytes, now: int) -> MarketOutcome:
    """The key was revoked, so searches must not find it any more."""
    return Outcome(changes=(Revoked(key), audit_row("withdraw_skills", agent_account(key), now)))


def require_modest(skills: list[Skill]) -> None:
    """InvalidMessage if this is more than one agent may offer. It stops at the first skill that is too much."""
    if len(skills) > MAX_SKILLS:
        raise InvalidMessage(f"An agent offers at most {MAX_SKILLS} skills")
    total = 0
    for skill in skills:
        total += size_of(skill)
        if total > MAX_SIZE:
            raise InvalidMessage(f"The skills of an agent have at most {MAX_SIZE} bytes together")


def size_of(skill: Skill) -> int:
    """Bytes as JSON, or InvalidMessage if the directory does not take it."""
    if utf16_length(skill["capability"]) > MAX_CAPABILITY:
        raise InvalidMessage(f"`capability` has more than {MAX_CAPABILITY} characters")
    require_bounded(skill, "skills")
    size = len(kept_json(skill))
    if size > MAX_SKILL_SIZE:
        raise InvalidMessage(f"A skill has at most {MAX_SKILL_SIZE} bytes")
    return size


# -- search --------------------------------------------------------------------------------------------


class Filters(Struct, kw_only=True, frozen=True):
    """Texts in lower case. A skill that names no rate, or no currency, is not held to it."""

    capability: str = ""
    max_rate: Number | None = None
    currency: str = ""
    limit: int = DEFAULT_LIMIT


def best(offers: Iterable[Offer], standings: Mapping[bytes, Standing], limit: int) -> list[Offer]:
    """The best first: by rating in the skill, by rating, by how recently it was registered."""

    def rank(offer: Offer) -> tuple[int, int, int]:
        standing = standings[offer.key]
        return (_in_skill(standing, offer.name).rating, standing.rating, offer.registered_at)

    return sorted(offers, key=rank, reverse=True)[:limit]


class Found(Struct, frozen=True, gc=False):
    """One skill that a search found, and how its agent stands."""

    offer: Offer
    skill: Skill
    standing: Standing
    in_skill: SkillStanding
    online: bool


class SearchResult(Struct, frozen=True):
    total: int  # how many skills were put in order
    found: list[Found]


def results(
    offered: Iterable[tuple[Offer, Skill]], standings: Mapping[bytes, Standing], online: Container[bytes]
) -> list[Found]:
    return [
        Found(
            offer,
            skill,
            standings[offer.key],
            _in_skill(standings[offer.key], offer.name),
            offer.key in online,
        )
        for offer, skill in offered
    ]


def _in_skill(standing: Standing, capability: str) -> SkillStanding:
    """Without a deal in this skill yet, the agent's own rating (agentchat wire 12.8)."""
    return standing.skills.get(capability) or SkillStanding(rating=standing.rating)
