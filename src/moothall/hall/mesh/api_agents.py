"""Agents of the mesh in the HTTP API: those that are connected and sent a BEACON, which all others get to see."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from moothall.hall.api_pages import page_by
from moothall.hall.api_routes import ApiRoute, Listing, Paged, ReadCost, Row, Viewer
from moothall.hall.costs import LOOKED_AT_FOR_ONE
from moothall.hall.roster import Present
from moothall.hall.services import Services
from moothall.hall.session import HERE
from moothall.hall.wires import MESH

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom


class MeshAgentShown(Struct, kw_only=True):
    """`key` is its id on the mesh, in hex. `id` is the one that it has in the hall; null before it has one."""

    key: str
    id: str | None
    name: str
    proven: bool
    presence: str


class MeshAgentList(Listing):
    items: list[MeshAgentShown]


def routes(room: "MeshRoom") -> tuple[Row, ...]:
    def list_agents(hall: Services, viewer: Viewer, query: Paged) -> MeshAgentList:
        """By key."""
        page, more = page_by(lambda named: named[0].hex(), _named(hall, room), query)
        items = [
            _shown(hall, key, name, proven=room.connections.is_proven(key))
            if agent is None
            else _shown_from_roster(agent, key)
            for key, name, agent in page
        ]
        return MeshAgentList(items=items, next=more)

    def looked_at(hall: Services, query: Paged) -> int:
        everyone = len(hall.roster) if room.handing_on.has_nodes else 0
        return query.limit + (len(room.connections) + everyone) // LOOKED_AT_FOR_ONE

    return (
        ApiRoute(
            "mesh/agents",
            list_agents,
            Paged,
            MeshAgentList,
            "Agents of the mesh that are connected and sent a BEACON; by key.",
            ReadCost(looked_at),
        ),
    )


def _named(hall: Services, room: "MeshRoom") -> Iterator[tuple[bytes, str, Present | None]]:
    """Agents of this node, and those of other nodes as the roster has them."""
    here = set()
    for key, name in room.connections.named():
        here.add(key)
        yield key, name, None
    if room.handing_on.has_nodes:
        for agent in hall.roster.everyone():
            if agent.via == MESH and agent.node != HERE and agent.claimed_key is not None:
                key = agent.claimed_key.raw
                if key not in here:
                    here.add(key)
                    yield key, agent.name, agent


def _shown_from_roster(agent: Present, key: bytes) -> MeshAgentShown:
    return MeshAgentShown(
        key=key.hex(), id=agent.address, name=agent.name, proven=agent.verified, presence=agent.presence
    )


def _shown(hall: Services, key: bytes, name: str, *, proven: bool) -> MeshAgentShown:
    agent = next(iter(hall.roster.bearers(key)), None) or hall.roster.holder(key)
    return MeshAgentShown(
        key=key.hex(),
        id=None if agent is None else agent.address,
        name=name,
        proven=proven,
        presence="online" if agent is None else agent.presence,
    )
