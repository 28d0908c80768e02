"""What the supervising process and its nodes say to each other."""

from pathlib import Path

from moothall.processes.control import decode_to_node, line, orders, settings_of
from moothall.settings import Settings
from moothall.settings.limits import Rate


def test_settings_reach_a_node_as_they_are() -> None:
    settings = Settings(
        data_dir=Path("/data"),
        cert=Path("hall.pem"),
        admin_key="secret",
        rate_message=Rate(5, 0.5),
        default_channels=("#general", "#agents"),
        mesh_peers=("/ip4/192.0.2.1/tcp/9000",),
    )
    given = decode_to_node(line(orders("node1", settings)))
    assert given.name == "node1"
    assert settings_of(given) == settings
    assert settings_of(orders("", Settings())) == Settings()
