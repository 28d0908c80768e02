"""What a decision leads to: changes to keep, and what to tell whom once they are kept."""

from typing import Final

from msgspec import Struct

from moothall.market.records import Change
from moothall.wire.agentchat.server import ServerMessage

BOUNTIES: Final = "#bounties"
DISCOVERY: Final = "#discovery"


class Notice(Struct, frozen=True, gc=False):
    """One message for the agents with these keys, as far as they are connected."""

    to: tuple[bytes, ...]
    message: ServerMessage


class ServiceLine(Struct, kw_only=True, frozen=True, gc=False):
    """Something for @server to say in a channel, if the channel exists. It quotes what the agent `about` wrote."""

    channel: str
    content: str
    about: str  # an agent's address
    buffered: bool = True
    spacing: float = 0.0  # seconds between two about one agent; of those that come too soon, the last is kept


class Outcome(Struct, kw_only=True, frozen=True, gc=False):
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...] = ()
    lines: tuple[ServiceLine, ...] = ()
