"""What `/metrics` and `/health` say of the bus. Only a hall with a bus has them."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall.hall.cluster.bus import Traffic
from moothall.hall.hall import Hall


class MeteredBus(Protocol):
    @property
    def is_up(self) -> bool: ...

    @property
    def traffic(self) -> Traffic: ...


class BusMetrics(Collector):
    def __init__(self, bus: MeteredBus, hall: Hall) -> None:
        self._bus = bus
        self._hall = hall

    def collect(self) -> Iterator[Metric]:
        traffic, cluster = self._bus.traffic, self._hall.cluster
        yield GaugeMetricFamily(
            "moothall_bus_up",
            "1 while this node reaches the others",
            _is_up(self._bus, self._hall),
        )
        yield CounterMetricFamily("moothall_bus_packets_in", "Packets of other nodes", traffic.received)
        yield CounterMetricFamily("moothall_bus_packets_out", "Packets to other nodes", traffic.published)
        yield CounterMetricFamily(
            "moothall_bus_packets_lost", "Packets lost because the bus was down", traffic.lost
        )
        yield CounterMetricFamily(
            "moothall_bus_packets_refused",
            "Packets too large, with a part missing, or that cannot be read",
            traffic.refused + (cluster.post.refused if cluster is not None else 0),
        )
        yield CounterMetricFamily(
            "moothall_bus_overruns",
            "Times that the bus went down because one side was too slow",
            traffic.overruns,
        )
        yield CounterMetricFamily("moothall_bus_connections", "Connections to the bus", traffic.connections)
        yield GaugeMetricFamily(
            "moothall_shared_addresses",
            "Addresses with a part of their budget here, because they spend it at other nodes",
            len(cluster.addresses.portions) if cluster is not None else 0,
        )


def bus_report(bus: MeteredBus, hall: Hall) -> str:
    return "up" if _is_up(bus, hall) else "down"


def _is_up(bus: MeteredBus, hall: Hall) -> bool:
    """NATS may be there, and the node none of this hall's: another process has its name."""
    return bus.is_up and (hall.cluster is None or hall.cluster.is_connected)
