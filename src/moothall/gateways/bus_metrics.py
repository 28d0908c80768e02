"""What `/metrics` and `/health` say of the bus. Only a hall with a bus has them."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall.hall.cluster.bus import Traffic


class MeteredBus(Protocol):
    @property
    def is_up(self) -> bool: ...

    @property
    def traffic(self) -> Traffic: ...


class BusMetrics(Collector):
    def __init__(self, bus: MeteredBus) -> None:
        self._bus = bus

    def collect(self) -> Iterator[Metric]:
        traffic = self._bus.traffic
        yield GaugeMetricFamily("moothall_bus_up", "1 while the bus is up", self._bus.is_up)
        yield CounterMetricFamily("moothall_bus_packets_in", "Packets of other nodes", traffic.received)
        yield CounterMetricFamily("moothall_bus_packets_out", "Packets to other nodes", traffic.published)
        yield CounterMetricFamily(
            "moothall_bus_packets_lost", "Packets lost because the bus was down", traffic.lost
        )
        yield CounterMetricFamily(
            "moothall_bus_packets_refused", "Packets too large, or with a part missing", traffic.refused
        )
        yield CounterMetricFamily(
            "moothall_bus_overruns",
            "Times that the bus went down because one side was too slow",
            traffic.overruns,
        )
        yield CounterMetricFamily("moothall_bus_connections", "Connections to the bus", traffic.connections)


def bus_report(bus: MeteredBus) -> str:
    return "up" if bus.is_up else "down"
