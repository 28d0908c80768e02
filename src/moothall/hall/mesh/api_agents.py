"""Agents of the mesh in the HTTP API: those that are connected and sent a BEACON, which all others get to see."""

from typing import TYPE_CHECKING

from msgspec import Struct

from moothall.hall.api_pages import page_by
from moothall.hall.api_routes import ApiRoute, Listing, Paged, ReadCost, Row, Viewer
from moothall.hall.costs import LOOKED_AT_FOR_ONE
from moothall.hall.services import Services

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
        page, more = page_by(lambda named: named[0].hex(), room.connections.named(), query)
        return MeshAgentList(
            items=[_shown(hall, key, name, proven=room.connections.is_proven(key)) for key, name in page],
            next=more,
        )

    def looked_at(hall: Services, query: Paged) -> int:
        return query.limit + len(room.connections) // LOOKED_AT_FOR_ONE

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


def _shown(hall: Services, key: bytes, name: str, *, proven: bool) -> MeshAgentShown:
    agent = next(iter(hall.roster.bearers(key)), None) or hall.roster.holder(key)
    return MeshAgentShown(
        key=key.hex(),
        id=None if agent is None else agent.address,
        name=name,
        proven=proven,
        presence="online" if agent is None else agent.presence,
    )
