"""Claims on the floor that a new home takes over, or that were made while nodes did not reach each other.

All nodes hear of an agent that loses its precedence. Else it would keep it in channels that have another home.
"""

from math import isfinite
from typing import TYPE_CHECKING, ClassVar

from moothall.hall.channels import Channel
from moothall.hall.cluster.events import Claimed
from moothall.hall.floor import Decision, address_of, plan_expiry, yield_notice
from moothall.wire.agentchat import server
from moothall.wire.bus import EVERY_NODE, BadPacket, BusMessage, Origin

if TYPE_CHECKING:
    from moothall.hall.cluster.cluster import Cluster
    from moothall.hall.hall import Hall


class FloorLapse(BusMessage, frozen=True):
    """An agent let a claim expire, and had its precedence until now."""

    KIND: ClassVar = "floor-lapse"

    id: str
    address: str | None
    age: float  # of the claim, in seconds


class SharedLapses:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        cluster.handle(FloorLapse, self._hear)

    def tell(self, agent_id: str, address: str | None, age: float) -> None:
        self._cluster.publish(EVERY_NODE, FloorLapse(agent_id, address, age))

    def _hear(self, origin: Origin, message: FloorLapse) -> None:
        if not (isfinite(message.age) and message.age >= 0):
            raise BadPacket("A node told of a claim with an age that is none")
        hall = self._cluster.hall
        now = hall.now()
        hall.floor.hear_lapse(message.id, message.address, now - message.age, now)


def restore(hall: "Hall", channel: Channel, claim: Claimed) -> Decision:
    """The claim counts here from now on, unless another one ranks before it. Its time begins anew."""
    decision = hall.floor.claim(
        channel.name,
        claim.msg_id,
        claim.holder,
        claim.started_at,
        hall.now(),
        is_human=claim.is_human,
        address=claim.address,
    )
    plan_expiry(hall)
    return decision


def arbitrate(hall: "Hall", channel: Channel, claim: Claimed) -> None:
    """A claim that another node has granted meanwhile: of two, the one with the lower rank must yield."""
    decision = restore(hall, channel, claim)
    winner, now = decision.claim, hall.timestamp()
    loser_id = decision.displaced if decision.granted else claim.holder
    if decision.granted:
        if channel.log is not None:
            channel.log.claimed(claim.msg_id, winner)
        holder = hall.roster.agents.get(winner.holder)
        notice = server.FloorClaimed(
            ts=now,
            msg_id=claim.msg_id,
            channel=channel.name,
            holder=f"@{winner.holder}",
            holder_name=holder.name if holder is not None else winner.holder,
            started_at=winner.started_at,
        )
        hall.delivery.broadcast(channel, notice, but=holder)
    loser = hall.roster.agents.get(loser_id or "")
    if loser is not None and loser.id != winner.holder:
        precedence = hall.floor.precedence(loser.id, address_of(loser.session), hall.now())
        hall.delivery.tell(loser, yield_notice(now, channel, claim.msg_id, winner, precedence))
