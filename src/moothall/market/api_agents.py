"""Agents in the HTTP API, with ratings and skills: what LIST_AGENTS, GET_RATING, GET_LEADERBOARD and SEARCH_SKILLS
show."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from moothall.errors import AgentNotFound, InvalidMessage
from moothall.hall.api_channels import roster_looked_at, wire_of
from moothall.hall.api_pages import cut, page_by
from moothall.hall.api_routes import (
    MAX_LIMIT,
    Answer,
    ApiRoute,
    Listing,
    Paged,
    Query,
    ReadCost,
    Stored,
    Viewer,
)
from moothall.hall.roster import Present
from moothall.hall.services import Services
from moothall.identity import PublicKey
from moothall.market import escrow
from moothall.market.api_books import ApiBooks
from moothall.market.books import Books
from moothall.market.feedback import vector_at
from moothall.market.records import Registration, SkillStanding, Standing
from moothall.market.reputation_vector import UNRATED, ReputationVector
from moothall.wire.agentchat.names import bare_id

MAX_SKILLS_LISTED: Final = 20  # of one agent in a list

AgentParameter = Annotated[str, Meta(max_length=64, description="The agent's id, with or without its `@`.")]


class OfAgent(Query, frozen=True, kw_only=True):
    id: AgentParameter


class PagedOfAgent(Paged, frozen=True, kw_only=True):
    id: AgentParameter


class Leading(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many entries, at most.")] = 50


class TokenBudget(Struct, kw_only=True):
    """Tokens of a worker's session, as the worker reports them."""

    limit: int
    spent: int


class AgentShown(Struct, kw_only=True):
    """`presence` is `offline` and `name` null for an agent that is not connected to this hall. An agent without a
    key has no rating. `budget` is null for an agent that reports none."""

    id: str
    name: str | None
    presence: str
    status_text: str | None
    verified: bool
    kind: str
    wire: str | None
    budget: TokenBudget | None = None
    rating: int | None = None
    transactions: int = 0
    skills: list[str] = []


class AgentList(Listing):
    items: list[AgentShown]


class Reputation(Struct, kw_only=True):
    escrowed: int
    available: int
    updated: int | None
    skills: dict[str, SkillStanding]
    mesh: ReputationVector | None  # what agents of the mesh say about it; null: nothing


class AgentAnswer(Answer):
    agent: AgentShown
    reputation: Reputation | None  # null for an agent without a key
    offers: list[dict[str, Any]]  # its skills as it registered them


class RatingPoint(Struct, kw_only=True):
    at: int
    rating: int
    why: str


class RatingHistory(Listing):
    id: str
    items: list[RatingPoint]


class Leader(Struct, kw_only=True):
    rank: int
    id: str
    rating: int
    transactions: int
    mesh: ReputationVector | None


class Leaderboard(Answer):
    items: list[Leader]


# -- handlers ------------------------------------------------------------------------------------------


def list_agents(hall: Services, viewer: Viewer, query: Paged) -> Stored:
    """By id."""
    agents, more = page_by(lambda agent: agent.id, hall.roster.everyone(), query, lambda agent: agent.address)
    page = [(_key_of(agent), _present(agent)) for agent in agents]

    def work(books: Books) -> AgentList:
        standings = books.standings_of([key for key, _ in page if key is not None])
        for key, shown in page:
            if key is not None:
                _rate(shown, standings[key], books.registration(key))
        return AgentList(items=[shown for _, shown in page], next=more)

    return Stored(work)


def show_agent(hall: Services, viewer: Viewer, query: OfAgent) -> Stored:
    agent = hall.roster.get(bare_id(query.id))
    now, id_length = hall.timestamp(), hall.settings.id_length

    def work(books: Books) -> AgentAnswer:
        key = _find_key(books, agent, query.id)
        shown = _absent(key, id_length) if agent is None else _present(agent)
        if key is None:
            return AgentAnswer(agent=shown, reputation=None, offers=[])
        standing, registration = books.standing(key), books.registration(key)
        _rate(shown, standing, registration)
        return AgentAnswer(
            agent=shown,
            reputation=_reputation(standing, now),
            offers=[] if registration is None else [skill for skill, _ in registration.listed()],
        )

    return Stored(work)


