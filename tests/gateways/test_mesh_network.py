"""The network in a hall: what the settings make of it. Whole halls are in `tests/test_mesh_network.py`."""

import pytest

from moothall.gateways.mesh_network import is_wanted
from moothall.settings import Settings


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        (Settings(), False),
        (Settings(mesh_port=0), True),
        (Settings(mesh_port=9000), True),
        (Settings(mesh_peers=("/ip4/192.0.2.1/tcp/9000",)), True),
    ],
)
def test_a_hall_is_on_the_network_if_it_has_a_port_or_a_peer(settings: Settings, wanted: bool) -> None:
    assert is_wanted(settings) == wanted
