"""The rows of all rooms, in the order of the docs. A room that is turned off has none."""

from moothall.court import api_cases
from moothall.court.desk import CourtDesk
from moothall.gateways.api import operators
from moothall.gateways.mesh import Mesh
from moothall.gateways.metrics_history import MetricsHistory
from moothall.hall import api_channels
from moothall.hall.api_routes import Row
from moothall.hall.mesh import api_agents as api_mesh_agents
from moothall.market import api_agents, api_deals, api_mesh
from moothall.market.desk import MarketDesk


def rows(market: MarketDesk, court: CourtDesk, mesh: Mesh | None, history: MetricsHistory) -> tuple[Row, ...]:
    return (
        *api_channels.ROUTES,
        *api_agents.ROUTES,
        *api_deals.routes(market),
        *api_cases.routes(court),
        *(() if mesh is None else (*api_mesh_agents.routes(mesh.room), *api_mesh.routes(mesh.desk))),
        *operators.routes(history),
    )
