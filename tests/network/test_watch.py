"""What the log says of configured peers."""

from moothall.network.host import KeptPeer
from moothall.network.watch import COMPLAINT_PERIOD, Watch
from moothall.p2p.multiaddr import Multiaddr

ADDRESS = Multiaddr.parse("/ip4/192.0.2.1/tcp/9000")
DIALLED = KeptPeer(ADDRESS, None, False, "")
AWAY = KeptPeer(ADDRESS, None, False, "Connection refused.")
HERE = KeptPeer(ADDRESS, None, True, "")


class Lines:
    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **facts: object) -> None:
        self.said.append((event, facts))

    warning = info


def test_a_peer_is_reached_goes_away_and_is_back() -> None:
    lines = Lines()
    watch = Watch(lines)
    reached = ("mesh_peer_reached", {"address": str(ADDRESS)})
    away = ("mesh_peer_unreachable", {"address": str(ADDRESS), "error": AWAY.error})
    for now, peer, said in (
        (0, DIALLED, []),
        (1, HERE, [reached]),
        (2, HERE, []),
        (3, DIALLED, []),  # a connection that ends for a moment
        (4, HERE, []),
        (5, AWAY, [away]),
        (6, AWAY, []),
        (5 + COMPLAINT_PERIOD, AWAY, [away]),
        (6 + COMPLAINT_PERIOD, HERE, [reached]),
        (7 + COMPLAINT_PERIOD, AWAY, [away]),
    ):
        watch.look([peer], now)
        assert lines.said == said
        lines.said.clear()
