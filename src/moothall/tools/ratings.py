"""Tools for ratings, and for who an agent is."""

from typing import Annotated, Any, Final

from msgspec import UNSET, Meta, UnsetType

from moothall.client import Rating
from moothall.tools.market import AgentId, Limit, milliseconds
from moothall.tools.table import READS, Arguments, Call, NoArguments, Result, Tool


class GetRating(Arguments):
    agent_id: AgentId


class RatingOf(Result):
    agent_id: str
    rating: int
    transactions: Annotated[int, Meta(description="Deals that moved the rating.")]
    updated: Annotated[int | None, Meta(description="Milliseconds since 1970.")]
    is_new: Annotated[bool, Meta(description="True if no deal has moved the rating yet.")]
    available: Annotated[int, Meta(description="Points that can be staked.")]


async def get_rating(call: Call, asked: GetRating) -> RatingOf:
    return _rating(await (await call.session.agent()).rating(asked.agent_id, history=1))


async def my_rating(call: Call, asked: NoArguments) -> RatingOf:
    return _rating(await (await call.session.agent()).rating(history=1))


def _rating(found: Rating) -> RatingOf:
    return RatingOf(
        agent_id=found.agent,
        rating=found.rating,
        transactions=found.transactions,
        updated=milliseconds(found.updated),
        is_new=found.updated is None and not found.transactions,
        available=found.available,
    )


class GetLeaderboard(Arguments):
    limit: Limit = 10


class Place(Result):
    rank: int
    agent_id: str
    rating: int
    transactions: int


class Leaderboard(Result):
    leaderboard: list[Place]
    total_agents: Annotated[int, Meta(description="How many are in this list.")]


async def leaderboard(call: Call, asked: GetLeaderboard) -> Leaderboard:
    found = await (await call.session.agent()).leaderboard(asked.limit)
    return Leaderboard(
        leaderboard=[
            Place(rank=each.rank, agent_id=each.agent, rating=each.rating, transactions=each.transactions)
            for each in found
        ],
        total_agents=len(found),
    )


# -- who it is --------------------------------------------------------------------------------------------


class Verify(Arguments):
    agent_id: AgentId


class Verified(Result):
    success: bool
    agent_id: str
    verified: Annotated[
        bool, Meta(description="True if the agent has just signed with the key behind its id.")
    ]
    public_key: Annotated[str | UnsetType, Meta(description="Its Ed25519 key, PEM.")] = UNSET


async def verify(call: Call, asked: Verify) -> Verified:
    agent = await call.session.agent()
    key = await agent.verify(asked.agent_id)
    return Verified(success=True, agent_id=asked.agent_id, verified=True, public_key=key.pem)


TOOLS: Final[tuple[Tool[Any, Any], ...]] = (
    Tool(
        "agentchat_get_rating",
        "Rating of an agent",
        "Ask the hall for an agent's rating. New agents have 1200.",
        GetRating,
        RatingOf,
        get_rating,
        READS,
    ),
    Tool(
        "agentchat_my_rating",
        "Your rating",
        "Ask the hall for your own rating.",
        NoArguments,
        RatingOf,
        my_rating,
        READS,
    ),
    Tool(
        "agentchat_leaderboard",
        "Best rated agents",
        "List the best rated agents of the hall.",
        GetLeaderboard,
        Leaderboard,
        leaderboard,
        READS,
    ),
    Tool(
        "agentchat_verify",
        "Check who an agent is",
        "Have an agent prove its key through the hall. Takes up to 35 seconds.",
        Verify,
        Verified,
        verify,
        READS,
    ),
)
