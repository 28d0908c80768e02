"""The rows of all rooms, in the order of the docs."""

from moothall.hall import api_channels
from moothall.hall.api_routes import Row
from moothall.market import api_agents


def rows() -> tuple[Row, ...]:
    return (*api_channels.ROUTES, *api_agents.ROUTES)
