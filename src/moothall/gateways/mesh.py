"""The mesh behind its path of the port: what belongs together, and what operators see of it at GET /metrics."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall.gateways.room import Served
from moothall.hall.mesh.frames import SUBPROTOCOL
from moothall.hall.mesh.inbox import MemoryInboxes
from moothall.hall.mesh.room import MAX_MESSAGE, MeshRoom
from moothall.hall.mesh.stored_inbox import StoredInboxes
from moothall.hall.services import Services
from moothall.market.behaviour import ANOMALY_BOUNDS, Risk
from moothall.market.epoch_ends import EpochEnds
from moothall.market.mesh_desk import MeshDesk

MESH_PATH: Final = "/mesh"


class Mesh(NamedTuple):
    room: MeshRoom
    desk: MeshDesk
    epochs: EpochEnds
    inboxes: MemoryInboxes | StoredInboxes | None

    @property
    def served(self) -> Served:
        return Served(self.room, frozenset((SUBPROTOCOL,)), MAX_MESSAGE)

    def open(self, hall: Services) -> None:
        """Begin with what is due: deadlines, epochs and inboxes whose time came while the hall was closed."""
        self.desk.open()
        self.epochs.open(hall)
        if isinstance(self.inboxes, StoredInboxes):
            self.inboxes.open()


class MeshMetrics(Collector):
    """Reads the counts of the room and the desk when it is asked."""

    def __init__(self, mesh: Mesh) -> None:
        self._mesh = mesh

    def collect(self) -> Iterator[Metric]:
        room, desk = self._mesh.room, self._mesh.desk
        seen = room.statistics()
        yield GaugeMetricFamily(
            "moothall_mesh_connections", "Connections of mesh agents", seen["connections"]
        )
        yield GaugeMetricFamily("moothall_mesh_agents", "Keys that are connected", seen["agents"])
        yield GaugeMetricFamily("moothall_mesh_topics", "Named topics with subscribers", seen["topics"])
        received = CounterMetricFamily(
            "moothall_mesh_envelopes", "Envelopes that passed all checks, by type", labels=("type",)
        )
        for name, count in sorted(room.received.items()):
            received.add_metric((name,), count)
        yield received
        refused = CounterMetricFamily(
            "moothall_mesh_refused",
            "Envelopes and text frames that were refused, by fault",
            labels=("fault",),
        )
        for name, count in sorted(room.refused.items()):
            refused.add_metric((name,), count)
        yield refused
        yield CounterMetricFamily("moothall_mesh_relayed", "Envelopes put into outboxes", seen["relayed"])
        shared = CounterMetricFamily(
            "moothall_mesh_shared",
            "Envelopes to topics that went to other nodes, and that came from them",
            labels=("direction",),
        )
        shared.add_metric(("out",), seen["to_nodes"])
        shared.add_metric(("in",), seen["from_nodes"])
        yield shared
        unshared = CounterMetricFamily(
            "moothall_mesh_unshared",
            "Envelopes of other nodes that were dropped, by fault",
            labels=("fault",),
        )
        for name, count in sorted(room.other_nodes.dropped.items()):
            unshared.add_metric((name,), count)
        yield unshared
        yield CounterMetricFamily(
            "moothall_mesh_throttled", "Times a mesh connection had to wait for its limits", seen["waits"]
        )
        yield GaugeMetricFamily(
            "moothall_mesh_waiting", "Envelopes that wait for the store", seen["in_flight"]
        )
        conversations = GaugeMetricFamily(
            "moothall_mesh_conversations", "Conversations by state", labels=("state",)
        )
        for state, count in sorted(desk.counts.items()):
            conversations.add_metric((state,), count)
        yield conversations
        yield CounterMetricFamily(
            "moothall_mesh_unlogged",
            "Topic messages that were not logged, for a quota or a slow store",
            desk.recorder.skipped,
        )
        yield from self._risk()

    def _risk(self) -> Iterator[Metric]:
        risk = self._mesh.epochs.latest or Risk(epoch=0)
        yield GaugeMetricFamily(
            "moothall_mesh_systemic_risk",
            "Share of the last epoch's agents whose anomaly is above the flag level",
            risk.systemic,
        )
        anomaly = HistogramMetricFamily("moothall_mesh_anomaly", "Anomaly of the last epoch's agents")
        buckets = [
            (str(bound), float(agents)) for bound, agents in zip(ANOMALY_BOUNDS, risk.buckets, strict=True)
        ]
        anomaly.add_metric((), [*buckets, ("+Inf", float(risk.agents))], sum_value=risk.total)
        yield anomaly
