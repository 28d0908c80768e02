"""One connection: a socket, the machine of `p2p/connection.py`, and what each of its streams is for.

Back-pressure: nothing is taken from the machine while the socket's buffer is full, so what waits is bounded by the
limits of yamux. The peer is read from all the same, because two peers that wait for each other would wait
forever. Only if answers pile up, to a peer that asks and does not read, is it not read from either. A peer that
reads nothing for a while is cut off.

A connection ends in order in three steps: both sides say go-away, which ends the opening of streams; requests
under way get their ACK; then the socket is closed.
"""

import asyncio
import math
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

from moothall.errors import PeerUnreachable
from moothall.hall.mesh.network import Settle
from moothall.network.rules import Rules
from moothall.network.streams import (
    Announcing,
    Answering,
    Asking,
    Delivering,
    Delivery,
    Hearing,
    Learning,
    Pinging,
    Receiving,
    Serving,
    Talk,
    Telling,
)
from moothall.p2p import bilateral, identify, ping, pubsub
from moothall.p2p.connection import Connection
from moothall.p2p.faults import PeerFault
from moothall.p2p.handshake import Credentials
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.yamux import Session
from moothall.p2p.yamux_streams import (
    Broken,
    Event,
    Finished,
    Opened,
    Received,
    Reset,
    Stream,
    WentAway,
)

PIECE: Final = 32 * 1024  # bytes that one turn of the loop reads: at most a hundred small messages to verify
_HIGH, _LOW = 64 * 1024, 16 * 1024  # bytes in the socket's buffer: several frames of yamux, and no more
_NEGOTIATION: Final = 64  # bytes of a request beside its envelope
_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)  # Linux only

_S = TypeVar("_S", bound=Serving)


class Owner(Protocol):
    """The host, as its connections see it."""

    rules: Rules
    credentials: Credentials
    piece: bytearray  # what is read, for all connections one after the other

    def now(self) -> int: ...

    def moment(self) -> int:
        """A number that is higher than all before."""

    def met(self, link: "Link") -> str | None:
        """The socket is there. A reason if it must be closed."""

    def proved(self, link: "Link") -> None:
        """The peer has proven its key."""

    def lost(self, link: "Link", reason: str) -> None: ...

    def settle(self, link: "Link") -> None:
        """The peer was read from: send what follows from that, and count what waits."""

    def identification(self, link: "Link") -> bytes: ...

    def identified(self, link: "Link", told: Identification) -> None: ...

    def heard(self, link: "Link", rpc: bytes) -> None: ...

    def arrived(self, link: "Link", envelope: bytes, settle: Settle) -> None: ...

    def again(self, link: "Link", delivery: Delivery) -> bool:
        """Sends on another connection to the same peer. False if there is none."""


