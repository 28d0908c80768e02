"""The room of the mesh: the way of an envelope from a connection to others (mesh wire 3, 4, 6).

An envelope is charged, decoded and proven. Then its nonce, time, hash and route are checked, and it is handled by
its type. What changes a conversation goes to the market first: it is routed after the commit. Text frames are
questions to the hall itself (`asking`).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from moothall.errors import Refusal
from moothall.hall.access import Doorkeeper
from moothall.hall.checking import Checks
from moothall.hall.gate import Gate
from moothall.hall.mesh import beacons, replies
from moothall.hall.mesh.asking import Asking
from moothall.hall.mesh.connections import Connections
from moothall.hall.mesh.costs import envelope_price
from moothall.hall.mesh.frames import DiscoverResults, Error, HallFrame, Refused
from moothall.hall.mesh.guest import BYTES_OF_ONE, MAX_IN_FLIGHT, Arrival, Guest
from moothall.hall.mesh.inbox import Inboxes
from moothall.hall.mesh.market import Dealings, Told
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Presence
from moothall.hall.mesh.replies import INTERNAL, RESERVED_KEY, TOO_MANY_TOPICS, WRONG_SENDER
from moothall.hall.mesh.routing import Routing
from moothall.hall.mesh.topics import BadTopic, TooManyTopics, Topics
from moothall.hall.outside import Entropy, Link
from moothall.hall.waiting import WaitingLine
from moothall.settings.limits import Rate
from moothall.wire.authority import host_header
from moothall.wire.mesh.announcements import Beacon, Discover, default_name
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import MAX_PUBLISHED, VERSION, Envelope
from moothall.wire.mesh.faults import EnvelopeRefused, Fault, PayloadParseError
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, TOPICS, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.validation import admit
from moothall.wire.websocket import INTERNAL_ERROR, POLICY_VIOLATION

MAX_MESSAGE: Final = 128 * 1024  # bytes of a frame: one that is too long for an envelope is still told why
MILLI_TO_MICRO: Final = 1000

Handler = Callable[[Guest, Envelope, Arrival], None]


class _Refused(Exception):
    """An envelope breaks a rule of the hall."""

    def __init__(self, fault: str, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason


class MeshRoom:
    """What `moothall.gateways` has behind the path `/mesh` of its port."""

    def __init__(
        self,
        gate: Gate,
        door: Doorkeeper,
        checks: Checks,
        dealings: Dealings,
        presence: Presence,
        own: OwnEnvelopes,
        inboxes: Inboxes | None,
        entropy: Entropy,
    ) -> None:
        settings = gate.settings
        self.gate = gate
        self.checks = checks
        self.hall_id = own.key.hex()
        self.public_host = host_header(settings.public_url) if settings.public_url else ""
        self.rate = Rate(0, 1) if settings.no_limits else settings.mesh_rate
        self.received: Counter[str] = Counter()  # envelopes that passed all checks, by type
        self.refused: Counter[str] = Counter()  # by fault
        self.waits = 0  # times that a connection had to wait for its limits
        self.guests: set[Guest] = set()  # all connections
        self.listeners: dict[Guest, None] = {}  # those with a key, in the order in which they got it
        self.topics: Topics[Guest] = Topics()
        self.connections: Connections[Guest] = Connections()
        self.floor = gate.timestamp() * MILLI_TO_MICRO
        self._guard = ReplayGuard(floor=self.floor)
        self._door = door
        self._dealings = dealings
        self._presence = presence
        self._own = own
        self._limited = not settings.no_limits
        self._number = 0  # of the last connection that got a key
        self._in_flight = 0  # envelopes that wait for the disk
        self._finished: Callable[[], None] | None = None  # the hall is about to close
        self._strangers: WaitingLine[Guest] = WaitingLine(
            gate.agenda, settings.identify_timeout, self._overdue
        )
        self._identify = bool(settings.identify_timeout)
        # Types that are not here are decided by the market.
        self._handlers: Mapping[MsgType, Handler] = {
            MsgType.BEACON: self._beacon,
            MsgType.ADVERTISE: self._advertise,
            MsgType.DISCOVER: self._discover,
            MsgType.BOUNTY: self._announce,
            MsgType.BROADCAST: self._broadcast,
        }
        self.routing = Routing(self, inboxes, dealings)
        self._asking = Asking(self, inboxes, dealings, presence, entropy)

    def now(self) -> float:
        return self.gate.now()

    def microseconds(self) -> int:
        return self.gate.timestamp() * MILLI_TO_MICRO

    # -- connections -----------------------------------------------------------------------------

    def connect(
        self, link: Link, ip: str, user_agent: str = "", *, is_loopback: bool = False, host: str = ""
    ) -> Guest | None:
        """A new connection, or None if it was turned away."""
        counts = self._door.connections
        if not is_loopback and not counts.admit(ip):
            self.gate.turn_away(ip, is_news=counts.is_news(ip))
            link.close(POLICY_VIOLATION, "Too many connections from this IP")
            return None
        meter = self.gate.budgets.meter(ip, is_loopback=is_loopback) if self._limited else None
        guest = Guest(self, link, ip, meter, is_loopback=is_loopback, host=host)
        self.guests.add(guest)
        if self._finished is not None:
            guest.hold()  # for ever: the hall is about to close
        if self._identify:
            self._strangers.join(guest, self.now())
        return guest

    def disconnect(self, guest: Guest) -> None:
        if guest not in self.guests:
            return
        self.guests.remove(guest)
        self.listeners.pop(guest, None)
        if not guest.payer.is_loopback:
            self._door.connections.depart(guest.ip)
        if guest.line is not None:
            guest.line.leave(guest)
        self.topics.leave(guest)
        self.connections.leave(guest)
        if guest.is_proven and guest.receives and guest.key and not self.connections.is_proven(guest.key):
            self._dealings.present(guest.key, is_here=False)
        self._presence.depart(guest)
        guest.end()

    def fail(self, guest: Guest) -> None:
        """A bug of ours: only this connection pays for it."""
        guest.close(INTERNAL_ERROR, "Internal error")

    def _overdue(self, guest: Guest) -> None:
        self.gate.note("mesh_identify_timeout", ip=guest.ip)
        guest.close(POLICY_VIOLATION, "Send a BEACON or prove your key first")

    # -- frames ----------------------------------------------------------------------------------

    def receive(self, guest: Guest, payload: bytes) -> None:
        guest.receive(payload, is_text=True)

    def receive_binary(self, guest: Guest, payload: bytes) -> None:
        guest.receive(payload, is_text=False)

    def receive_control(self, guest: Guest, size: int) -> bool:
        return guest.pay_control(size)

    def receive_piece(self, guest: Guest, size: int) -> None:
        guest.prepay(size)

    def waiting_bytes(self, guest: Guest) -> int:
        return guest.waiting_bytes

    def throttle(self, seconds: float, then: Callable[[], None]) -> None:
        """A connection is over a limit, and waits for this time."""
        self.waits += 1
        self.gate.agenda.at(self.now() + seconds, then)

    def handle(self, guest: Guest, arrival: Arrival) -> None:
        """A frame whose signature was checked, if it has one."""
        try:
            if arrival.fault is not None:
                self._tell_fault(guest, arrival.fault)
            elif arrival.frame is not None:
                self._asking.answer(guest, arrival)
            elif arrival.envelope is not None:
                self._take(guest, arrival, arrival.envelope)
        except Exception:  # a bug of ours: this connection ends, the others go on
            self.gate.log.warning("a frame of the mesh could not be handled", exc_info=True)
            self.fail(guest)

    def _tell_fault(self, guest: Guest, fault: HallFrame) -> None:
        if isinstance(fault, Refused):
            self.refused[fault.fault] += 1
        elif isinstance(fault, Error):
            self.refused[fault.code] += 1
        guest.tell(fault)

    # -- envelopes -------------------------------------------------------------------------------

    def _take(self, guest: Guest, arrival: Arrival, envelope: Envelope) -> None:
        try:
            self._check_sender(guest, envelope, is_signed=arrival.valid)
            topic = self._topic(arrival, envelope)
            if not self._can_begin(guest, arrival, envelope, topic):
                guest.put_back(arrival)
                return
            admit(envelope, topic=topic, guard=self._guard, now=self.microseconds(), is_read=True)
        except EnvelopeRefused as refused:
            self.refuse(guest, envelope, refused.fault, str(refused))
            return
        except _Refused as refused:
            self.refuse(guest, envelope, refused.fault, refused.reason)
            return
        except Refusal as refusal:
            self.refuse(guest, envelope, refusal.code, refusal.message)
            return
        self.received[envelope.msg_type.name] += 1
        if guest.key is None and not guest.gone:
            self._bind(guest, envelope.sender)
        self._handlers.get(envelope.msg_type, self._converse)(guest, envelope, arrival)

    def _check_sender(self, guest: Guest, envelope: Envelope, *, is_signed: bool) -> None:
        if envelope.version != VERSION:
            raise EnvelopeRefused(Fault.UNSUPPORTED_VERSION, f"version {envelope.version} is not {VERSION}")
        if not is_signed:
            raise EnvelopeRefused(Fault.INVALID_SIGNATURE, "the sender did not sign this envelope")
        key = envelope.sender
        if self._own.key in (key, envelope.recipient):
            # What the hall signs goes out to others. It is not heeded when it comes back.
            raise _Refused(RESERVED_KEY, "this is the key of the hall, which is not an agent")
        if guest.key not in (None, key):
            raise _Refused(
                WRONG_SENDER, "a connection sends the envelopes of one key; open another for this one"
            )
        self._presence.admit(key)

    def _topic(self, arrival: Arrival, envelope: Envelope) -> str | None:
        """Where it goes: a topic, or None for an agent. A BROADCAST is read once."""
        topic = TOPICS.get(envelope.msg_type)
        if envelope.msg_type is MsgType.BROADCAST:
            try:
                arrival.broadcast = arrival.broadcast or Broadcast.decode(envelope.payload)
            except PayloadParseError as error:
                raise EnvelopeRefused(Fault.WRONG_ROUTE, f"this names no topic: {error}") from None
            topic = NAMED_TOPIC + arrival.broadcast.topic
        if topic is not None and len(arrival.raw) > MAX_PUBLISHED:
            raise EnvelopeRefused(
                Fault.ENVELOPE_TOO_LARGE, f"an envelope to a topic has at most {MAX_PUBLISHED:,} bytes"
            )
        return topic

    def _can_begin(self, guest: Guest, arrival: Arrival, envelope: Envelope, topic: str | None) -> bool:
        """False: it waits, because the connection cannot pay, or has too many envelopes under way."""
        if guest.in_flight >= MAX_IN_FLIGHT:
            guest.wait_for_disk()
            return False
        if not arrival.is_paid and guest.meter is not None:
            price = envelope_price(envelope, len(arrival.raw), self._audience(arrival, envelope, topic))
            arrival.is_paid = guest.pay(price)
            return arrival.is_paid
        return True

    def _audience(self, arrival: Arrival, envelope: Envelope, topic: str | None) -> int:
        if topic is None:
            return 1
        if envelope.msg_type is MsgType.BEACON:
            holder = self.connections.holder(envelope.sender)
            if holder is not None:
                return beacons.audience(holder, _name(envelope), self.listeners)
        if arrival.broadcast is not None:
            message = arrival.broadcast
            return len(self.topics.members(message.topic)) + self._presence.audience(message.topic)
        return len(self.listeners)

    def _bind(self, guest: Guest, key: bytes) -> None:
        """The connection has sent a valid envelope: it has this key from now on."""
        self._give(guest, key)
        self.connections.claim(guest, key)

    def proved(self, guest: Guest, key: bytes, *, receives: bool) -> None:
        """The connection has proven this key. Raises TooManyConnections."""
        holder = self.connections.prove(guest, key, receives=receives)
        if guest.key is None:
            self._give(guest, key)
        guest.is_proven = True
        self._dealings.proved(key)
        guest.receives = receives
        if receives:
            self._dealings.present(key, is_here=True)
        if holder.name is not None:
            self._presence.arrive(guest, key, holder.name, proven=True)

    def _give(self, guest: Guest, key: bytes) -> None:
        """It hears the topics from now on. A connection without a key hears nothing: bans are bans of keys."""
        self._number += 1
        guest.number = self._number
        self.listeners[guest] = None
        guest.key = key
        if guest.meter is not None:
            guest.meter.belongs_to(key)
        if guest.line is not None:
            guest.line.leave(guest)

    def refuse(self, guest: Guest, envelope: Envelope, fault: str, reason: str) -> None:
        """The envelope changes nothing, and its sender is told why."""
        self.refused[fault] += 1
        guest.tell(replies.refused(envelope, fault, reason))

    def accepted(self, guest: Guest, envelope: Envelope, state: str | None = None) -> None:
        if guest.acks:
            guest.tell(replies.accepted(envelope, state))

    # -- by type ---------------------------------------------------------------------------------

    def _beacon(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        holder = self.connections.holder(envelope.sender)
        if guest.gone or holder is None:
            return
        name = _name(envelope)
        listeners = beacons.listeners(holder, name, self.listeners)
        self.routing.publish(arrival.raw, listeners, envelope.sender)
        if listeners:
            beacons.told(holder, name, self._number)
        else:
            beacons.not_told(holder, name)
        self._presence.arrive(guest, envelope.sender, name, proven=guest.is_proven)
        self.accepted(guest, envelope)

    def _advertise(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        def done() -> None:
            self.routing.publish(arrival.raw, self.listeners, envelope.sender)
            self.accepted(guest, envelope)

        holder = self.connections.holder(envelope.sender)
        name = (holder.name if holder is not None else None) or default_name(envelope.sender)
        self._dealings.advertise(
            envelope, arrival.raw, guest.payer, name, *self._durably(guest, envelope, done)
        )

    def _discover(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        try:
            query = Discover.decode(envelope.payload).query
        except PayloadParseError:
            self._announce(guest, envelope, arrival)  # it is passed on and logged all the same (mesh wire 4)
            return
        self._pass_on(guest, envelope, arrival)

        def found(results: list[dict[str, Any]]) -> None:
            guest.tell(DiscoverResults(query=query, results=results))
            self.accepted(guest, envelope)

        self._dealings.discover(query, *self._durably(guest, envelope, found))

    def _announce(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        """A message to all that changes nothing."""
        self._pass_on(guest, envelope, arrival)
        self.accepted(guest, envelope)

    def _pass_on(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        self.routing.publish(arrival.raw, self.listeners, envelope.sender)
        self._dealings.record(envelope, arrival.raw, guest.payer)

    def _broadcast(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        message, raw = arrival.broadcast, arrival.raw
        if guest.gone or message is None:
            return
        topic = message.topic
        try:
            if self.topics.subscribe(guest, topic):
                self._presence.subscribe(guest, topic)
        except TooManyTopics as error:
            self.refuse(guest, envelope, TOO_MANY_TOPICS, str(error))
            return
        except BadTopic as error:
            self.refuse(guest, envelope, Fault.WRONG_ROUTE, str(error))
            return

        def publish(published: bytes | None, *, is_chat: bool) -> None:
            if published is not None:
                self.routing.publish(published, self.topics.members(topic), envelope.sender)
            if not is_chat:
                self._dealings.record(envelope, raw, guest.payer)
            self.accepted(guest, envelope)

        def refuse(refusal: Refusal) -> None:
            self.refuse(guest, envelope, refusal.code, refusal.message)

        self._presence.broadcast(guest, message, raw, publish, refuse)

    def _converse(self, guest: Guest, envelope: Envelope, arrival: Arrival) -> None:
        """What the market decides: bilateral envelopes, bids of notaries, feedback."""

        def done(told: Told) -> None:
            if envelope.msg_type in BILATERAL:
                self.routing.deliver(guest, envelope, arrival.raw, told)
            else:
                self.routing.publish(arrival.raw, self.listeners, envelope.sender)
                self.routing.tell_all(told.notices)
            self.accepted(guest, envelope, told.state)

        is_away = envelope.msg_type in BILATERAL and not self.connections.is_proven(envelope.recipient)
        self._dealings.take(
            envelope,
            arrival.raw,
            guest.payer,
            *self._durably(guest, envelope, done),
            is_away=is_away,
            is_proven=guest.is_proven,
        )

    # -- what waits for the disk -----------------------------------------------------------------

    def _durably(
        self, guest: Guest, envelope: Envelope, then: Callable[..., None]
    ) -> tuple[Callable[..., None], Callable[[BaseException], None]]:
        """The two callbacks of something that is under way. The connection may have a few of them."""
        weight = 1 + envelope.payload_len // BYTES_OF_ONE
        guest.in_flight += weight
        self._in_flight += 1
        failed = partial(self._explain, guest, envelope)
        return partial(self._go_on, guest, weight, then), partial(self._go_on, guest, weight, failed)

    def _go_on(self, guest: Guest, weight: int, then: Callable[..., None], *result: Any) -> None:
        guest.in_flight -= weight
        self._in_flight -= 1
        try:
            then(*result)
        except BaseException:
            self.fail(guest)
            raise
        finally:
            guest.disk_is_done()
            if self._finished is not None and not self._in_flight:
                self._finished()

    def _explain(self, guest: Guest, envelope: Envelope, error: BaseException) -> None:
        reply = replies.not_taken(envelope, error)
        fault = reply.fault if isinstance(reply, Refused) else "OutOfOrder"
        self.refused[fault] += 1
        if fault == INTERNAL and self.gate.may_log("mesh_envelope_failed"):
            self.gate.log.warning("mesh_envelope_failed", error=repr(error))
        guest.tell(reply)

    # -- the end ---------------------------------------------------------------------------------

    def take_no_more(self, finished: Callable[[], None]) -> None:
        """The hall is about to close: nothing more is read. `finished` is called when nothing is under way."""
        self._finished = finished
        for guest in self.guests:
            guest.hold()
        if not self._in_flight:
            finished()

    def hear_goodbyes(self) -> None:
        """After `take_no_more`, when all connections are being closed: read their close frames."""
        for guest in self.guests:
            guest.link.resume()

    # -- what operators see ----------------------------------------------------------------------

    def statistics(self) -> dict[str, int]:
        return {
            "connections": len(self.guests),
            "agents": len(self.connections),
            "topics": len(self.topics),
            "in_flight": self._in_flight,
            "relayed": self.routing.relayed,
            "waits": self.waits,
            "replay_windows": self._guard.windows,
        }


def _name(envelope: Envelope) -> str:
    """The name in a BEACON. One that cannot be read is about to be refused."""
    try:
        return Beacon.decode(envelope.payload).name
    except PayloadParseError:
        return ""
