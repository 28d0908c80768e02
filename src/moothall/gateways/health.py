"""GET /health, /metrics and /api/connections: what operators and load balancers ask (agentchat wire 1.6)."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from moothall import __version__
from moothall.compiled import build
from moothall.court.desk import CourtDesk
from moothall.errors import RateLimited, Refusal
from moothall.gateways.bus_metrics import BusMetrics, MeteredBus, bus_report
from moothall.gateways.gallery import GalleryMetrics
from moothall.gateways.gathering import Gathering
from moothall.gateways.keep_port import KeepPort
from moothall.gateways.lag import LagMeter
from moothall.gateways.mesh import Mesh, MeshMetrics
from moothall.gateways.mesh_network import NetworkMetrics, network_report
from moothall.gateways.port import Port
from moothall.hall.access import Doorkeeper
from moothall.hall.admin import check_key
from moothall.hall.gallery import Gallery
from moothall.hall.hall import Hall
from moothall.hall.session import Tier
from moothall.hall.spending import TOTAL, day_of
from moothall.identity.certificates import timestamp_text
from moothall.market.courier import Courier
from moothall.market.desk import MarketDesk
from moothall.network.peering import Peering
from moothall.store.opening import Store
from moothall.wire.http import Response
from moothall.wire.http_routes import Asked, Route

JSON: Final = "application/json"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"
FANOUT_BOUNDS: Final = tuple(2**exponent for exponent in range(15))
TIERS: Final = {Tier.STRANGER: "stranger", Tier.ANONYMOUS: "anonymous", Tier.VERIFIED: "verified"}


class HallMetrics(Collector):
    """Reads the hall's own counts when it is asked, so that counting costs the hot path nothing more."""

    def __init__(self, hall: Hall, port: Port, lag: LagMeter, keep: KeepPort | None) -> None:
        self._hall = hall
        self._port = port
        self._lag = lag
        self._keep = keep

    def collect(self) -> Iterator[Metric]:
        tally = self._hall.tally
        yield self._connections()
        yield _gauge("moothall_agents", "Agents of this node", self._hall.roster.count_here())
        shown = sum(channel.is_shown for channel in self._hall.channels)
        yield _gauge("moothall_channels", "Channels", shown)
        yield _counts("moothall_messages_received", "Valid messages by type", "type", self._hall.received)
        yield _count("moothall_messages_malformed", "Messages that were not JSON", tally.malformed)
        yield _count("moothall_frames_sent", "Frames handed to the network", self._port.frames_sent)
        yield _counts("moothall_refusals", "Commands answered with ERROR, by code", "code", tally.refused)
        yield _count(
            "moothall_throttled",
            "Pauses in reading from connections over their limits",
            tally.throttled,
        )
        yield _counts("moothall_security_events", "Security events by kind", "event", tally.security)
        yield _counts("moothall_redactions", "Secrets taken out of messages, by kind", "kind", tally.redacted)
        yield self._fanout()
        yield _gauge("moothall_outbox_bytes", "Bytes waiting for slow readers", self._port.waiting_bytes)
        yield _gauge("moothall_outbox_peak_bytes", "Most bytes one reader made wait", self._port.peak_backlog)
        yield _count(
            "moothall_outbox_overflows", "Readers closed because they were too slow", self._port.overflows
        )
        yield _gauge("moothall_loop_lag_seconds", "Event loop lag, last", self._lag.last)
        yield _gauge(
            "moothall_loop_lag_max_seconds", "Event loop lag, worst of the last minute", self._lag.worst
        )
        yield _gauge("moothall_appointments", "Deadlines ahead", len(self._hall.agenda))
        yield _gauge("moothall_floor_claims", "Claims that stand", len(self._hall.floor))

    def _connections(self) -> Metric:
        family = GaugeMetricFamily(
            "moothall_connections", "Open connections by wire and tier", labels=("wire", "tier")
        )
        counts = dict.fromkeys(TIERS, 0)
        for session in self._hall.sessions:
            counts[session.tier] += 1
        for tier, name in TIERS.items():
            family.add_metric(("agentchat", name), counts[tier])
        if self._keep is not None:
            registered = self._keep.registered_connections
            family.add_metric(("keep", TIERS[Tier.STRANGER]), self._keep.connections - registered)
            family.add_metric(("keep", TIERS[Tier.ANONYMOUS]), registered)
        return family

    def _fanout(self) -> Metric:
        fanout = self._hall.tally.fanout
        family = HistogramMetricFamily("moothall_fanout_members", "Members a channel message went to")
        buckets = [
            (str(bound), float(sum(count for members, count in fanout.items() if members <= bound)))
            for bound in FANOUT_BOUNDS
        ]
        buckets.append(("+Inf", float(sum(fanout.values()))))
        family.add_metric((), buckets, sum_value=sum(members * count for members, count in fanout.items()))
        return family


