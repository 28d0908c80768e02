"""What a decision of market or court leads to: changes to keep, and what to tell whom once they are kept.

A decision tells news, and each wire has its own messages for them. So the parties can be on different wires.
"""

from typing import Generic, TypeVar

from msgspec import Struct

from moothall.market.records import Change

Kept = TypeVar("Kept", bound=Struct, covariant=True)


class News(Struct, frozen=True, gc=False):
    """Something that happened: see `market.news` and `court.news`."""


class Notice(Struct, frozen=True, gc=False):
    """News for the agents with these keys, as far as they are connected."""

    to: tuple[bytes, ...]
    news: News


class Outcome(Struct, Generic[Kept], kw_only=True, frozen=True, gc=False):
    """`answer` is for the agent that acted. It leaves after the notices."""

    changes: tuple[Kept, ...]
    notices: tuple[Notice, ...] = ()
    answer: News | None = None


MarketOutcome = Outcome[Change]
