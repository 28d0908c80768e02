"""The directory: who offers what, and who among them stands best (agentchat wire 14)."""

from collections.abc import Container, Iterable, Mapping
from typing import Any, Final, TypeGuard

from msgspec import Struct

from moothall.errors import InvalidMessage
from moothall.hall.voice import quote_name
from moothall.identity import PublicKey
from moothall.identity.certificates import timestamp_text
from moothall.identity.keys import AGENT_ID_LENGTH
from moothall.market.audit import audit_row
from moothall.market.ledger import agent_account
from moothall.market.outcome import DISCOVERY, Notice, Outcome, ServiceLine
from moothall.market.records import Offer, Registration, Revoked, SkillStanding, Standing
from moothall.market.signed import Signed
from moothall.market.storable import kept_json, require_bounded
from moothall.wire.agentchat.client import Number, RegisterSkills, SearchSkills
from moothall.wire.agentchat.jstext import utf16_length
from moothall.wire.agentchat.market import SearchResults, SkillsRegistered

DEFAULT_LIMIT: Final = 50  # agentchat wire 14
# Together these keep an answer well within what a client may leave unread.
MAX_LIMIT: Final = 200
MAX_SKILLS: Final = 100
MAX_SKILL_SIZE: Final = 4096  # bytes of one skill as JSON, as a message has characters
MAX_SIZE: Final = 16 * 1024  # of all that an agent offers
CANDIDATES: Final = (
    1000  # skills that one search puts in order; where more match, those of the best rated agents
)
MAX_CAPABILITY: Final = 256  # characters of its name
MAX_LISTED: Final = 2000  # characters of the list that #discovery is told
MAX_NAMED: Final = 100  # characters of one capability in it
ANNOUNCE_SECONDS: Final = 60.0  # between two lines about the skills of one agent

Skill = dict[str, Any]


# -- registration --------------------------------------------------------------------------------------


def register(order: Signed[RegisterSkills], agent_id: str, now: int) -> Outcome:
    """Replaces what the agent offered before. `agent_id` is without "@"."""
    skills = order.message.skills
    key = order.key.raw
    registration = Registration(
        key=key, agent_id=agent_id, skills=skills, registered_at=now, sig=order.message.sig
    )
    row = audit_row("register_skills", agent_account(key), now, actor=key, message=order.message)
    reply = SkillsRegistered(ts=now, agent_id=f"@{agent_id}", skills_count=len(skills), registered_at=now)
    return Outcome(
        changes=(registration, row),
        notices=(Notice((key,), reply),),
        lines=(_announcement(agent_id, skills),),
    )


def withdraw(key: bytes, now: int) -> Outcome:
    """The key was revoked: nobody is to find it any more."""
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


def _announcement(agent_id: str, skills: list[Skill]) -> ServiceLine:
    listed = ", ".join(quote_name(skill["capability"], MAX_NAMED) for skill in skills)
    if len(listed) > MAX_LISTED:
        listed = listed[: MAX_LISTED - 1] + "…"
    content = f"Agent @{agent_id} registered {len(skills)} skill(s): {listed}"
    return ServiceLine(
        channel=DISCOVERY, content=content, about=f"@{agent_id}", buffered=False, spacing=ANNOUNCE_SECONDS
    )


# -- search --------------------------------------------------------------------------------------------


class Filters(Struct, kw_only=True, frozen=True):
    """Texts in lower case. A skill that names no rate, or no currency, is not held to it."""

    capability: str = ""
    max_rate: Number | None = None
    currency: str = ""
    limit: int = DEFAULT_LIMIT


def read_query(message: SearchSkills) -> Filters:
    """What to look for; InvalidMessage if the query makes no sense."""
    query = message.query if isinstance(message.query, dict) else {}
    max_rate, limit = query.get("max_rate"), query.get("limit") or DEFAULT_LIMIT
    if max_rate is not None and not _is_number(max_rate):
        raise InvalidMessage("`query.max_rate` must be a number")
    if not _is_number(limit) or limit < 1:
        raise InvalidMessage("`query.limit` must be a number from 1")
    return Filters(
        capability=_words(query, "capability"),
        max_rate=max_rate,
        currency=_words(query, "currency"),
        limit=int(min(limit, MAX_LIMIT)),
    )


def best(offers: Iterable[Offer], standings: Mapping[bytes, Standing], limit: int) -> list[Offer]:
    """The best first: by rating in the skill, by rating, by how recently it was registered."""

    def rank(offer: Offer) -> tuple[int, int, int]:
        standing = standings[offer.key]
        return (_in_skill(standing, offer.name).rating, standing.rating, offer.registered_at)

    return sorted(offers, key=rank, reverse=True)[:limit]


def results(
    message: SearchSkills,
    total: int,
    offered: Iterable[tuple[Offer, Skill]],
    standings: Mapping[bytes, Standing],
    online: Container[bytes],
    now: int,
    id_length: int = AGENT_ID_LENGTH,
) -> SearchResults:
    found = [_result(offer, skill, standings[offer.key], online, id_length) for offer, skill in offered]
    return SearchResults(ts=now, query_id=message.query_id, query=message.query, results=found, total=total)


def _result(
    offer: Offer, skill: Skill, standing: Standing, online: Container[bytes], id_length: int
) -> dict[str, Any]:
    in_skill = _in_skill(standing, offer.name)
    # The hall's words come last: a skill with a field `agent_rating` does not rate itself.
    return {
        **skill,
        # As it is shown here now: it may have registered under another length, or with the reference.
        "agent_id": f"@{PublicKey(offer.key).agent_id(id_length)}",
        "registered_at": offer.registered_at,
        "agent_rating": standing.rating,
        "agent_transactions": standing.transactions,
        "skill_rating": in_skill.rating,
        "skill_transactions": in_skill.transactions,
        "skill_updated": None if in_skill.updated is None else timestamp_text(in_skill.updated),
        "online": offer.key in online,
    }


def _in_skill(standing: Standing, capability: str) -> SkillStanding:
    """Without a deal in this skill yet, the agent's own rating (agentchat wire 12.8)."""
    return standing.skills.get(capability) or SkillStanding(rating=standing.rating)


def _words(query: dict[str, Any], field: str) -> str:
    words = query.get(field) or ""
    if not isinstance(words, str):
        raise InvalidMessage(f"`query.{field}` must be a text")
    return words.lower()


def _is_number(value: Any) -> TypeGuard[Number]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