class StoreMetrics(Collector):
    def __init__(self, store: Store, desk: MarketDesk, court: CourtDesk) -> None:
        self._store = store
        self._desk = desk
        self._court = court

    def collect(self) -> Iterator[Metric]:
        statistics = self._store.statistics()
        yield _gauges("moothall_proposals", "Deals by status", "status", self._desk.counts)
        yield _gauges("moothall_cases", "Court cases by phase", "phase", self._court.counts)
        yield _gauge("moothall_store_waiting", "Commands waiting for the store", statistics.waiting)
        yield _count("moothall_store_units", "Commands the store carried out or refused", statistics.units)
        yield _count("moothall_store_commits", "Commits: each serves all that waited", statistics.commits)
        yield _count("moothall_store_commit_seconds", "Time spent in commits", statistics.commit_seconds)
        yield _count("moothall_store_failures", "Commands the database did not keep", statistics.failed)


class HookMetrics(Collector):
    """Of all listeners together: their addresses may be secrets, and /metrics needs no key."""

    def __init__(self, hall: Hall, courier: Courier) -> None:
        self._hall = hall
        self._courier = courier

    def collect(self) -> Iterator[Metric]:
        courier = self._courier
        oldest = courier.waiting.oldest
        age = 0.0 if oldest is None else max(0.0, self._hall.clock.time() - oldest / 1000)
        yield _gauge("moothall_hooks_waiting", "Events not delivered yet", courier.waiting.events)
        yield _gauge("moothall_hooks_oldest_seconds", "Age of the oldest of them", age)
        yield _count("moothall_hooks_delivered", "Events that a listener took", courier.delivered)
        yield _count("moothall_hooks_failures", "Attempts that failed", courier.failures)
        yield _count("moothall_hooks_given_up", "Events that a listener never took", courier.given_up)


