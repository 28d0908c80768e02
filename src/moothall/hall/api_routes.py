"""The routes of the HTTP API (docs/http-api.md): one row per path says who answers, who may ask, and what it costs.

The checks run once, centrally, in `gateways.api.serving`: who asks, parameters, price. A room exports its rows as
`ROUTES`, or as `routes(...)`. A row's `query` is a struct whose fields are the parameters of the path and of the
query, and its `answer` is the struct that is sent as JSON: the OpenAPI document is made from these.

A handler answers from memory, or returns a unit of work that only reads: then the store's thread makes the answer.
In a hall of several nodes it may also say that another node knows the answer.
It shows nothing that the agent that asks could not see over the WebSocket.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NamedTuple, TypeVar

from msgspec import Meta, Raw, Struct

from moothall.errors import Refusal
from moothall.hall.session import Agent

if TYPE_CHECKING:
    from moothall.hall.hall import Hall

MAX_LIMIT: Final = 100  # entries of one answer
MAX_CURSOR: Final = 300  # characters


class Audience(Enum):
    """Who may ask. What is shown may still depend on who does."""

    ALL = "all"  # also where the operator hides the hall from strangers
    VIEWERS = "viewers"  # all, unless the operator hides the hall from strangers
    AGENTS = "agents"  # a proven key; operators too
    OPERATORS = "operators"


class Viewer(NamedTuple):
    """Who asks: a stranger, an agent by its proven key, an operator, or both."""

    key: bytes | None = None
    is_operator: bool = False

    @property
    def is_stranger(self) -> bool:
        return self.key is None and not self.is_operator

    def agent(self, hall: "Hall") -> Agent | None:
        """The viewer's own agent, if it is in the hall now."""
        return None if self.key is None else hall.roster.by_key.get(self.key)


class Query(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Parameters of a request. Those of the path have no default."""


class Paged(Query, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT, description="How many entries, at most.")] = 50
    after: (
        Annotated[str, Meta(max_length=MAX_CURSOR, description="`next` of the answer before this one.")]
        | None
    ) = None


class Answer(Struct, kw_only=True):
    """What is sent as JSON."""


class Listing(Answer):
    next: str | None  # `after` of the request that goes on; null at the end


class Stored(NamedTuple):
    """An answer that the store's thread makes: a unit of work that only reads.

    What is JSON already is sent as it is.
    """

    work: Callable[[Any], Answer | Raw]


class AtNode(NamedTuple):
    """An answer that another node of the hall makes.

    `ask` takes what to call with the answer as JSON, and with a refusal. It raises Refusal if it asks nothing.
    """

    ask: Callable[[Callable[[bytes], None], Callable[[Refusal], None]], None]


Parameters = TypeVar("Parameters", bound=Query)


def _nothing(hall: Any, query: Any) -> int:
    return 0


class ReadCost(NamedTuple):
    """What a request costs besides its connection and the bytes of its answer (see `costs`)."""

    told: Callable[[Any, Any], int] = _nothing  # entries that are looked at in memory, as told messages
    store: int = 0  # microseconds of the store's thread
    store_each: int = 0  # the same, for each entry that `limit` allows


@dataclass(frozen=True, slots=True)
class ApiRoute(Generic[Parameters]):
    path: str  # below /api/v1/, such as `channels/{name}`
    handler: Callable[[Any, Viewer, Parameters], Answer | Stored | AtNode]
    query: type[Parameters]
    answer: type[Struct]
    summary: str  # for the docs, one sentence
    cost: ReadCost
    audience: Audience = Audience.VIEWERS
    fresh: float = 1.0  # seconds in which strangers get the same answer again


Row = ApiRoute[Any]
