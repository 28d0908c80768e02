"""A gap: members of a channel may not have been told all that was said. They are told so."""

from typing import TYPE_CHECKING

from moothall.hall.channels import Channel
from moothall.wire.agentchat.names import SERVER
from moothall.wire.agentchat.server import Chat, Gap
from moothall.wire.outgoing import Outgoing

if TYPE_CHECKING:
    from moothall.hall.hall import Hall


def tell_gap(hall: "Hall", channel: Channel, reason: str) -> None:
    """To the members that are connected to this node: GAP, or a line of @server where a client does not know it."""
    now = hall.timestamp()
    line = Chat(
        ts=now,
        from_=SERVER,
        from_name="Server",
        to=channel.name,
        content=f"Messages may be missing here: {reason}. JOIN again to get the last ones",
    )
    in_words, typed = Outgoing(line), Outgoing(Gap(ts=now, channel=channel.name, reason=reason))
    for watcher in channel.watchers.values():
        watcher.link.put(typed if watcher.takes_gaps else in_words)
