"""How many members each channel has: homes tell it to all nodes, so that every node can list all channels.

Which channels there are, and of what kind, all nodes know from the registry (`homes`).
"""

from typing import TYPE_CHECKING, ClassVar, Final

from moothall.hall.cluster.replicas import Role
from moothall.hall.cluster.rooms import ChannelRoom
from moothall.wire.bus import EVERY_NODE, BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.forwarding import Forwarding

MAX_LISTED: Final = 1000  # channels in one message


class Counts(BusMessage, frozen=True):
    KIND: ClassVar = "channel-counts"

    members: dict[str, int]  # by channel
    asks: bool = False  # the other nodes tell this one all of theirs


class Directory:
    def __init__(self, forwarding: "Forwarding") -> None:
        self._forwarding = forwarding
        self._hall = forwarding.hall
        self._cluster = forwarding.cluster
        self._newcomers: set[str] = set()  # nodes that have joined, or have asked, since the last tick
        self._cluster.handle(Counts, self._told)
        self._cluster.on_change(self._reach)

    def tick(self) -> None:
        """Tell what has changed. While people or the network of peers watch this node, it follows all public
        channels."""
        changed: dict[str, int] = {}
        for room in self._own():
            count = len(room.channel.members)
            if count != room.count_told:
                room.count_told = room.channel.counted = count
                changed[room.channel.name] = count
        if changed:
            self._send(None, changed)
        self._tell_newcomers()
        if self._forwarding.homes.may_find_losses:
            self._forget_lost()
        if self._cluster.follows_public:
            self._watch()

    def introduce(self, node: str) -> None:
        """A node has joined, or has asked: the next tick tells it all."""
        self._newcomers.add(node)

    def _tell_newcomers(self) -> None:
        """Together with what is told to all: the two may come in any order, and say the same."""
        newcomers, self._newcomers = sorted(self._newcomers), set()
        counts = {room.channel.name: len(room.channel.members) for room in self._own()} if newcomers else {}
        for node in newcomers:
            self._send(node, counts)

    def _own(self) -> list[ChannelRoom]:
        logs = self._forwarding.homes.logs.values()
        rooms = (log.room for log in logs if log.role is Role.HOME)
        return [room for room in rooms if isinstance(room, ChannelRoom)]

    def _send(self, node: str | None, counts: dict[str, int]) -> None:
        names = list(counts)
        for start in range(0, len(names), MAX_LISTED):
            message = Counts({name: counts[name] for name in names[start : start + MAX_LISTED]})
            if node is None:
                self._cluster.publish(EVERY_NODE, message)
            else:
                self._cluster.send(node, message)

    def _reach(self, is_connected: bool) -> None:
        """What other nodes told meanwhile is lost."""
        if is_connected:
            self._cluster.publish(EVERY_NODE, Counts({}, asks=True))

    def _told(self, origin: Origin, message: Counts) -> None:
        if message.asks:
            self.introduce(origin.node)
        for name, count in message.members.items():
            channel = self._hall.channels.get(name)
            if channel is not None:
                channel.counted = count

    def _forget_lost(self) -> None:
        """Channels whose home died with all their members: no node tells that they are empty."""
        for channel in self._hall.channels:
            if channel.counted and not channel.members and self._forwarding.homes.is_lost(channel.name):
                channel.counted = 0

    def _watch(self) -> None:
        homes = self._forwarding.homes
        for channel in list(self._hall.channels):
            if channel.is_public and channel.name not in homes.logs and channel.name in homes.entries:
                homes.want(channel.name)
