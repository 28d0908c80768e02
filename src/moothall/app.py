"""The one place where everything is built from Settings and wired together."""

import asyncio
import gc
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING, Final

from moothall import __version__
from moothall.court.desk import CourtDesk
from moothall.errors import UsageError
from moothall.gateways import health
from moothall.gateways.api import rooms
from moothall.gateways.api.serving import Api
from moothall.gateways.batches import Batches, pace_of
from moothall.gateways.callables import Event as Event  # for those who write hooks
from moothall.gateways.callables import Hook, HookListener, name_of
from moothall.gateways.gallery import WATCH_PATH, served
from moothall.gateways.gathering import Gathering
from moothall.gateways.keep_port import KeepPort
from moothall.gateways.lag import LagMeter
from moothall.gateways.mesh import MESH_PATH, Mesh
from moothall.gateways.mesh_network import build, is_wanted, open_network
from moothall.gateways.metrics_history import MetricsHistory
from moothall.gateways.port import Port
from moothall.gateways.sampling import Sampling
from moothall.gateways.stopping import stop_at_signals
from moothall.gateways.webhooks import Webhooks
from moothall.gateways.whereabouts import Whereabouts, whereabouts_of
from moothall.hall import revocation
from moothall.hall.access import Allowlist, Bans, decode_approval, decode_ban
from moothall.hall.admin import read_motd
from moothall.hall.api_tokens import common_secret
from moothall.hall.common import ALLOWLIST, BANS, CAPS, MOTD, Copies, ListName
from moothall.hall.common_clock import CommonClock
from moothall.hall.durable import Durable
from moothall.hall.elsewhere import NOWHERE, Elsewhere
from moothall.hall.gallery import Gallery, is_open
from moothall.hall.gate import Gate
from moothall.hall.hall import Hall
from moothall.hall.keep.bridge import Bridge
from moothall.hall.keep.pinning import PinSaver
from moothall.hall.keep.registry import MAX_PINS, Pins
from moothall.hall.keep.routing import KeepRoom
from moothall.hall.keyring import Keyring
from moothall.hall.mesh.bridge import Bridge as MeshBridge
from moothall.hall.mesh.inbox import MemoryInboxes
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.room import MeshRoom
from moothall.hall.mesh.stored_inbox import StoredInboxes
from moothall.hall.newids import NewIds
from moothall.hall.opening import open_hall
from moothall.hall.other_halls import Desk, OtherHalls
from moothall.hall.outside import Clock, Log
from moothall.hall.parts import Parts
from moothall.hall.redaction import Redactor
from moothall.hall.reporting import Spending
from moothall.hall.revocation import RevokedKeys
from moothall.hall.spending import Caps
from moothall.identity import PrivateKey
from moothall.identity.seals import Seal
from moothall.market.clerk import withdraw_skills
from moothall.market.courier import Courier, Listener
from moothall.market.desk import MarketDesk
from moothall.market.directory import SkillDirectory
from moothall.market.epoch_ends import EpochEnds
from moothall.market.hooks import EVENTS, Subscription
from moothall.market.mesh_desk import MeshDesk
from moothall.network.peering import Peering
from moothall.rules import court_rules, market_rules, mesh_rules
from moothall.settings import Settings
from moothall.store.files import DataDirectory
from moothall.store.journal import KeyJournal
from moothall.store.opening import (
    bound_ids,
    claim_network,
    common_lists,
    database_time,
    open_signals,
    open_store,
    pinned,
    read_hall_key,
    revoked_keys,
)
from moothall.store.supervised import Supervised
from moothall.web import serving
from moothall.wire.http_routes import RouteTable

if TYPE_CHECKING:
    from moothall.bus.nats_bus import NatsBus  # needs the extra cluster
    from moothall.store.network_claim import NetworkClaim  # needs the extra postgres

# Sessions and agents live for minutes; the default of looking for cycles every 700 allocations would walk over
# all of them again and again, and stop the loop for as long.
GC_THRESHOLD: Final = (50_000, 20, 50)

# The loop's timers count whole milliseconds and may ring early by one; a tick that finds nothing due yet would
# only set the next alarm.
TIMER_SLACK: Final = 0.001

JOINING_SECONDS: Final = 5.0  # for the store to take note of this hall; it is tried again after that
FINISHING_SECONDS: Final = 2.0  # for durable commands that are under way when the hall closes


class SystemClock:
    time = staticmethod(time)
    monotonic = staticmethod(monotonic)


