"""A node of the mesh: one agent with its key, its conversations, its epoch log and its inbox (mesh wire 7, 13).

The host brings what peers say (`Resident`). Envelopes that arrive pass `intake`, and those that leave `posting`.
Both end in one unit of work of the store (`desk`), and after its commit the program is told.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Final

from msgspec import structs

from moothall import __version__
from moothall.errors import NodeRefused, UsageError
from moothall.hall.mesh.network import Settle
from moothall.hall.outside import Log
from moothall.identity import PrivateKey
from moothall.identity.seals import Seal
from moothall.identity.signatures import expand
from moothall.market.epoch_ends import EpochEnds
from moothall.market.epoch_log import ClosedEpoch
from moothall.market.node_books import Letter
from moothall.network.announcement import HALLS
from moothall.network.host import OURS, Host
from moothall.network.limits import PeerLimits
from moothall.network.outbox import Outbox
from moothall.network.outside import LoopTime, Outside
from moothall.network.routes import Routes
from moothall.network.watch import Watch
from moothall.node.batches import Batches
from moothall.node.beacons import Beacons
from moothall.node.caretaking import NodeTime
from moothall.node.desk import Books, Desk, Taken, reputation_of
from moothall.node.epoch_files import EpochFiles
from moothall.node.hosted import Hosted
from moothall.node.inbox import MAX_AGE, read_failures, read_inbox
from moothall.node.intake import Intake
from moothall.node.listeners import Listeners
from moothall.node.nonces import StoredNonces
from moothall.node.options import NodeOptions
from moothall.node.payments import Payments
from moothall.node.posting import Posting
from moothall.node.reports import (
    AgentReputation,
    BatchClosed,
    BatchSummary,
    DeliveryFailed,
    Event,
    KnownAgent,
    NodeStatistics,
    Received,
    ReputationChanged,
    Sent,
)
from moothall.node.signers import Signers
from moothall.node.tasks import TaskLog
from moothall.node.topics import NamedTopics
from moothall.node.units import done
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import Message
from moothall.store.files import DataDirectory
from moothall.store.opening import open_node_store
from moothall.wire.mesh.announcements import BEACON_SECONDS, default_name
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.msg_types import (
    BROADCAST_TOPIC,
    NOTARY_TOPIC,
    REPUTATION_TOPIC,
    MsgType,
)

TOPICS: Final = (BROADCAST_TOPIC, NOTARY_TOPIC, REPUTATION_TOPIC)

TICK: Final = 1.0  # seconds
CHECKS: Final = 30.0  # seconds between looks for ended epochs and deadlines
HOSTED_BEACONS: Final = 20  # in a tick: a peer of the reference takes 100 messages in a second
LAPSES: Final = 100  # conversations whose deadline is acted upon in one unit
LETTERS: Final = 10_000  # that are brought back after a restart
MAX_EPOCH: Final = 2**31


class _Silence:
    """For a program that wants no log."""

    def info(self, event: str, **facts: object) -> None: ...

    def warning(self, event: str, **facts: object) -> None: ...


class Node:
    """node = Node(NodeOptions(seed=load_or_create(path), log_dir=Path("data")))
    await node.start()

    `clock` is Unix seconds, `outside` the time of the event loop.
    """

    hosted: Hosted
    tasks: TaskLog

    def __init__(
        self,
        options: NodeOptions,
        *,
        log: Log | None = None,
        clock: Callable[[], float] = time.time,
        outside: Outside | None = None,
    ) -> None:
        self._options = options
        self._key = PrivateKey(options.seed)
        self.agent_id: Final = self._key.public.raw
        self.name: Final = options.agent_name or default_name(self.agent_id)
        self._log: Log = log or _Silence()
        self._clock = clock
        self._outside = outside
        self.address: Multiaddr | None = None  # where the node listens, with the port that it got
        self._listeners: Listeners[Received] = Listeners(self._log)
        self._watchers: Listeners[Event] = Listeners(self._log)
        self._cursor = 0  # of the newest envelope in an inbox
        self._closed_epoch = -1
        self._checks: set[asyncio.Task[None]] = set()
        self._rooms = AsyncExitStack()

    # -- opening and closing ---------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises UsageError if the directory or the address cannot be used."""
        try:
            await self._open()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """What was acknowledged to the program, and not yet by a peer, is sent after the next start."""
        await self._rooms.aclose()

    async def _open(self) -> None:
        options = self._options
        self._directory = DataDirectory(options.log_dir)
        self._directory.claim("--log-dir")
        self._rooms.callback(self._directory.release)
        self._store = open_node_store(self._directory)
        self._rooms.callback(self._store.close)
        await self._build()
        if options.listen_addr is not None:
            try:
                self.address = await self._host.listen(options.listen_addr)
            except OSError as error:
                what = error.strerror or error
                raise UsageError(
                    f"cannot listen on {options.listen_addr}: {what}; choose another one with --listen-addr"
                ) from None
        for address in options.bootstrap:
            self._host.keep(address)
        self._beacons.send_own()

    async def _build(self) -> None:
        outside = self._outside or LoopTime()
        self._time = NodeTime(outside, self._clock, self._log)
        self._files = EpochFiles(self._store, self._directory, self._log)
        self._rooms.push_async_callback(self._files.close)
        self._nonces = await self._reserved_nonces()
        self._signers = Signers(self._time.micros, self._nonces.next)
        self._signers.add(self.agent_id, self._options.seed)
        self._host = Host(
            expand(self._options.seed),
            self,
            agent_version=f"{OURS}/{__version__}",
            rules=self._options.network,
            outside=outside,
        )
        self._topics = NamedTopics(self._host)
        self._routes = Routes()
        host = self._host
        self._outbox = Outbox(host, outside.now, needs_order=lambda peer: not host.is_ours(peer))
        self._watch = Watch(self._log)
        self._rooms.callback(self._outbox.close)
        self._rooms.push_async_callback(self._host.close)
        self._beacons = Beacons(self._outbox, self._signers, self.agent_id, self.name, now=outside.now)
        self._desk = Desk(self._options.rules)
        self._posting = Posting(
            self._store,
            self._desk,
            self._signers,
            self._routes,
            self._outbox,
            own=self.agent_id,
            clock=self._time.micros,
            now=outside.now,
            log=self._log,
            kept=self._kept,
            failed=self._watchers.tell,
        )
        self._intake = Intake(
            self._store,
            self._desk,
            self._signers,
            self._routes,
            PeerLimits(outside.now),
            own=self.agent_id,
            clock=self._time.micros,
            now=outside.now,
            log=self._log,
            kept=self._kept,
            registered=self._watchers.tell,
        )
        self.hosted = Hosted(
            self._store,
            self._signers,
            self._posting,
            self._options.seed,
            clock=self._time.micros,
            now=outside.now,
            log=self._log,
            registered=self._beacons.send,
        )
        self._payments = Payments(self._store, self._posting, self.agent_id, self._time.timestamp)
        self.tasks = TaskLog(self._store, self._time.micros)
        self._batches = Batches(self._store, self.agent_id)
        await self._recall()
        self._rooms.push_async_callback(self._end_checks)
        self._rooms.callback(self._time.close)
        for topic in (*TOPICS, HALLS):
            self._host.join(topic)
        EpochEnds(self._store, Seal(self._key)).open(self._time)
        self._time.every(TICK, self._tick)
        self._time.every(BEACON_SECONDS, self._beacons.send_own)
        self._time.every(CHECKS, self._check)
        self._check()

    async def _reserved_nonces(self) -> StoredNonces:
        last = await done(self._store, lambda books: books.reserved_nonce())

        def reserve(up_to: int, reserved: Callable[[int], None]) -> None:
            def failed(error: BaseException) -> None:
                nonces.failed()
                self._log.warning("nonces_not_reserved", error=repr(error))

            self._store.submit(lambda books: books.reserve_nonces(up_to), lambda _: reserved(up_to), failed)

        nonces = StoredNonces(last=last, now=self._time.micros(), reserve=reserve)
        first = nonces.first_reservation
        await done(self._store, lambda books: books.reserve_nonces(first))
        nonces.reserved(first)
        return nonces

    async def _recall(self) -> None:
        """What the process before left behind."""

        def work(books: Books) -> tuple[int, list[Letter], ClosedEpoch | None]:
            return books.newest_arrived(), books.undelivered(0, LETTERS), books.closed_epoch()

        self._cursor, letters, closed = await done(self._store, work)
        self._closed_epoch = -1 if closed is None else closed.epoch
        await self.hosted.open()
        await self._files.open()
        self._posting.revive(letters)

    async def _end_checks(self) -> None:
        for check in self._checks:
            check.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)

    # -- what the program asks -------------------------------------------------------------------------

    async def send(
        self,
        msg_type: MsgType,
        payload: bytes,
        *,
        recipient: bytes | None = None,
        conversation_id: bytes,
    ) -> Sent:
        """Decide, keep and send an envelope of the agent.

        It is on the disk when this returns, and then on its way. Raises NodeRefused: 400 for what cannot be sent,
        409 for a message that is out of order, 402 for a payment without cover, 413 if it is too long, 503 if no
        peer is known for the recipient.
        """
        sent = await self._posting.send(self.agent_id, msg_type, payload, recipient, conversation_id)
        if msg_type is MsgType.BROADCAST:
            self._topics.spoke(Broadcast.decode(payload).topic)
        return sent

    def sign(self, message: bytes) -> bytes:
        """The agent's signature. The caller separates what it signs from envelopes and libp2p messages."""
        return self._signers.sign(self.agent_id, message)

    def peers(self) -> list[KnownAgent]:
        """Agents whose BEACON was seen, the latest first."""
        return list(self._intake.agents)

    async def reputation(self, key: bytes) -> AgentReputation | None:
        """None for an agent that was never seen."""
        now = self._time.timestamp()
        found = await done(self._store, lambda books: reputation_of(books, key, now))
        known = self._intake.agents.get(key)
        is_rated = found.total_tasks or found.total_notarized or found.total_disputes
        if known is None:
            return found if is_rated or key == self.agent_id else None
        return structs.replace(found, last_active_epoch=max(found.last_active_epoch, known.last_active_epoch))

    async def batch(self, epoch: int) -> BatchSummary | None:
        """None for an epoch without envelopes."""
        return await self._batches.summary(epoch) if 0 <= epoch < MAX_EPOCH else None

    async def read_inbox(self, after: int, limit: int) -> list[Received]:
        """Envelopes to the agent and of topics whose cursor is higher than `after`, oldest first. No BEACONs."""
        return await read_inbox(self._store, self.agent_id, after, limit)

    async def read_failures(self, after: int, limit: int) -> list[DeliveryFailed]:
        """The same for deliveries that failed. The latest 1,000 are kept."""
        return await read_failures(self._store, after, limit)

    def listen(self, callback: Callable[[Received], None]) -> Callable[[], None]:
        """Calls with each inbound envelope, after its commit. Returns what ends that.

        A BEACON has the cursor of the envelope before it.
        """
        return self._listeners.add(callback)

    def watch(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Calls with each event: inbound envelopes, agents that are new, failed deliveries, ends of epochs."""
        return self._watchers.add(callback)

    def watch_topic(self, slug: str) -> Callable[[], None]:
        """Joins a named topic, and returns what ends that. BROADCASTs of it come to the inbox.

        Raises NodeRefused (400 or 503).
        """
        return self._topics.watch(slug)

    async def escrow_lock(
        self,
        provider: bytes,
        conversation_id: bytes,
        amount: int,
        notary_fee: int | None = None,
        timeout_slots: int | None = None,
        notary: bytes | None = None,
    ) -> None:
        """Put credits of the agent aside on the node's own ledger. Raises NodeRefused (400).

        A timeout of 0 slots, or none, is seven days; a slot has 0.4 seconds.
        """
        await self._payments.lock(
            provider, conversation_id, amount, notary=notary, notary_fee=notary_fee, slots=timeout_slots or 0
        )

    async def escrow_approve(
        self, requester: bytes, provider: bytes, conversation_id: bytes, notary: bytes | None = None
    ) -> None:
        """Pay the provider out of what was put aside: the agent sends it a VERDICT 0x00, which approves the work.

        Raises NodeRefused: 400, or what `send` raises. A repeated approval changes nothing.
        """
        await self._payments.approve(requester, provider, conversation_id, notary=notary)

    def statistics(self) -> NodeStatistics:
        intake, outbox = self._intake, self._outbox.statistics()
        return NodeStatistics(
            peers=self._host.statistics().peers,
            topics=len(TOPICS) + len(self._topics),
            agents=len(intake.agents),
            hosted=len(self.hosted),
            pending=self._posting.pending,
            received=intake.received,
            sent=self._posting.sent,
            out_of_order=intake.out_of_order,
            refused=dict(intake.refused),
            limited=intake.limited,
            retried=outbox.counts["retried"],
            delivery_failed=self._posting.given_up,
            store_failed=intake.not_saved,
        )

    # -- what the host tells ---------------------------------------------------------------------------

    def connected(self, peer: bytes) -> None:
        self._routes.met(peer)
        self._outbox.connected(peer)

    def identified(self, peer: bytes, told: Identification) -> None:
        """There is nothing to do: the host knows which peers are ours."""

    def disconnected(self, peer: bytes, reason: str) -> None:
        self._routes.lost(peer)

    def joined(self, peer: bytes, topic: str) -> None:
        """A peer needs a BEACON when it can hear one: then it knows our agent."""
        self._outbox.joined(topic)
        if topic == BROADCAST_TOPIC:
            self._beacons.wanted()

    def left(self, peer: bytes, topic: str) -> None:
        """There is nothing to do: the host knows who is in a topic."""

    def admits(self, relay: bytes, message: Message) -> bool:
        return self._intake.admits(relay, message)

    def message(self, relay: bytes, message: Message) -> None:
        if message.topic == HALLS:
            self._intake.hear_hall(relay, message)
        else:
            self._intake.message(relay, message)

    def envelope(self, peer: bytes, envelope: bytes, settle: Settle) -> None:
        self._intake.envelope(peer, envelope, settle)

    # -- after a commit --------------------------------------------------------------------------------

    def _kept(self, envelope: Envelope, taken: Taken, at: int) -> None:
        """An envelope is in the log: of a stranger, or of one of our agents."""
        self._files.changed()
        if taken.rated is not None:
            rated = taken.rated
            self._watchers.tell(ReputationChanged(rated.reputation.agent_id, rated.score, rated.reputation))
        for agent, cursor in taken.cursors:
            self._cursor = max(self._cursor, cursor)
            self._tell(agent, Received(cursor, envelope, at, taken.note))
        if envelope.msg_type is MsgType.BEACON:
            self._tell(self.agent_id, Received(self._cursor, envelope, at))

    def _tell(self, agent: bytes, received: Received) -> None:
        if agent != self.agent_id:
            self.hosted.tell(agent, received)
            return
        self._listeners.tell(received)
        self._watchers.tell(received)

    # -- timers ----------------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._watch.look(self._host.kept(), self._time.now_ms())
        self._outbox.tick()
        self._posting.tick()
        self._beacons.tick()
        self._intake.expire_halls(self._time.now_ms())
        for agent in self.hosted.next_beacons(HOSTED_BEACONS):
            self._beacons.send(agent)

    def _check(self) -> None:
        if not self._checks:
            check = asyncio.get_running_loop().create_task(self._look_around())
            self._checks.add(check)
            check.add_done_callback(self._checks.discard)

    async def _look_around(self) -> None:
        """Deadlines of conversations, sessions that end, epochs that have ended."""
        now = self._time.timestamp()
        self.hosted.expire()

        def work(books: Books) -> ClosedEpoch | None:
            self._desk.lapse(books, now, LAPSES)
            books.forget_arrived(now - MAX_AGE)
            return books.closed_epoch()

        try:
            closed = await done(self._store, work)
            if closed is not None and closed.epoch > self._closed_epoch:
                batch = await self._batches.summary(closed.epoch)
                self._closed_epoch = closed.epoch
                if batch is not None:
                    self._watchers.tell(BatchClosed(batch))
        except NodeRefused as error:
            self._log.warning("node_check_failed", error=repr(error))