class SpendingMetrics(Collector):
    """Sums and counts only: /metrics names no agent, and no agent can make up labels. ADMIN_BUDGET has the keys."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall

    def collect(self) -> Iterator[Metric]:
        hall, spending = self._hall, self._hall.spending
        spending.look(hall)  # for the next time: other halls on the store count too
        sums = spending.known(day_of(hall.timestamp()))
        agents = hall.roster.agents.values()
        workers = sum(agent.budget is not None and not agent.session.is_remote for agent in agents)
        yield _gauge("moothall_workers", "Agents that tell what they spend", workers)
        yield _gauge("moothall_tokens_spent_today", "Tokens that workers spent since 0:00 UTC", sums.total)
        cap = spending.caps.of(TOTAL)
        left = GaugeMetricFamily(
            "moothall_tokens_left_today", "Tokens left of the total cap, if there is one"
        )
        if cap is not None:
            left.add_metric((), max(0, cap - sums.total))
        yield left
        yield _counts("moothall_budget_reports", "Reports of spending", "outcome", spending.outcomes)
        over = [key for key, spent in sums.by_key.items() if spent > (spending.caps.of(key) or 0)]
        yield _gauge("moothall_capped_keys", "Keys with a cap of their own", len(spending.caps.keys))
        yield _gauge("moothall_keys_over_cap", "Of these, keys that spent more today", len(over))


class KeepMetrics(Collector):
    def __init__(self, keep: KeepPort) -> None:
        self._keep = keep

    def collect(self) -> Iterator[Metric]:
        keep, room = self._keep, self._keep.room
        yield _gauge("moothall_keep_identities", "Identities of keep clients", len(room.registry))
        yield _count("moothall_keep_packets", "Packets whose signature held", room.packets)
        yield _count("moothall_keep_forwarded", "Packets passed on to an agent", room.forwarded)
        yield _counts("moothall_keep_dropped", "Packets dropped, by reason", "reason", room.dropped)
        yield _count(
            "moothall_keep_throttled", "Times a client had to wait for its rate", keep.lines.throttled
        )
        yield _gauge("moothall_keep_outbox_bytes", "Bytes waiting for slow keep clients", keep.waiting_bytes)
        yield _count(
            "moothall_keep_overflows", "Keep clients closed because they read nothing", keep.overflows
        )


def routes(
    hall: Hall,
    port: Port,
    lag: LagMeter,
    desk: MarketDesk,
    court: CourtDesk,
    store: Store,
    courier: Courier,
    keep: KeepPort | None = None,
    mesh: Mesh | None = None,
    network: Peering | None = None,
    gallery: Gallery | None = None,
    gathering: Gathering | None = None,
    bus: MeteredBus | None = None,
) -> tuple[Route, ...]:
    registry = CollectorRegistry()
    registry.register(HallMetrics(hall, port, lag, keep))
    if keep is not None:
        registry.register(KeepMetrics(keep))
    if mesh is not None:
        registry.register(MeshMetrics(mesh))
        if network is not None:
            registry.register(NetworkMetrics(network, mesh.room))
    if gallery is not None:
        registry.register(GalleryMetrics(gallery))
    if bus is not None:
        registry.register(BusMetrics(bus, hall))
    registry.register(StoreMetrics(store, desk, court))
    registry.register(HookMetrics(hall, courier))
    registry.register(SpendingMetrics(hall))
    ProcessCollector(namespace="moothall", registry=registry)
    started = hall.clock.time()

    def health(asked: Asked) -> Response:
        return _json(200, health_report(hall, desk, started, mesh, network, bus))

    if gathering is not None:
        gathering.offer(lambda: generate_latest(registry))

    def metrics(asked: Asked) -> Response | None:
        if gathering is None:
            return Response(200, generate_latest(registry), METRICS)
        gathering.ask(lambda text: asked.reply(Response(200, text, METRICS)))
        return None

    def connections(asked: Asked) -> Response:
        given = asked.request.headers.get("x-admin-key")
        if given is None:
            # No guess, so not counted: any web page can make its reader's browser send this.
            return _json(401, {"error": "Unauthorized"})
        try:
            check_key(hall, asked.ip, "/api/connections", Doorkeeper.check_admin, given)
        except RateLimited as refusal:
            return _json(429, {"error": refusal.message})
        except Refusal:
            return _json(401, {"error": "Unauthorized"})
        return _json(200, connection_report(hall))

    # What these show does not depend on the page that asks, which cannot read it.
    return (
        # Load balancers ask under names of their own. It shows the hall's name, its version, and counts.
        Route("/health", health, any_host=True, any_origin=True),
        Route("/metrics", metrics, any_origin=True),
        Route("/api/connections", connections, any_origin=True),
    )


def health_report(
    hall: Hall,
    desk: MarketDesk,
    started: float,
    mesh: Mesh | None = None,
    network: Peering | None = None,
    bus: MeteredBus | None = None,
) -> dict[str, object]:
    now = hall.clock.time()
    report: dict[str, object] = {
        "status": "healthy",
        "server": hall.settings.server_name,
        "version": __version__,
        "uptime_seconds": int(now - started),
        "started_at": _iso(started),
        "agents": {
            "connected": len(hall.roster),
            "with_identity": len(hall.roster.by_key),
        },
        "channels": {
            "total": sum(channel.is_shown for channel in hall.channels),
            "public": sum(channel.is_shown and not channel.invite_only for channel in hall.channels),
        },
        "proposals": {
            "total": sum(desk.counts.values()),
            "byStatus": desk.counts,
            "agents": desk.parties,
        },
        "timestamp": _iso(now),
        "hall_key": hall.public_key,  # ours, as is all that follows
        "build": build(),
    }
    if mesh is not None:
        counts = mesh.desk.counts
        report["conversations"] = {"total": sum(counts.values()), "byState": counts}
    if network is not None:
        report["mesh_network"] = network_report(network)
    if bus is not None:
        report["bus"] = bus_report(bus, hall)
    if hall.cluster is not None:
        report["nodes"] = 1 + len(hall.cluster.nodes.live)
    return report


def connection_report(hall: Hall) -> dict[str, object]:
    connections = [
        {
            "agent_id": agent.id,
            "ip": agent.session.ip,
            "connected_at": int(agent.session.connected_at * 1000),
            "user_agent": agent.session.user_agent or "unknown",
        }
        for agent in hall.roster.agents.values()
    ]
    return {"connections": connections, "count": len(connections)}


def _json(status: int, value: object) -> Response:
    return Response(status, json.dumps(value).encode(), JSON)


def _iso(seconds: float) -> str:
    return timestamp_text(int(seconds * 1000))


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_text, value)


def _count(name: str, help_text: str, value: float) -> Metric:
    return CounterMetricFamily(name, help_text, value)


def _gauges(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(name, help_text, labels=(label,))
    for key in sorted(values):
        family.add_metric((key,), values[key])
    return family


def _counts(name: str, help_text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, help_text, labels=(label,))
    for key in sorted(values):
        family.add_metric((key,), values[key])
    return family