class App:
    """A hall with its port, its data directory and its clock. `async with` opens and closes it."""

    def __init__(
        self,
        settings: Settings,
        log: Log,
        *,
        supervised: Supervised | None = None,
        gathering: Gathering | None = None,
    ) -> None:
        """`supervised` and `gathering` are for a node process: it shares store, port and metrics with others."""
        self.settings = settings
        self.log = log
        self._supervised = supervised
        self._gathering = gathering
        self._is_shared = supervised is not None or bool(settings.store)  # the store
        self._alarm: asyncio.TimerHandle | None = None
        self._is_over = False  # the store is about to close: nothing is planned any more
        self._hooks: dict[str, HookListener] = {}

    def on_hook(self, event: str | None = None, *, name: str | None = None) -> Callable[[Hook], Hook]:
        """Decorates a function, plain or async, that hears of an event, or of all. Before the hall is opened.

        What waits for it when the hall ends is kept under its name, by default where it is defined.
        """
        if event is not None and event not in EVENTS:
            raise UsageError(f"there is no event {event!r}: {', '.join(EVENTS)}")

        def register(hook: Hook) -> Hook:
            known_as = f"python:{name}" if name else name_of(hook)
            if known_as in self._hooks:
                raise UsageError(f"there are two hooks {known_as}: give each a `name` of its own")
            self._hooks[known_as] = HookListener(hook, Subscription(known_as, event), self.log)
            return hook

        return register

    async def __aenter__(self) -> "App":
        self._directory = DataDirectory(self.settings.data_dir, self.log)
        if self._supervised is None:  # otherwise it is claimed already
            self._directory.claim()
        try:
            await self._open(self._directory)
        except BaseException:
            self._release()
            raise
        return self

    async def _open(self, directory: DataDirectory) -> None:
        settings = self.settings
        self._webhooks = Webhooks(settings.webhooks, settings.webhook_secret, settings.webhook_timeout)
        listeners: list[Listener] = [*self._hooks.values(), *self._webhooks.listeners]
        self._loop = asyncio.get_running_loop()
        name = secrets.token_hex(8) if self._is_shared else ""
        self._market_store = open_store(
            directory,
            settings.store,
            self.log,
            [listener.subscription for listener in listeners],
            on_events=lambda: self.courier.wake(),
            hall=name,
            supervised=self._supervised,
        )
        self._clock: Clock = SystemClock()
        common = CommonClock(self._clock, self.log) if settings.store else None
        if common is not None:
            self._clock = common
            common.compare(common.time(), database_time(directory, settings.store))
        self._others = OtherHalls(self._market_store, common) if self._is_shared else None
        self._journal: KeyJournal | None = None
        self._network_claim: NetworkClaim | None = None
        self.network: Peering | None = None
        self.bus: NatsBus | None = None
        try:
            await self._open_rooms(directory, listeners, name)
        except BaseException:
            await self._close_bus()
            self._close_store()
            raise

    async def _open_rooms(self, directory: DataDirectory, listeners: list[Listener], name: str) -> None:
        """`name` is that of this hall among those on its store."""
        settings = self.settings
        if not self._is_shared:
            self._journal = KeyJournal(directory)
        self._new_ids = None if self._journal is None else self._read_ids(directory, self._journal)
        hall_key = self._read_key(directory)
        seal = Seal(hall_key)
        lists, versions = common_lists(directory, settings.store)
        elsewhere: Elsewhere = self._others or NOWHERE
        self.courier = Courier(self._market_store, listeners)
        self.desk = MarketDesk(self._market_store, market_rules(settings), seal, elsewhere)
        self.court = CourtDesk(
            self._market_store,
            court_rules(settings),
            self.desk,
            seal,
            elsewhere,
            is_shared=self._others is not None,
        )
        self.hall: Hall = open_hall(
            settings,
            (
                *self.desk.commands(),
                *self.court.commands(),
                revocation.revoke_command(self._market_store, withdraw_skills),
            ),
            Parts(
                clock=self._clock,
                entropy=os.urandom,
                pick=secrets.randbelow,
                alarm=self._set_alarm,
                log=self.log,
                redactor=Redactor(os.environ),
                copies=Copies(self._market_store, self.log),
                allowlist=Allowlist(map(decode_approval, lists[ALLOWLIST])),
                bans=Bans(map(decode_ban, lists[BANS])),
                keyring=Keyring(self._market_store, settings.max_known_keys, self._new_ids),
                hall_key=hall_key.public.raw,
                token_secret=common_secret(hall_key.sign_bytes) if self._is_shared else b"",
                spending=Spending(self._market_store, Caps(lists[CAPS])),
                revoked=RevokedKeys(revoked_keys(directory, settings.store)),
            ),
        )
        self._take_motd(read_motd(lists[MOTD]))
        if settings.bus:
            await self._open_bus(hall_key.public.fingerprint)
        self.port = Port(self.hall, settings, self.log, is_shared=self._supervised is not None)
        self._pins = self._read_pins(directory) if settings.keep_pin else None
        self._batches = Batches(self._loop, pace_of(settings))
        self.keep = self._build_keep(hall_key) if settings.keep else None
        self.mesh = self._build_mesh(hall_key, seal) if settings.mesh else None
        self.gallery = Gallery(self.hall) if is_open(settings) else None
        self.port.rooms = {
            MESH_PATH: None if self.mesh is None else self.mesh.served,
            WATCH_PATH: None if self.gallery is None else served(self.gallery),
        }
        self._lag = LagMeter()
        self._sampling = Sampling(self.hall, self.port, self._lag, self.keep, self.gallery)
        page = serving.routes(serving.load(serving.page_folder())) if settings.page else ()
        reports = health.routes(
            self.hall,
            self.port,
            self._lag,
            self.desk,
            self.court,
            self._market_store,
            self.courier,
            self.keep,
            self.mesh,
            self.network,
            self.gallery,
            self._gathering,
            self.bus,
        )
        rows = rooms.rows(self.desk, self.court, self.mesh, self._sampling.history)
        api = Api(self.hall, self._market_store, rows).routes()
        self.port.routes = RouteTable((*page, *reports, *api))
        try:
            await self.port.open()
            if self.keep is not None:
                await self.keep.open()
            if self.network is not None:
                await self._open_network(self.network)
        except BaseException:
            if self.network is not None:
                await self.network.close()
            await self.port.close("Server shutting down")
            raise
        self._webhooks.start()
        self.courier.open(self.hall)
        self.desk.open(self.hall)
        self.court.open(self.hall)
        self.hall.spending.look(self.hall)
        if self.mesh is not None:
            self.mesh.open(self.hall)
        if self._others is not None:
            await self._join(self._others, name, versions)
        self._lag.start()
        self._sampling.start()

    async def _open_bus(self, hall: str) -> None:
        """Join the other nodes of this hall, before agents can connect to this one."""
        from moothall.bus.joining import join

        self.bus = await join(self.hall, hall, self._loop.call_soon)

    async def _close_bus(self) -> None:
        if self.bus is not None:
            from moothall.bus.joining import leave

            await leave(self.hall, self.bus)

    async def _open_network(self, network: Peering) -> None:
        """The halls on one store have one key, and so only one of them can be a peer."""
        if self.settings.store:
            self._network_claim = claim_network(self.settings.store)
        await open_network(network, self.settings)

    async def _join(self, others: OtherHalls, name: str, versions: Mapping[ListName, int]) -> None:
        """A hall is open when other halls on its store know of it."""
        joined = asyncio.Event()
        desks: list[Desk] = [self.desk, self.court]
        if self.mesh is not None:
            desks.append(self.mesh.desk)
        others.open(self.hall, self._pins, desks, versions, joined.set)
        self._signals = open_signals(self.settings.store, name, others.hear, self._supervised)
        with suppress(TimeoutError):
            async with asyncio.timeout(JOINING_SECONDS):
                await joined.wait()

    async def __aexit__(self, *exc: object) -> None:
        try:
            await self._close()
        finally:
            self._release()

    def _release(self) -> None:
        if self._supervised is None:
            self._directory.release()

    async def _close(self) -> None:
        self._lag.stop()
        self._sampling.stop()
        self.courier.stop()
        await asyncio.gather(self._webhooks.close(), *(hook.close() for hook in self._hooks.values()))
        if self.keep is not None:
            await self.keep.close()
        if self.network is not None:
            await self.network.close()
        await self._finish_commands()
        await self.port.close("Server shutting down")
        await self._close_bus()
        self._batches.close()
        self._is_over = True
        if self._alarm is not None:
            self._alarm.cancel()
        if self._others is not None:
            self._signals.close()
            self._others.close()
        if self._pins is not None:
            self._pins.close()
        self.courier.close()
        if self._new_ids is not None:
            self._new_ids.close()
        self._close_store()

    def _close_store(self) -> None:
        if self._network_claim is not None:
            self._network_claim.close()
        self._market_store.close()
        if self._journal is not None:
            self._journal.close()

    def _read_key(self, directory: DataDirectory) -> PrivateKey:
        settings = self.settings
        if settings.store and not settings.store_secret:
            self.log.warning(
                "hall_key_not_encrypted",
                advice="the hall's private key is plain in the database; set store_secret_file",
            )
        return read_hall_key(directory, settings.store, settings.store_secret, os.urandom, self.log)

    def _take_motd(self, motd: str | None) -> None:
        """A message set with ADMIN_MOTD stays until the operator removes it."""
        if motd is None:
            return
        if self.hall.motd not in (None, motd):
            advice = "ADMIN_MOTD set another one; an empty ADMIN_MOTD brings that of the settings back"
            self.log.warning("motd_not_shown", advice=advice)
        self.hall.motd = motd

    def _read_pins(self, directory: DataDirectory) -> PinSaver:
        rows = pinned(directory, self.settings.store)
        pins = Pins(MAX_PINS, ((identity, key) for _, identity, key in rows))
        last = rows[-1][0] if rows else 0
        return PinSaver(pins, self._market_store, last, self._loop.call_later, self.log)

    async def _finish_commands(self) -> None:
        """Answer the durable commands under way; otherwise their senders would have to ask later."""
        rooms: list[Durable | MeshRoom] = [self.hall.durable]
        if self.mesh is not None:
            rooms.append(self.mesh.room)
        under_way: list[asyncio.Event] = []
        for room in rooms:
            finished = asyncio.Event()
            room.take_no_more(finished.set)
            under_way.append(finished)
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISHING_SECONDS):
                await asyncio.gather(*(finished.wait() for finished in under_way))
        for room in rooms:
            room.hear_goodbyes()
        if self.mesh is not None:
            self.mesh.desk.close()

    def _read_ids(self, directory: DataDirectory, journal: KeyJournal) -> NewIds:
        """Only this hall uses a store that is a file: see `newids`."""
        capacity, bound = self.settings.max_known_keys, bound_ids(directory)
        return NewIds(self._market_store, capacity, bound, journal, self._loop.call_later, self.log)

    def _build_keep(self, key: PrivateKey) -> KeepPort:
        settings = self.settings
        pins = None if self._pins is None else self._pins.pins
        bridge = Bridge(Gate(self.hall), key.sign_bytes, key.public.raw, settings.keep_channel)
        directory = SkillDirectory(self._market_store)
        room = KeepRoom(bridge, directory.find, version=__version__, pins=pins)
        is_shared = self._supervised is not None
        return KeepPort(room, self.hall.door, self._batches, settings, self.log, is_shared=is_shared)

    def _build_mesh(self, key: PrivateKey, seal: Seal) -> Mesh:
        settings, hall, store = self.settings, self.hall, self._market_store
        gate = Gate(hall)
        own = OwnEnvelopes(key.public.raw, key.sign_bytes, hall.clock.time)
        stored = StoredInboxes(store, hall) if settings.mesh_inbox == "store" else None
        desk = MeshDesk(
            store,
            hall,
            mesh_rules(settings),
            self.desk.disk,
            own,
            self._others or NOWHERE,
            new_keys=hall.new_keys,
            logs=settings.mesh_log,
            inboxes=stored,
        )
        self.court.mesh = desk
        inboxes = MemoryInboxes(hall.clock) if settings.mesh_inbox == "memory" else stored
        room = MeshRoom(gate, hall.door, self._batches, desk, MeshBridge(gate, own), own, inboxes, os.urandom)
        if hall.cluster is not None:
            room.join_nodes(hall.cluster.topics)
        if is_wanted(settings):
            self.network = build(settings, key, room, own, hall.clock, self.log)
        return Mesh(room, desk, EpochEnds(store, seal), inboxes)

    def _set_alarm(self, due: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if self._is_over:
            return
        wait = max(0.0, due - monotonic()) + TIMER_SLACK
        self._alarm = self._loop.call_later(wait, lambda: self.hall.tick())

    @property
    def metrics_history(self) -> MetricsHistory:
        """The metrics of the last hour."""
        return self._sampling.history

    @property
    def whereabouts(self) -> Whereabouts:
        return whereabouts_of(self.url, self.hall, self.port, self.keep, self.network)

    @property
    def url(self) -> str:
        host, port = self.port.address
        scheme = "wss" if self.settings.cert else "ws"
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def serve(settings: Settings, log: Log, ready: "asyncio.Future[App] | None" = None) -> None:
    """Run a hall until SIGTERM or SIGINT, or until its terminal is closed."""
    await run(App(settings, log), ready)


async def run(app: App, ready: "asyncio.Future[App] | None" = None) -> None:
    """The same for one that is built already, and may have hooks."""
    stop = stop_at_signals()
    async with app:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        if ready is not None:
            ready.set_result(app)
        await stop.wait()
        app.log.info("server_stop")