class Link(asyncio.BufferedProtocol):
    """`ready` ends when the peer has proven its key, or with PeerUnreachable."""

    session: Session

    def __init__(self, owner: Owner, *, is_outbound: bool, expected: bytes | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._owner = owner
        self._machine = Connection(
            owner.credentials,
            os.urandom(32),
            is_client=is_outbound,
            expected=expected,
            limits=owner.rules.streams,
        )
        self._talks: dict[Stream, Talk] = {}
        self._waiting: deque[Delivery] = deque()
        self._waiting_bytes = 0
        self._hearing: Hearing | None = None
        self._telling: Telling | None = None
        self._pinging: Pinging | None = None
        self._flush_due = False
        self._reason = ""
        self._is_ending = False
        self._is_paused = False
        self._leaving_since: int | None = None
        self._retired = False
        self._stuck_since: int | None = None
        self._heard_at = owner.now()
        self.rules = owner.rules
        self.is_outbound = is_outbound
        self.is_open = False  # the peer has proven its key
        self.opened_at = owner.now()
        self.met_at = owner.moment()
        self.used_at = math.inf  # the moment of the first stream that the peer has opened
        self.remote = Multiaddr("ip6", "::", 0)  # until the socket is there
        self.told: Identification | None = None
        self.is_counted = False  # by the limit of connections
        self.counted = 0  # bytes that the host knows to wait here
        self.ready: asyncio.Future[None] = self._loop.create_future()
        self.ready.add_done_callback(_seen)

    # -- what the host asks --------------------------------------------------------------------------------

    @property
    def agent_id(self) -> bytes:
        return self._machine.agent_id

    @property
    def is_leaving(self) -> bool:
        return self._leaving_since is not None

    @property
    def held(self) -> int:
        """Bytes that wait, in either direction."""
        if not self.is_open:
            return 0
        queued = self._telling.size if self._telling is not None else 0
        partial = self._hearing.size if self._hearing is not None else 0
        return self.session.unread + self.session.unsent + queued + partial + self._waiting_bytes

    @property
    def dropped(self) -> int:
        return self._telling.dropped if self._telling is not None else 0

    @property
    def under_way(self) -> int:
        """Envelopes that wait for an ACK or are on their way here."""
        return sum(
            isinstance(talk.serving, Delivering | Receiving) and not talk.stream.is_gone
            for talk in self._talks.values()
        )

    def now(self) -> int:
        return self._owner.now()

    def begin(self) -> None:
        """Opens the streams that stay. They come first, so requests cannot take their places."""
        self._telling = self._open(pubsub.PROTOCOLS, Telling)
        self._open((identify.IDENTIFY,), Learning)
        self._pinging = self._open((ping.PROTOCOL,), Pinging)
        self.flush_soon()

    def announce(self) -> None:
        """Tells the peer who we are, again."""
        self._open((identify.IDENTIFY_PUSH,), Announcing)
        self.flush_soon()

    def tell(self, frame: bytes) -> bool:
        """Sends a frame of gossipsub. False if it was a message, and the peer is too slow for it."""
        if self._telling is None:
            return True
        self.flush_soon()
        return self._telling.tell(frame)

    def deliver(self, delivery: Delivery) -> None:
        """Sends an envelope as soon as there is a stream for it."""
        size = self._waiting_bytes + len(delivery.frame)
        if len(self._waiting) >= self.rules.requests or size > self.rules.request_bytes:
            delivery.fail("too many envelopes wait for this peer")
            return
        self._waiting.append(delivery)
        self._waiting_bytes = size
        self.flush_soon()

    def retire(self) -> None:
        """Ends in order."""
        if not self.is_open:
            self.end("the host is closing")
        elif not self._retired:
            self._retired = True
            self._leave()
            self._hand_over()
            self.flush_soon()

    def end(self, reason: str) -> None:
        """Sends what the socket takes at once, and closes it."""
        if not self._is_ending:
            self._reason = reason
            self._is_ending = True
            self._leaving_since = self.now()
            if self._stuck_since is None and (data := self._machine.take(_HIGH)):
                self._transport.write(data)
            self._transport.close()

    def abort(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._is_ending = True
        self._leaving_since = self.now()
        self._transport.abort()

    def tick(self) -> None:
        """Looks at all time limits."""
        now = self.now()
        rules = self.rules
        if self._leaving_since is not None and now - self._leaving_since >= rules.closing:
            self.abort("the peer is leaving")
        elif self._is_ending:
            return
        elif not self.is_open:
            if now - self.opened_at >= rules.handshake:
                self.abort("the handshake took too long")
        elif self._stuck_since is not None and now - self._stuck_since >= rules.stuck:
            self.abort("the peer does not read")
        elif self._telling is not None and self._telling.is_stuck(now):
            self.abort("the peer does not take what gossipsub says")
        elif now - self._heard_at >= rules.silence + rules.pong:
            self.abort("the peer is silent")
        else:
            if now - self._heard_at >= rules.silence:
                self._ask_for_life()
            self._expire(now)
            self.flush_soon()

    # -- the socket ----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._socket: socket.socket = transport.get_extra_info("socket")
        self._transport.set_write_buffer_limits(high=_HIGH, low=_LOW)
        name = transport.get_extra_info("peername")
        if name is None:
            self.abort("the peer was gone before it was met")
            return
        self.remote = Multiaddr.of_socket(name[0].partition("%")[0], name[1])
        reason = self._owner.met(self)
        if reason is not None:
            self.abort(reason)
        else:
            self._flush()

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._owner.piece

    def buffer_updated(self, size: int) -> None:
        if self._is_ending:
            return
        if _QUICK_ACK is not None:  # the kernel forgets it after a while, so it is said each time
            self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)
        self._heard_at = self.now()
        try:
            events = self._machine.receive(bytes(self._owner.piece[:size]))
        except PeerFault as fault:
            self.end(str(fault))
            return
        if not self.is_open and self._machine.session is not None:
            self.session = self._machine.session
            self.is_open = True
            self._owner.proved(self)
        self._take_all(events)

    def pause_writing(self) -> None:
        self._stuck_since = self.now()

    def resume_writing(self) -> None:
        self._stuck_since = None
        if not self._is_ending:
            self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._is_ending = True
        reason = self._reason or (str(error) if error is not None else "the peer closed the connection")
        if not self.ready.done():
            self.ready.set_exception(PeerUnreachable(f"There is no connection: {reason}."))
        if self._leaving_since is None:
            self._leaving_since = self.now()
        self._owner.lost(self, reason)
        for talk in self._talks.values():
            talk.ended(reason)
        self._hand_over()
        for delivery in self._waiting:
            delivery.fail(reason)

    def flush_soon(self) -> None:
        """Sends in the next turn of the loop, together with what else there is until then."""
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_due = False
        if not self._is_ending:
            self._flush()
            self._owner.settle(self)

    def _flush(self) -> None:
        while True:
            if self.is_open:
                self._send_waiting()
                if self._telling is not None:
                    self._telling.pump()
            if self._stuck_since is not None or self._is_ending or not (data := self._machine.take(_HIGH)):
                break
            self._transport.write(data)
        self._pace()
        if self._retired and self.session.peer_left and not self.under_way:
            self.end("the connection was not needed any more")

    def _pace(self) -> None:
        """Stops reading while answers pile up."""
        must_pause = self._stuck_since is not None and self._answers() > self.rules.answers
        if must_pause != self._is_paused and not self._is_ending:
            self._is_paused = must_pause
            if must_pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _answers(self) -> int:
        return sum(len(stream.queue) for stream in self._talks if stream.is_inbound)

    # -- streams -------------------------------------------------------------------------------------------

    def _open(self, proposals: tuple[str, ...], serve: Callable[["Link", Stream], _S]) -> _S | None:
        """None if there can be no more streams now."""
        stream = self.session.open()
        if stream is None:
            return None
        serving = serve(self, stream)
        self._talks[stream] = Asking(self, stream, proposals, serving)
        return serving

    def _send_waiting(self) -> None:
        while self._waiting:
            delivery = self._waiting[0]
            size = len(delivery.frame)
            if not delivery.done.done():
                room = self.rules.streams.unsent_total - self.session.unsent
                stream = self.session.open() if size + _NEGOTIATION <= room else None
                if stream is None:
                    return
                serving = Delivering(self, stream, delivery)
                self._talks[stream] = Asking(
                    self, stream, (bilateral.PROTOCOL,), serving, early=delivery.frame
                )
            self._waiting.popleft()
            self._waiting_bytes -= size

    def _take_all(self, events: list[Event]) -> None:
        if self.is_open and not self._is_ending and not self.ready.done():
            self.ready.set_result(None)
        for event in events:
            if self._is_ending:
                return
            self._take(event)
        if not self._is_ending:
            self._flush()
            if events:
                self._forget_gone()
            self._owner.settle(self)

    def _take(self, event: Event) -> None:
        if isinstance(event, Opened):
            self.used_at = min(self.used_at, self._owner.moment())
            self._talks[event.stream] = Answering(self, event.stream)
        elif isinstance(event, Received | Finished | Reset):
            talk = self._talks.get(event.stream)
            if talk is None:
                self.session.consumed(event.stream, event.stream.unread)
            elif isinstance(event, Reset):
                del self._talks[event.stream]
                talk.ended("the peer reset the stream")
            else:
                self._serve(talk, event)
        elif isinstance(event, WentAway):
            self._leave()
            self._hand_over()
        elif isinstance(event, Broken):
            self.end(f"the peer broke the protocol: {event.reason}")

    def _serve(self, talk: Talk, event: Received | Finished) -> None:
        try:
            if isinstance(event, Received):
                talk.receive(event.data)
            else:
                talk.finished()
        except PeerFault as fault:
            self._cut(talk, str(fault))
        # A stream is gone as soon as its last frame is read, and more of its data may be among the events.
        if talk.stream.is_gone and (isinstance(event, Finished) or not talk.stream.peer_finished):
            self._talks.pop(talk.stream, None)

    def _cut(self, talk: Talk, reason: str) -> None:
        self._talks.pop(talk.stream, None)
        self.session.consumed(talk.stream, talk.stream.unread)
        self.session.reset(talk.stream)
        talk.ended(reason)

    def _expire(self, now: int) -> None:
        for talk in list(self._talks.values()):
            if talk.stream.is_gone:
                del self._talks[talk.stream]
            elif talk.deadline is not None and talk.deadline <= now:
                self._cut(talk, "the time was over")

    def _forget_gone(self) -> None:
        """Streams that ended with our last frame are told by no event. Costs little per stream."""
        if len(self._talks) > 2 * self.session.streams + 64:
            self._talks = {stream: talk for stream, talk in self._talks.items() if not stream.is_gone}

    def _ask_for_life(self) -> None:
        if self._pinging is not None and self._pinging.is_open:
            self._pinging.ask(os.urandom(ping.PAYLOAD))
        else:
            self.session.ping(int.from_bytes(os.urandom(4), "big"))

    def _leave(self) -> None:
        if self._leaving_since is None:
            self._leaving_since = self.now()
            self.session.go_away()

    def _hand_over(self) -> None:
        """Gives what has no stream yet to the other connection to this peer, if there is one."""
        while self._waiting and self._owner.again(self, self._waiting[0]):
            self._waiting_bytes -= len(self._waiting.popleft().frame)

    # -- what streams tell ---------------------------------------------------------------------------------

    def identification(self) -> bytes:
        return self._owner.identification(self)

    def identified(self, told: Identification) -> None:
        self.told = told
        self._owner.identified(self, told)

    def heard(self, rpc: bytes) -> None:
        if not self._is_ending:
            self._owner.heard(self, rpc)

    def arrived(self, envelope: bytes, settle: Settle) -> None:
        self._owner.arrived(self, envelope, settle)

    def hears_on(self, serving: Hearing) -> None:
        if self._hearing is not None:
            self.session.reset(self._hearing.stream)
        self._hearing = serving

    def again(self, delivery: Delivery) -> bool:
        if not self._owner.again(self, delivery):
            if self._is_ending:
                return False
            self.deliver(delivery)  # another connection may take it over, while this one ends
        return True


def _seen(ready: asyncio.Future[None]) -> None:
    """A connection that no one waits for may fail without a warning."""
    if not ready.cancelled():
        ready.exception()
