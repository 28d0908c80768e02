"""`/metrics` of a node, for Prometheus. What each number means is in docs/metrics.md."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from moothall.node import Node
from moothall.node_api.sockets import Sockets


class NodeMetrics(Collector):
    def __init__(self, node: Node, sockets: Sockets) -> None:
        self._node = node
        self._sockets = sockets

    def collect(self) -> Iterator[Metric]:
        numbers = self._node.statistics()
        for name, text, value in (
            ("peers", "Connected peers.", numbers.peers),
            ("topics", "Topics that the node has joined.", numbers.topics),
            ("agents", "Agents whose BEACON was seen.", numbers.agents),
            ("hosted_agents", "Sessions of hosted agents.", numbers.hosted),
            ("pending_envelopes", "Envelopes that have no ACK yet.", numbers.pending),
            ("websockets", "Open WebSockets of the API.", len(self._sockets)),
        ):
            yield GaugeMetricFamily(f"mesh_node_{name}", text, value)
        for name, text, value in (
            ("received", "Inbound envelopes that were taken.", numbers.received),
            ("sent", "Envelopes that were sent.", numbers.sent),
            (
                "out_of_order",
                "Inbound envelopes that their conversation did not allow.",
                numbers.out_of_order,
            ),
            ("limited", "Inbound envelopes over a limit.", numbers.limited),
            ("retried", "Envelopes that were sent again because no ACK came.", numbers.retried),
            ("delivery_failed", "Envelopes that no peer acknowledged.", numbers.delivery_failed),
            ("store_failed", "Inbound envelopes that the disk did not take.", numbers.store_failed),
        ):
            yield CounterMetricFamily(f"mesh_node_{name}", text, value)
        refused = CounterMetricFamily(
            "mesh_node_refused", "Inbound envelopes, by the rule that they break.", labels=("fault",)
        )
        for fault in sorted(numbers.refused):
            refused.add_metric((fault,), numbers.refused[fault])
        yield refused


class MetricsRoute:
    def __init__(self, node: Node, sockets: Sockets) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(NodeMetrics(node, sockets))
        ProcessCollector(namespace="mesh_node", registry=self._registry)

    async def __call__(self, request: Request) -> Response:
        return Response(
            generate_latest(self._registry), media_type="text/plain; version=0.0.4; charset=utf-8"
        )
