"""What the log says of configured peers: when they are reached, and when they cannot be reached."""

from collections.abc import Iterable
from typing import Final

from moothall.hall.outside import Log
from moothall.network.host import KeptPeer
from moothall.p2p.multiaddr import Multiaddr

COMPLAINT_PERIOD: Final = 600_000  # ms between two log lines about one configured peer


class Watch:
    def __init__(self, log: Log) -> None:
        self._log = log
        self._reached: set[Multiaddr] = set()
        self._complaints: dict[Multiaddr, int] = {}  # when the log was told of each that is away

    def look(self, peers: Iterable[KeptPeer], now: int) -> None:
        """`now` is milliseconds that never go back."""
        for kept in peers:
            told_at = self._complaints.get(kept.address)
            if kept.is_connected:
                if told_at is not None or kept.address not in self._reached:
                    self._complaints.pop(kept.address, None)
                    self._reached.add(kept.address)
                    self._log.info("mesh_peer_reached", address=str(kept.address))
            elif kept.error and (told_at is None or now - told_at >= COMPLAINT_PERIOD):
                self._complaints[kept.address] = now
                self._log.warning("mesh_peer_unreachable", address=str(kept.address), error=kept.error)
