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
    """Something for @server to say in a channel, if the channel exists."""

    channel: str
    content: str
    buffered: bool = True


class Outcome(Struct, kw_only=True, frozen=True, gc=False):
    changes: tuple[Change, ...]
    notices: tuple[Notice, ...] = ()
    lines: tuple[ServiceLine, ...] = ()
