"""Envelopes that arrive: limits, the rules that an envelope passes, then one unit of work (mesh wire 3, 6.4).

A peer is never told that an envelope was dropped. It is counted by the name of the rule that it breaks.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from moothall.hall.mesh.network import Settle, ignore
from moothall.hall.outside import Log, Store
from moothall.identity.signatures import verify
from moothall.market.epoch_log import epoch_at
from moothall.network.hall_routes import HallRoutes
from moothall.network.limits import PeerLimits
from moothall.network.routes import Routes
from moothall.node.acquaintances import Acquaintances
from moothall.node.desk import Books, Desk, Taken
from moothall.node.disk_budget import DiskBudget
from moothall.node.reports import KnownAgent, PeerRegistered
from moothall.node.signers import Signers
from moothall.p2p.pubsub import Message
from moothall.store.units import StoreFailed
from moothall.wire.mesh.announcements import Beacon
from moothall.wire.mesh.envelope import Envelope, decode
from moothall.wire.mesh.faults import EnvelopeRefused
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.peer_ids import peer_id
from moothall.wire.mesh.validation import validate

MAX_WAITING: Final = 32 * 1024 * 1024  # bytes of envelopes that the store has not taken yet

OWN: Final = "OwnEnvelope"  # of one of our agents, which a stranger sends back
NOT_OURS: Final = "WrongRecipient"
ANNOUNCEMENT: Final = "Announcement"  # of a hall: malformed, old, or in the name of another one


class _Dropped(Exception):
    """An envelope is not taken. `fault` is the rule that it breaks; None: it is over a limit."""

    def __init__(self, fault: str | None = None) -> None:
        super().__init__()
        self.fault = fault


class Intake:
    """`clock` is Unix microseconds, `now` milliseconds that never go back."""

    def __init__(
        self,
        store: Store[Books],
        desk: Desk,
        signers: Signers,
        routes: Routes,
        limits: PeerLimits,
        *,
        own: bytes,
        clock: Callable[[], int],
        now: Callable[[], int],
        log: Log,
        kept: Callable[[Envelope, Taken, int], None],
        registered: Callable[[PeerRegistered], None],
    ) -> None:
        """`own` is the agent of the node. `kept` hears of each envelope after its commit, with the time in ms."""
        self._store = store
        self._desk = desk
        self._signers = signers
        self._routes = routes
        self._limits = limits
        self._own = own
        self._clock = clock
        self._now = now
        self._halls = HallRoutes(routes)
        self._log = log
        self._kept = kept
        self._registered = registered
        self._guard = ReplayGuard()  # the log knows what came before the start
        self._budget = DiskBudget()
        self._waiting = 0
        self.agents: Final = Acquaintances()
        self.received = 0
        self.limited = 0
        self.not_saved = 0
        self.out_of_order = 0
        self.refused: Final[Counter[str]] = Counter()

    # -- from the host ---------------------------------------------------------------------------------

    def admits(self, relay: bytes, message: Message) -> bool:
        """A message of a topic, before its signature is checked."""
        is_admitted = self._limits.admits(relay, message.author, len(message.encoded))
        self.limited += not is_admitted
        return is_admitted

    def message(self, relay: bytes, message: Message) -> None:
        now = self._clock()
        try:
            envelope = self._checked(relay, message.data, message.topic, now)
        except _Dropped as dropped:
            self._count(dropped)
            return
        self._meet(envelope, relay, message.author, now)
        self._take(envelope, message.data, now, (self._own,))

    def hear_hall(self, relay: bytes, message: Message) -> None:
        """A hall says which agents it hosts: a way to them, and nothing else."""
        if self._halls.hear(relay, message, self._now(), self._clock()) is not None:
            self.refused[ANNOUNCEMENT] += 1

    def expire_halls(self, now: int) -> None:
        """`now` is milliseconds that never go back."""
        self._halls.expire(now)

    def envelope(self, peer: bytes, raw: bytes, settle: Settle) -> None:
        """From a bilateral stream. It is acknowledged when it is in the store, or was refused."""
        now = self._clock()
        try:
            envelope = self._checked(peer, raw, None, now)
        except _Dropped as dropped:
            self._count(dropped)
            settle(dropped.fault is not None)  # what is over a limit may be sent again
            return
        self._routes.talked(envelope.conversation_id, envelope.sender, peer)
        self.agents.heard(envelope.sender, epoch_at(now // 1000))
        self._take(envelope, raw, now, (envelope.recipient,), settle)

    # -- checks ----------------------------------------------------------------------------------------

    def _count(self, dropped: _Dropped) -> None:
        if dropped.fault is None:
            self.limited += 1
        else:
            self.refused[dropped.fault] += 1

    def _checked(self, relay: bytes, raw: bytes, topic: str | None, now: int) -> Envelope:
        """`topic` None: it came on a stream. Raises _Dropped."""
        if topic is None and not self._limits.admits_stream(relay, len(raw)):
            raise _Dropped
        try:
            envelope = decode(raw)
            if envelope.sender in self._signers:
                raise _Dropped(OWN)
            if not self._limits.admits_sender(relay, envelope.sender, len(raw)):
                raise _Dropped
            if topic is None and envelope.msg_type in BILATERAL and envelope.recipient not in self._signers:
                raise _Dropped(NOT_OURS)
            if self._waiting > MAX_WAITING or not self._guard.has_room(envelope, now, relay):
                raise _Dropped
            validate(envelope, topic=topic, verify=verify, guard=self._guard, now=now, relay=relay)
        except EnvelopeRefused as error:
            raise _Dropped(error.fault) from None
        if topic is not None and not self._budget.admits(envelope.sender, len(raw), epoch_at(now // 1000)):
            raise _Dropped
        return envelope

    def _meet(self, envelope: Envelope, relay: bytes, author: bytes, now: int) -> None:
        epoch = epoch_at(now // 1000)
        if envelope.msg_type is not MsgType.BEACON:
            self.agents.heard(envelope.sender, epoch)
            return
        beacon = Beacon.decode(envelope.payload)
        self._routes.beacon(beacon.agent_id, relay, author)
        # Of an agent that another node hosts, the peer id is that of its own key: the API of the reference has no
        # other place for it.
        known = KnownAgent(beacon.agent_id, peer_id(beacon.agent_id), epoch, beacon.name)
        if self.agents.saw(known):
            self._registered(PeerRegistered(known.agent_id, known.peer_id, known.name))

    # -- the unit of work ------------------------------------------------------------------------------

    def _take(
        self,
        envelope: Envelope,
        raw: bytes,
        now: int,
        recipients: tuple[bytes, ...],
        settle: Settle = ignore,
    ) -> None:
        at, size = now // 1000, len(raw)
        self._waiting += size

        def work(books: Books) -> Taken | None:
            return self._desk.receive(books, envelope, raw, at, recipients)

        def committed(taken: Taken | None) -> None:
            self._waiting -= size
            settle(True)
            if taken is None:
                self.refused["NonceReplay"] += 1
                return
            self.received += 1
            self.out_of_order += taken.note is not None
            self._kept(envelope, taken, at)

        def failed(error: BaseException) -> None:
            self._waiting -= size
            self._guard.release(envelope)  # or the peer would get ACK for a replay when it sends it again
            settle(False)
            self.not_saved += 1
            self._log.warning("node_envelope_not_saved", error=repr(error))

        try:
            self._store.submit(work, committed, failed)
        except StoreFailed as error:
            failed(error)
