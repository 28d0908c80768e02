"""A packet to `swarm:` from another node, for the members of the channel that are connected to this one."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from moothall.hall.channels import Channel
from moothall.hall.cluster.events import Swarm
from moothall.hall.cluster.remote import read_line
from moothall.hall.packet_link import PacketLink
from moothall.wire.outgoing import Outgoing

if TYPE_CHECKING:
    from moothall.hall.hall import Hall


def tell_members(hall: "Hall", channel: Channel, swarm: Swarm) -> None:
    """Each connection gets it once, and none that an agent in `told` has."""
    line = read_line(swarm.text) if swarm.text else None
    packet = swarm.packet or (line.packet if line is not None else None)
    told = set(swarm.told)
    relays = {agent.relay for each in told if (agent := hall.roster.agents.get(each)) is not None}
    as_line = Outgoing(line) if line is not None else None
    for relay in channel.relays:
        if relay in relays:
            continue
        if isinstance(relay, PacketLink):
            if packet is not None:
                relay.put_packet(packet)
        elif as_line is not None:
            relay.put(as_line)
    if line is not None:
        for watcher in channel.watchers.values():
            if watcher.id not in told:
                hall.delivery.tell(watcher, replace(line, to=watcher.address))
