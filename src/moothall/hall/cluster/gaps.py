"""A gap: members of a channel may not have been told all that was said. They are told so."""

from typing import TYPE_CHECKING

from moothall.hall.channels import Channel
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat
from moothall.wire.outgoing import Outgoing

if TYPE_CHECKING:
    from moothall.hall.hall import Hall


def tell_gap(hall: "Hall", channel: Channel, reason: str) -> None:
    """To the members that are connected to this node."""
    now = hall.timestamp()
    line = Chat(
        ts=now,
        from_=SERVER,
        from_name="Server",
        to=channel.name,
        content=f"Messages may be missing here: {reason}. JOIN again to get the last ones",
    )
    outgoing = Outgoing(line)
    for watcher in channel.watchers.values():
        watcher.link.put(outgoing)
