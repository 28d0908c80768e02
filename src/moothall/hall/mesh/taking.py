"""How an envelope is taken from any source: it is checked, then handled by its type (mesh wire 3, 4).

What changes a conversation goes to the market first, and is routed after the commit. Where an envelope to a topic
goes depends on where it came from (`handing_on`). A peer may carry an envelope for an agent that
is not here: then the hall is a postman, if another peer reaches the agent, and the market does not see it.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moothall.errors import NotAllowed, OutOfOrder, Refusal
from moothall.hall.mesh import beacons, replies
from moothall.hall.mesh.abroad import Remote
from moothall.hall.mesh.arrival import Arrival
from moothall.hall.mesh.border import (
    AMOUNT_OVERFLOW,
    TOO_MANY_LINES,
    TOO_MANY_SENDERS,
    UNDELIVERED,
    UNKNOWN_RECIPIENT,
    is_safe,
)
from moothall.hall.mesh.costs import envelope_price
from moothall.hall.mesh.frames import DiscoverResults, Refused
from moothall.hall.mesh.guest import Guest
from moothall.hall.mesh.market import Dealings, Payer, Told
from moothall.hall.mesh.network import Settle, ignore
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Caller, Presence
from moothall.hall.mesh.replies import NOT_TAKEN, RESERVED_KEY, TOO_MANY_TOPICS, WRONG_SENDER
from moothall.hall.mesh.source import BYTES_OF_ONE, Source
from moothall.hall.mesh.topics import BadTopic, TooManyTopics
from moothall.wire.mesh.announcements import Discover, default_name
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import MAX_PUBLISHED, VERSION, Envelope
from moothall.wire.mesh.faults import EnvelopeRefused, Fault, PayloadParseError
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, NAMES, TOPICS, MsgType
from moothall.wire.mesh.nonces import ReplayGuard
from moothall.wire.mesh.validation import admit

if TYPE_CHECKING:
    from moothall.hall.mesh.room import MeshRoom

Handler = Callable[[Source[Any], Envelope, Arrival], None]

_BROADCAST: Final = MsgType.BROADCAST

OUT_OF_ORDER: Final = "OutOfOrder"


class _Refused(Exception):
    """An envelope breaks a rule of the hall."""

    def __init__(self, fault: str, reason: str) -> None:
        super().__init__(reason)
        self.fault = fault
        self.reason = reason


class Taking:
    def __init__(self, room: "MeshRoom", dealings: Dealings, presence: Presence, own: OwnEnvelopes) -> None:
        self.in_flight = 0  # envelopes that wait for the disk
        self.finished: Callable[[], None] | None = None  # the hall is about to close
        self.guard = ReplayGuard(floor=room.floor)
        self._room = room
        self._dealings = dealings
        self._presence = presence
        self._own = own
        # Types that are not here are decided by the market.
        self._handlers: Mapping[MsgType, Handler] = {
            MsgType.BEACON: self._beacon,
            MsgType.ADVERTISE: self._advertise,
            MsgType.DISCOVER: self._discover,
            MsgType.BOUNTY: self._announce,
            MsgType.BROADCAST: self._broadcast,
        }

    def take(self, source: Source[Any], arrival: Arrival, envelope: Envelope) -> None:
        room = self._room
        try:
            self._check_sender(source, envelope, is_signed=arrival.valid)
            topic = self._topic(source, arrival, envelope)
            if source.is_busy(arrival) or not self._pays(source, arrival, envelope, topic):
                return
            self._check_relay(source, envelope)
            now = room.microseconds()
            admit(envelope, topic=topic, guard=self.guard, now=now, is_read=True, relay=source.peer)
        except EnvelopeRefused as refused:
            self._not_admitted(source, arrival, envelope, refused.fault, str(refused))
            return
        except _Refused as refused:
            self._not_admitted(source, arrival, envelope, refused.fault, refused.reason)
            return
        except Refusal as refusal:
            self._not_admitted(source, arrival, envelope, refusal.code, refusal.message)
            return
        source.received[NAMES[envelope.msg_type]] += 1
        if source.peer is not None:
            room.border.heard(envelope, source.peer)
        elif isinstance(source, Guest) and source.key is None and not source.gone:
            room.bind(source, envelope.sender)
        self._handlers.get(envelope.msg_type, self._converse)(source, envelope, arrival)

    # -- checks ------------------------------------------------------------------------------------

    def _check_sender(self, source: Source[Any], envelope: Envelope, *, is_signed: bool) -> None:
        if envelope.version != VERSION:
            raise EnvelopeRefused(Fault.UNSUPPORTED_VERSION, f"version {envelope.version} is not {VERSION}")
        if not is_signed:
            raise EnvelopeRefused(Fault.INVALID_SIGNATURE, "the sender did not sign this envelope")
        key = envelope.sender
        if self._own.key in (key, envelope.recipient):
            # What the hall signs goes out to others. It is not heeded when it comes back.
            raise _Refused(RESERVED_KEY, "this is the key of the hall, which is not an agent")
        if source.key not in (None, key):
            raise _Refused(
                WRONG_SENDER, "a connection sends the envelopes of one key; open another for this one"
            )
        self._presence.admit(key)

    def _check_relay(self, source: Source[Any], envelope: Envelope) -> None:
        peer = source.peer
        if peer is None:
            return
        with suppress(NotAllowed):  # agents are approved, and peers are not
            self._presence.admit(peer)
        if not self.guard.has_room(envelope, self._room.microseconds(), peer):
            raise _Refused(TOO_MANY_SENDERS, "this peer has brought envelopes of too many senders lately")

    def _topic(self, source: Source[Any], arrival: Arrival, envelope: Envelope) -> str | None:
        """Where it goes: a topic, or None for an agent. A BROADCAST is read once."""
        if source.peer is not None:
            self._read_broadcast(arrival, envelope)
            return arrival.topic
        topic = TOPICS.get(envelope.msg_type)
        if envelope.msg_type is _BROADCAST:
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

    def _read_broadcast(self, arrival: Arrival, envelope: Envelope) -> None:
        """From the network, one that cannot be read is passed on where it came (mesh wire 4)."""
        if envelope.msg_type is not MsgType.BROADCAST or arrival.broadcast is not None:
            return
        came_on = arrival.topic or ""
        try:
            arrival.broadcast = Broadcast.decode(envelope.payload)
        except PayloadParseError:
            names_another = not came_on.startswith(NAMED_TOPIC)
        else:
            names_another = came_on != NAMED_TOPIC + arrival.broadcast.topic
        if names_another:
            raise EnvelopeRefused(
                Fault.WRONG_ROUTE, "a BROADCAST does not belong on a topic that it does not name"
            )

    def _pays(self, source: Source[Any], arrival: Arrival, envelope: Envelope, topic: str | None) -> bool:
        """False: the envelope waits until the source can."""
        if arrival.is_paid or source.meter is None:
            return True
        audience = self._audience(source, arrival, envelope, topic)
        if topic is not None:
            is_beacon = envelope.msg_type is MsgType.BEACON
            audience += self._room.handing_on.nodes(topic, is_beacon=is_beacon)
        return source.pays_for(arrival, envelope_price(envelope, len(arrival.raw), audience))

    def _audience(self, source: Source[Any], arrival: Arrival, envelope: Envelope, topic: str | None) -> int:
        room = self._room
        if topic is None:
            return 1
        if envelope.msg_type is MsgType.BEACON:
            known = self._presented(source, envelope.sender)
            if known is not None:
                elsewhere = room.handing_on.listeners_elsewhere
                return beacons.audience(known, beacons.name_in(envelope), room.listeners, elsewhere)
        if envelope.msg_type is MsgType.BROADCAST:
            name = topic.removeprefix(NAMED_TOPIC)
            return len(room.topics.members(name)) + self._presence.audience(name)
        return len(room.listeners)

    def _presented(self, source: Source[Any], key: bytes) -> beacons.Presented | None:
        """What connections were told of this agent. None: this is its first BEACON."""
        if source.peer is None:
            return self._room.connections.holder(key)
        return self._room.border.abroad.find(key)

    def refuse(self, source: Source[Any], envelope: Envelope, fault: str, reason: str) -> None:
        """The envelope changes nothing, and a sender on `/mesh` is told why."""
        source.refused[fault] += 1
        source.tell(replies.refused(envelope, fault, reason))

    def _not_admitted(
        self, source: Source[Any], arrival: Arrival, envelope: Envelope, fault: str, reason: str
    ) -> None:
        self.refuse(source, envelope, fault, reason)
        arrival.settle(True)

    def _accepted(self, source: Source[Any], envelope: Envelope, state: str | None = None) -> None:
        if source.acks:
            source.tell(replies.accepted(envelope, state))

    def _publish(self, source: Source[Any], envelope: Envelope, raw: bytes) -> None:
        """To all connections, and on from there."""
        room = self._room
        room.handing_on.hand_on(source, TOPICS[envelope.msg_type], raw, envelope.sender, room.listeners)

    # -- by type -----------------------------------------------------------------------------------

    def _beacon(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        room, key, name = self._room, envelope.sender, beacons.name_in(envelope)
        known: beacons.Presented | None
        if isinstance(source, Guest):
            known = room.connections.holder(key)
            if source.gone or known is None:
                return
        else:
            known = room.border.abroad.heard(key, source.ip)
        listeners = beacons.listeners(known, name, room.listeners, room.handing_on.listeners_elsewhere)
        room.handing_on.hand_on(source, TOPICS[MsgType.BEACON], arrival.raw, key, listeners)
        if listeners:
            beacons.told(known, name, room.newest)
        else:
            beacons.not_told(known, name)
        if isinstance(source, Guest):
            self._presence.arrive(source, key, name, proven=source.is_proven)
        elif isinstance(known, Remote):
            room.border.abroad.renamed(known, name)
        self._accepted(source, envelope)

    def _advertise(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        def done() -> None:
            self._publish(source, envelope, arrival.raw)
            self._accepted(source, envelope)

        known = self._presented(source, envelope.sender)
        name = (known.name if known is not None else None) or default_name(envelope.sender)
        kept, failed = self._durably(source, envelope, done)

        def not_kept(error: BaseException) -> None:
            failed(error)
            if source.peer is not None and isinstance(error, Refusal):
                self._publish(source, envelope, arrival.raw)  # agents hear it, as from any node

        self._dealings.advertise(envelope, arrival.raw, _topic_payer(source), name, kept, not_kept)

    def _discover(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        """One from the network is not answered: there is no message for that. Agents that hear it may PROPOSE."""
        try:
            query = Discover.decode(envelope.payload).query
        except PayloadParseError:
            query = None  # it is passed on and logged all the same (mesh wire 4)
        if query is None or source.peer is not None:
            self._announce(source, envelope, arrival)
            return
        self._pass_on(source, envelope, arrival)

        def found(results: list[dict[str, Any]]) -> None:
            source.tell(DiscoverResults(query=query, results=results))
            self._accepted(source, envelope)

        self._dealings.discover(query, *self._durably(source, envelope, found))

    def _announce(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        """A message to all that changes nothing."""
        self._pass_on(source, envelope, arrival)
        self._accepted(source, envelope)

    def _pass_on(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        self._publish(source, envelope, arrival.raw)
        self._dealings.record(envelope, arrival.raw, _topic_payer(source))

    # -- named topics --------------------------------------------------------------------------------

    def _broadcast(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        message, raw = arrival.broadcast, arrival.raw
        if message is None:  # only the network brings one that cannot be read
            self._publish_named(source, (arrival.topic or "").removeprefix(NAMED_TOPIC), raw, envelope)
            self._dealings.record(envelope, raw, _topic_payer(source))
            return
        if source.peer is not None and not self._may_speak(source.peer, message):
            source.refused[TOO_MANY_LINES] += 1
            self._publish_named(source, message.topic, raw, envelope)
            return
        caller = self._caller(source, envelope, message)
        if caller is None:
            return
        topic = message.topic

        def publish(published: bytes | None, *, is_chat: bool) -> None:
            if published is not None:
                self._publish_named(source, topic, published, envelope)
            if not is_chat:
                self._dealings.record(envelope, raw, _topic_payer(source))
            self._accepted(source, envelope)

        def refuse(refusal: Refusal) -> None:
            self.refuse(source, envelope, refusal.code, refusal.message)

        self._presence.broadcast(caller, message, raw, publish, refuse)

    def _publish_named(self, source: Source[Any], topic: str, raw: bytes, envelope: Envelope) -> None:
        members = self._room.topics.members(topic)
        self._room.handing_on.hand_on(source, NAMED_TOPIC + topic, raw, envelope.sender, members)

    def _may_speak(self, peer: bytes, message: Broadcast) -> bool:
        """False: the channel of the topic has had too many lines from the network. Connections that subscribed to
        the topic get it all the same."""
        if message.format != "text" or not self._presence.audience(message.topic):
            return True
        return self._room.border.abroad.may_speak(peer, message.topic)

    def _caller(self, source: Source[Any], envelope: Envelope, message: Broadcast) -> Caller | None:
        """Who speaks. None: it has left, or its message was refused."""
        room, topic = self._room, message.topic
        if not isinstance(source, Guest):
            abroad = room.border.abroad
            remote = abroad.heard(envelope.sender, source.ip)
            if message.format == "text" and self._presence.audience(topic):
                abroad.enter(remote, remote.name or default_name(envelope.sender))
            return remote
        if source.gone:
            return None
        try:
            if room.topics.subscribe(source, topic):
                self._presence.subscribe(source, topic)
        except TooManyTopics as too_many:
            self.refuse(source, envelope, TOO_MANY_TOPICS, str(too_many))
        except BadTopic as bad:
            self.refuse(source, envelope, Fault.WRONG_ROUTE, str(bad))
        else:
            return source
        return None

    # -- what the market decides -----------------------------------------------------------------------

    def _converse(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        """Bilateral envelopes, bids of notaries, feedback."""
        if envelope.msg_type not in BILATERAL:
            self._tell_market(source, envelope, arrival)
            return
        is_away = not self._room.connections.is_proven(envelope.recipient)
        if source.peer is None:
            is_abroad = is_away and self._room.border.reaches(envelope)
            self._deal(source, envelope, arrival, is_away=is_away and not is_abroad, is_abroad=is_abroad)
        elif self._room.connections.receivers(envelope.recipient):
            self._deal(source, envelope, arrival, is_away=is_away)
            if is_away and self._room.border.reaches(envelope):
                # A connection that proved nothing may have replayed an envelope of an agent that is elsewhere.
                self._room.border.carry(envelope, arrival.raw, lambda delivered: None, source=source.peer)
        else:
            self._forward(source, source.peer, envelope, arrival)

    def _deal(
        self,
        source: Source[Any],
        envelope: Envelope,
        arrival: Arrival,
        *,
        is_away: bool,
        is_abroad: bool = False,
    ) -> None:
        """A step of a conversation with an agent of this hall. `is_abroad`: a peer brings it to the recipient."""

        def done(told: Told) -> None:
            self._room.routing.deliver(source, envelope, arrival.raw, told, is_abroad=is_abroad)
            self._accepted(source, envelope, told.state)
            arrival.settle(True)

        self._dealings.take(
            envelope,
            arrival.raw,
            source.payer,
            *self._durably(source, envelope, done, arrival.settle),
            is_away=is_away,
            is_proven=source.is_proven,
            abroad=envelope.sender if source.peer is not None else envelope.recipient if is_abroad else None,
        )

    def _tell_market(self, source: Source[Any], envelope: Envelope, arrival: Arrival) -> None:
        """FEEDBACK or NOTARIZE_BID. One from the network may be about a conversation of other halls: agents hear it
        all the same."""

        def done(told: Told) -> None:
            self._publish(source, envelope, arrival.raw)
            self._room.routing.tell_all(told.notices)
            self._accepted(source, envelope, told.state)

        taken, failed = self._durably(source, envelope, done)

        def not_taken(error: BaseException) -> None:
            failed(error)
            if source.peer is not None and isinstance(error, OutOfOrder):
                self._pass_on(source, envelope, arrival)

        self._dealings.take(
            envelope,
            arrival.raw,
            _topic_payer(source),
            taken,
            not_taken,
            is_away=False,
            is_proven=source.is_proven,
            abroad=None if source.peer is None else envelope.sender,
        )

    def _forward(self, source: Source[Any], peer: bytes, envelope: Envelope, arrival: Arrival) -> None:
        """The recipient is not here. The inbox is for agents that have proven their key to this hall before."""
        border = self._room.border

        def carried(delivered: bool) -> None:
            if not delivered:
                source.refused[UNDELIVERED] += 1
                self.guard.release(envelope)  # the peer sends it again, and must not get an ACK for a replay
            arrival.settle(delivered)

        def known(is_known: bool) -> None:
            if is_known:
                self._deal(source, envelope, arrival, is_away=True)
            else:
                source.refused[UNKNOWN_RECIPIENT] += 1
                arrival.settle(True)

        if not is_safe(envelope):
            source.refused[AMOUNT_OVERFLOW] += 1
            arrival.settle(True)
        elif border.reaches(envelope):
            border.carry(envelope, arrival.raw, carried, source=peer)
        else:
            under_way = self._durably(source, envelope, known, arrival.settle)
            self._dealings.is_known(envelope.recipient, *under_way)

    # -- what waits for the disk -----------------------------------------------------------------------

    def _durably(
        self, source: Source[Any], envelope: Envelope, then: Callable[..., None], settle: Settle = ignore
    ) -> tuple[Callable[..., None], Callable[[BaseException], None]]:
        """The two callbacks of something that is under way. A source may have a few of them. `settle` hears of a
        failure: True if it is a refusal."""
        weight = 1 + envelope.payload_len // BYTES_OF_ONE
        source.in_flight += weight
        self.in_flight += 1
        failed = partial(self._explain, source, envelope, settle)
        return partial(self._go_on, source, weight, then), partial(self._go_on, source, weight, failed)

    def _go_on(self, source: Source[Any], weight: int, then: Callable[..., None], *result: Any) -> None:
        source.in_flight -= weight
        self.in_flight -= 1
        try:
            then(*result)
        except BaseException:
            source.fail()
            raise
        finally:
            source.disk_is_done()
            if self.finished is not None and not self.in_flight:
                self.finished()

    def _explain(self, source: Source[Any], envelope: Envelope, settle: Settle, error: BaseException) -> None:
        reply = replies.not_taken(envelope, error)
        fault = reply.fault if isinstance(reply, Refused) else OUT_OF_ORDER
        source.refused[fault] += 1
        gate = self._room.gate
        if fault in NOT_TAKEN and gate.may_log("mesh_envelope_failed"):
            gate.log.warning("mesh_envelope_failed", error=repr(error))
        source.tell(reply)
        if fault in NOT_TAKEN:
            self.guard.release(envelope)
        settle(fault not in NOT_TAKEN)


def _topic_payer(source: Source[Any]) -> Payer:
    """Of what came on a topic: a peer passes on what any node has published there."""
    return source.payer if source.peer is None else source.payer._replace(way="topics")
