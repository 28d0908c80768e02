"""The network of the mesh in a hall: built from the settings, and what operators see of it."""

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall import __version__
from moothall.gateways.listening import cannot_listen
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.room import MeshRoom
from moothall.hall.outside import Clock, Log
from moothall.identity import PrivateKey
from moothall.identity.keys import expanded
from moothall.network.limits import UNLIMITED
from moothall.network.peering import Peering, Statistics
from moothall.p2p.faults import MalformedAddress
from moothall.p2p.multiaddr import Multiaddr
from moothall.settings import Settings


def is_wanted(settings: Settings) -> bool:
    return settings.mesh_port is not None or bool(settings.mesh_peers)


def build(
    settings: Settings, key: PrivateKey, room: MeshRoom, own: OwnEnvelopes, clock: Clock, log: Log
) -> Peering:
    """The hall as a peer, with its own key. It is not open yet."""
    network = Peering(
        expanded(key),
        room,
        own,
        name=settings.server_name,
        version=__version__,
        time=clock.time,
        log=log,
        limits=UNLIMITED if settings.no_limits else None,
    )
    room.network = network
    return network


async def open_network(network: Peering, settings: Settings) -> None:
    """Raises SettingsError if the port is not to be had."""
    host, port = settings.host, settings.mesh_port
    listen = None if port is None else _address(host, port)
    try:
        await network.open(listen, map(Multiaddr.parse, settings.mesh_peers))
    except (OSError, UnicodeError) as error:
        advice = "; choose another with --mesh-port"
        raise cannot_listen(error, host, port or 0, " for peers of the mesh", advice) from None


def _address(host: str, port: int) -> Multiaddr:
    try:
        return Multiaddr.of_socket(host, port)
    except MalformedAddress:
        return Multiaddr("dns", host, port)


def network_report(network: Peering) -> dict[str, Any]:
    """For GET /health."""
    seen = network.statistics()
    return {
        "address": None if network.address is None else str(network.address),
        "peers": seen.host.peers,
        "unreachable": seen.unreachable,
        "halls": seen.halls,
        "topics": len(seen.host.gossip.meshes),
        "waiting_bytes": seen.host.waiting,
        "dropped": sum(_dropped(seen).values()),
    }


def _dropped(seen: Statistics) -> dict[str, int]:
    return {
        **seen.dropped,
        "slow peer": seen.host.dropped,
        "not published": seen.outbox.counts["unpublished"],
    }


class NetworkMetrics(Collector):
    """Reads the counts of the network when it is asked."""

    def __init__(self, network: Peering, room: MeshRoom) -> None:
        self._network = network
        self._border = room.border

    def collect(self) -> Iterator[Metric]:
        seen = self._network.statistics()
        host, routes = seen.host, seen.routes
        directions = {"outbound": seen.outbound, "inbound": host.peers - seen.outbound}
        yield _gauges("peers", "Peers that are connected, by who dialled", "direction", directions)
        yield _gauge("unreachable", "Configured peers without a connection", seen.unreachable)
        yield _gauge("topics", "Topics that this hall is in", len(host.gossip.meshes))
        yield _gauge("waiting_bytes", "Bytes that wait for and from peers", host.waiting)
        yield _gauge("waiting", "Bilateral envelopes without an ACK", seen.outbox.waiting)
        yield _gauge("halls", "Halls that announce agents", seen.halls)
        yield _gauge("announced", "Agents of this hall that it announces", seen.announced)
        ways = {
            "connection": routes.connections,
            "hall": routes.hosted,
            "conversation": routes.conversations,
            "beacon": routes.beacons,
        }
        yield _gauges("routes", "Agents that a way is known to", "way", ways)
        yield _counts("envelopes", "Envelopes from and to peers, by way", "way", seen.counts)
        yield _counts("received", "Envelopes of peers that passed all checks", "type", self._border.received)
        yield _counts("faults", "Envelopes of peers that the room refused", "fault", self._border.dropped)
        yield _counts("messages", "Messages of topics, by outcome", "outcome", host.outcomes)
        yield _counts("dropped", "Envelopes and messages dropped", "reason", _dropped(seen))
        yield _count("retried", "Bilateral envelopes sent once more", seen.outbox.counts["retried"])
        yield _count("refused", "Connections over a limit", host.refused)


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"moothall_network_{name}", help_text, value)


def _count(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(f"moothall_network_{name}", help_text, value)


def _gauges(name: str, help_text: str, label: str, values: dict[str, int]) -> Metric:
    family = GaugeMetricFamily(f"moothall_network_{name}", help_text, labels=(label,))
    for key in sorted(values):
        family.add_metric((key,), values[key])
    return family


def _counts(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"moothall_network_{name}", help_text, labels=(label,))
    for key in sorted(values):
        family.add_metric((key,), values[key])
    return family
