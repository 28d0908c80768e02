"""What operators see in the HTTP API: the metrics of the last hour, connections, bans, what workers spend."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from moothall.gateways.metrics_history import PERIOD, MetricsHistory, Sample
from moothall.hall.access import Ban
from moothall.hall.api_channels import roster_looked_at, wire_of
from moothall.hall.api_pages import page_by
from moothall.hall.api_routes import (
    MAX_LIMIT,
    Answer,
    ApiRoute,
    Audience,
    Listing,
    Paged,
    Query,
    ReadCost,
    Row,
    Stored,
    Viewer,
)
from moothall.hall.hall import Hall
from moothall.hall.session import Agent
from moothall.hall.spending import TOTAL, SpendingBooks, day_of, day_text
from moothall.identity import PublicKey

MAX_REASON: Final = 200  # characters of a ban's reason; a frame's worth of them would fit into one


class HistoryQuery(Query, frozen=True, kw_only=True):
    since: Annotated[int, Meta(ge=0, description="Only samples after this moment, in Unix milliseconds.")] = 0


class MetricsAnswer(Answer):
    """Samples of the last hour, oldest first; `period` is the seconds between two."""

    period: float
    items: list[Sample]


class MostSpent(Query, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many keys, at most.")] = 50


class ConnectionShown(Struct, kw_only=True):
    """`unread` are bytes that wait because the agent does not read them.

    `channels` and `unread` are null for an agent of another node: only its own node counts them.
    """

    id: str
    name: str
    wire: str
    ip: str
    user_agent: str
    connected_at: int
    channels: int | None
    unread: int | None


class ConnectionList(Listing):
    items: list[ConnectionShown]


class BanShown(Struct, kw_only=True):
    id: str
    reason: str | None
    banned_at: str
    banned_by: str


class BanList(Listing):
    items: list[BanShown]


class SpenderShown(Struct, kw_only=True):
    """Tokens of today. `cap` is null for a key without one, and `name` for an agent that is not connected."""

    id: str
    name: str | None
    spent: int
    cap: int | None


class BudgetList(Answer):
    """Tokens that workers report, of this day in UTC: all together, and of the keys that spent most. `keys` is how
    many have spent something."""

    day: str
    spent: int
    cap: int | None
    keys: int
    items: list[SpenderShown]


def routes(history: MetricsHistory) -> tuple[Row, ...]:
    def show_history(hall: Hall, viewer: Viewer, query: HistoryQuery) -> MetricsAnswer:
        return MetricsAnswer(period=PERIOD, items=history.since(query.since))

    return (
        ApiRoute(
            "metrics/history",
            show_history,
            HistoryQuery,
            MetricsAnswer,
            "The metrics of the last hour.",
            ReadCost(lambda hall, query: len(history) // 4),
            audience=Audience.OPERATORS,
        ),
        ApiRoute(
            "connections",
            list_connections,
            Paged,
            ConnectionList,
            "Agents with their address and what they leave unread; by id.",
            ReadCost(roster_looked_at),
            audience=Audience.OPERATORS,
        ),
        ApiRoute(
            "bans",
            list_bans,
            Paged,
            BanList,
            "Who is banned; by id.",
            ReadCost(lambda hall, query: query.limit),
            audience=Audience.OPERATORS,
        ),
        ApiRoute(
            "budgets",
            list_budgets,
            MostSpent,
            BudgetList,
            "What workers have spent today, those that spent most first, and the caps.",
            ReadCost(store=500, store_each=5),
            audience=Audience.OPERATORS,
        ),
    )


def list_connections(hall: Hall, viewer: Viewer, query: Paged) -> ConnectionList:
    agents = hall.roster.agents.values()
    page, more = page_by(lambda agent: agent.id, agents, query, lambda agent: agent.address)
    return ConnectionList(items=[_connection(agent) for agent in page], next=more)


def list_bans(hall: Hall, viewer: Viewer, query: Paged) -> BanList:
    page, more = page_by(lambda ban: ban.agent_id, hall.bans.entries(), query)
    return BanList(items=[_ban(ban) for ban in page], next=more)


def list_budgets(hall: Hall, viewer: Viewer, query: MostSpent) -> Stored:
    day, caps, length = day_of(hall.timestamp()), hall.spending.caps, hall.settings.id_length

    def work(books: SpendingBooks) -> BudgetList:
        most, keys = books.most_spent(day, query.limit)
        return BudgetList(
            day=day_text(day),
            spent=books.spent(day, ()).total,
            cap=caps.of(TOTAL),
            keys=keys,
            items=[
                SpenderShown(
                    id=f"@{PublicKey(key).agent_id(length)}",
                    name=None if (agent := hall.roster.by_key.get(key)) is None else agent.name,
                    spent=spent,
                    cap=caps.of(key),
                )
                for key, spent in most
            ],
        )

    return Stored(work)


def _connection(agent: Agent) -> ConnectionShown:
    session = agent.session
    is_here = not session.is_remote
    return ConnectionShown(
        id=agent.address,
        name=agent.name,
        wire=wire_of(agent),
        ip=session.ip,
        user_agent=session.user_agent,
        connected_at=int(session.connected_at * 1000),
        channels=len(agent.channels) if is_here else None,
        unread=session.link.unread if is_here else None,
    )


def _ban(ban: Ban) -> BanShown:
    reason = None if ban.reason is None else ban.reason[:MAX_REASON]
    return BanShown(id=ban.agent_id, reason=reason, banned_at=ban.banned_at, banned_by=ban.banned_by)