def list_ratings(hall: Services, viewer: Viewer, query: PagedOfAgent) -> Stored:
    agent = hall.roster.get(bare_id(query.id))
    before = _number(query.after)

    def work(books: ApiBooks) -> RatingHistory:
        key = _find_key(books, agent, query.id)
        steps = [] if key is None else books.rating_steps(key, before=before, limit=query.limit + 1)
        page, more = cut(steps, query.limit, lambda step: str(step.number))
        return RatingHistory(
            id=f"@{bare_id(query.id)}",
            items=[RatingPoint(at=step.at, rating=step.rating, why=step.why) for step in page],
            next=more,
        )

    return Stored(work)


def show_leaderboard(hall: Services, viewer: Viewer, query: Leading) -> Stored:
    now, id_length = hall.timestamp(), hall.settings.id_length

    def work(books: Books) -> Leaderboard:
        leaders = books.leaders(query.limit)
        standings = books.standings_of([leader.key for leader in leaders])
        return Leaderboard(
            items=[
                Leader(
                    rank=rank,
                    id=f"@{PublicKey(leader.key).agent_id(id_length)}",
                    rating=leader.rating,
                    transactions=leader.transactions,
                    mesh=_on_the_mesh(standings[leader.key], now),
                )
                for rank, leader in enumerate(leaders, 1)
            ]
        )

    return Stored(work)


# -- small words ---------------------------------------------------------------------------------------


def _key_of(agent: Present) -> bytes | None:
    """As GET_RATING takes it: the proven key, or the one that an agent of another wire signs with."""
    key = agent.key or agent.claimed_key
    return None if key is None else key.raw


def _find_key(books: Books, agent: Present | None, address: str) -> bytes | None:
    """None for an agent that is here without a key. Raises AgentNotFound."""
    if agent is not None:
        return _key_of(agent)
    key = books.find_key(bare_id(address))
    if key is None:
        raise AgentNotFound(f"{address[:64]} is not known here")
    return key


def _present(agent: Present) -> AgentShown:
    budget = agent.budget
    return AgentShown(
        id=agent.address,
        name=agent.name,
        presence=agent.presence,
        status_text=agent.status_text,
        verified=agent.verified,
        kind=agent.kind or "agent",
        wire=wire_of(agent),
        budget=None if budget is None else TokenBudget(limit=budget.limit, spent=budget.spent),
    )


def _absent(key: bytes | None, id_length: int) -> AgentShown:
    assert key is not None  # noqa: S101  # an agent that is neither here nor known is not found
    return AgentShown(
        id=f"@{PublicKey(key).agent_id(id_length)}",
        name=None,
        presence="offline",
        status_text=None,
        verified=False,
        kind="agent",
        wire=None,
    )


def _rate(shown: AgentShown, standing: Standing, registration: Registration | None) -> None:
    shown.rating = standing.rating
    shown.transactions = standing.transactions
    if registration is not None:
        listed = registration.listed()[:MAX_SKILLS_LISTED]
        shown.skills = [str(skill["capability"]) for skill, _ in listed]


def _reputation(standing: Standing, now: int) -> Reputation:
    return Reputation(
        escrowed=standing.escrowed,
        available=escrow.available(standing),
        updated=standing.updated,
        skills=standing.skills,
        mesh=_on_the_mesh(standing, now),
    )


def _on_the_mesh(standing: Standing, now: int) -> ReputationVector | None:
    return None if standing.mesh == UNRATED else vector_at(standing, now)


def _number(after: str | None) -> int | None:
    if after is None:
        return None
    if not (after.isascii() and after.isdecimal() and len(after) <= 18):
        raise InvalidMessage("`after` must be the `next` of an answer from this route")
    return int(after)


ROUTES: Final = (
    ApiRoute(
        "agents",
        list_agents,
        Paged,
        AgentList,
        "All agents that are connected, with rating and skills; by id.",
        ReadCost(roster_looked_at, store=300, store_each=20),
    ),
    ApiRoute(
        "agents/{id}",
        show_agent,
        OfAgent,
        AgentAnswer,
        "One agent, connected or not: reputation and skills.",
        ReadCost(store=400),
    ),
    ApiRoute(
        "agents/{id}/ratings",
        list_ratings,
        PagedOfAgent,
        RatingHistory,
        "How the rating of an agent has moved, the newest first.",
        ReadCost(store=300, store_each=5),
    ),
    ApiRoute(
        "leaderboard",
        show_leaderboard,
        Leading,
        Leaderboard,
        "The agents with the highest ratings.",
        ReadCost(store=500, store_each=20),
        fresh=5.0,
    ),
)
