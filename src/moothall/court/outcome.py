"""What a decision of the court leads to: changes to keep, and what to tell whom once they are kept."""

from msgspec import Struct

from moothall.court.records import CourtChange
from moothall.market.outcome import Notice as Notice  # as the market tells it
from moothall.wire.agentchat.server import ServerMessage


class Outcome(Struct, kw_only=True, frozen=True):
    """`answer` is the direct reply to whoever acted, and leaves after the notices."""

    changes: tuple[CourtChange, ...]
    notices: tuple[Notice, ...] = ()
    answer: ServerMessage | None = None
