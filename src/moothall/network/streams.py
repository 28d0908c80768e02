"""What each stream of a connection is for, from its negotiation to its end.

A stream that a peer opened is Answering: it agrees on a protocol and hands over to what serves that. A stream of
ours is Asking. A fault of the peer ends the stream, not the connection.

`deadline` is when a stream is reset if it is still there; None for those that stay as long as the connection.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

from moothall.errors import NotDelivered
from moothall.hall.mesh.network import Settle
from moothall.network.rules import Rules
from moothall.p2p import bilateral, identify, ping, pubsub
from moothall.p2p.delimited import Delimited
from moothall.p2p.multistream import Initiator, Responder
from moothall.p2p.yamux import Session
from moothall.p2p.yamux_streams import Stream
from moothall.wire.mesh.frames import ACK, frame


class Line(Protocol):
    """The connection, as its streams see it."""

    session: Session
    rules: Rules

    @property
    def agent_id(self) -> bytes: ...

    @property
    def is_leaving(self) -> bool: ...

    def now(self) -> int: ...

    def end(self, reason: str) -> None: ...

    def identification(self) -> bytes: ...

    def identified(self, told: identify.Identification) -> None: ...

    def heard(self, rpc: bytes) -> None: ...

    def arrived(self, envelope: bytes, settle: Settle) -> None: ...

    def flush_soon(self) -> None: ...

    def hears_on(self, serving: "Hearing") -> None: ...

    def again(self, delivery: "Delivery") -> bool: ...


class Serving:
    """One protocol on one stream, after the negotiation. By default it says nothing and listens to nothing."""

    holds = False  # True while received bytes are kept: their window is not returned

    def __init__(self, line: Line, stream: Stream) -> None:
        self.line = line
        self.stream = stream
        self.deadline: int | None = line.now() + line.rules.stream

    def begin(self) -> None: ...

    def receive(self, data: bytes) -> None:
        """Raises PeerFault."""

    def finished(self) -> None:
        """The peer sends no more. Raises PeerFault."""
        self.finish()

    def ended(self, reason: str) -> None:
        """The stream is gone before its time."""

    def send(self, data: bytes) -> None:
        if data and not self.line.session.send(self.stream, data):
            self.line.session.reset(self.stream)  # the peer does not read what it asked for

    def finish(self) -> None:
        self.line.session.finish(self.stream)


class Identifying(Serving):
    """The peer asks who we are."""

    def begin(self) -> None:
        self.send(self.line.identification())
        self.finish()


class Learning(Serving):
    """The peer tells who it is, in a push or because we asked. Its bytes count as unread until the end."""

    holds = True

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._reading = identify.Reading(line.agent_id)

    def receive(self, data: bytes) -> None:
        self._reading.receive(data)

    def finished(self) -> None:
        self.finish()
        self.line.identified(self._reading.end())


class Echoing(Serving):
    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._echo = ping.Echo()

    def receive(self, data: bytes) -> None:
        self.deadline = self.line.now() + self.line.rules.idle_stream
        self.send(self._echo.receive(data))


class Hearing(Serving):
    """What the peer says in gossipsub. It has one such stream: a new one takes the place of the old."""

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self.deadline = None
        self._rpcs = Delimited(pubsub.MAX_RPC)

    @property
    def size(self) -> int:
        """Bytes of an RPC that is not complete."""
        return self._rpcs.size

    def begin(self) -> None:
        self.line.hears_on(self)

    def receive(self, data: bytes) -> None:
        for rpc in self._rpcs.receive(data):
            self.line.heard(rpc)

    def finished(self) -> None:
        self.finish()
        self._rpcs.clear()

    def ended(self, reason: str) -> None:
        self._rpcs.clear()


class Receiving(Serving):
    """An envelope arrives. Its bytes count as unread until it is complete: so all of them together are bounded.

    ACK is the answer when the program has it safe. A reset tells the peer to send it again.
    """

    holds = True

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._request = bilateral.Request()

    def receive(self, data: bytes) -> None:
        self._request.receive(data)
        if self.holds and self._request.envelope is not None:
            self.holds = False
            self.line.arrived(self._request.envelope, self._settle)

    def finished(self) -> None:
        if self.holds:
            self.line.session.reset(self.stream)

    def _settle(self, is_taken: bool) -> None:
        if self.stream.is_gone:
            return  # it took too long, or the connection has ended
        if is_taken:
            self.send(ACK)
            self.finish()
        else:
            self.line.session.reset(self.stream)
        self.line.flush_soon()


SERVED: Final[dict[str, type[Serving]]] = {
    **dict.fromkeys(pubsub.PROTOCOLS, Hearing),
    bilateral.PROTOCOL: Receiving,
    identify.IDENTIFY: Identifying,
    identify.IDENTIFY_PUSH: Learning,
    ping.PROTOCOL: Echoing,
}


class Announcing(Serving):
    """We tell who we are, unasked."""

    begin = Identifying.begin


class Pinging(Serving):
    """Asks for a sign of life, one at a time."""

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._pinger = ping.Pinger()
        self.is_open = False

    def begin(self) -> None:
        self.deadline = None
        self.is_open = True

    def ask(self, payload: bytes) -> None:
        if not self._pinger.is_waiting:
            self.send(self._pinger.ask(payload))

    def receive(self, data: bytes) -> None:
        self._pinger.receive(data)

    def ended(self, reason: str) -> None:
        self.is_open = False


class Telling(Serving):
    """What we say in gossipsub. Frames wait here while the stream has no room."""

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._frames: deque[bytes] = deque()
        self._is_open = False
        self._is_over = False
        self.size = 0
        self.dropped = 0
        self._stuck_since: int | None = None  # the peer took nothing since then, and something waits

    def begin(self) -> None:
        self.deadline = None
        self._is_open = True
        self.pump()

    def tell(self, frame: bytes) -> bool:
        """Queues a frame. False if a message was dropped, because there is no room.

        What tells of messages is dropped too. A peer without room for other control is cut off.
        """
        if self._is_over:
            return True
        rules = self.line.rules
        size = self.size + len(frame)
        if size > rules.gossip_queue:
            if pubsub.is_publication(frame):
                self.dropped += 1
                return False
            if pubsub.is_offer(frame):
                return True
            if size > rules.gossip_queue + rules.control_queue:
                self.line.end("the peer does not read what gossipsub says")
                return True
        self._frames.append(frame)
        self.size = size
        self.pump()
        return True

    def pump(self) -> None:
        while self._is_open and self._frames and self.line.session.send(self.stream, self._frames[0]):
            self.size -= len(self._frames.popleft())
            self._stuck_since = None
        if self._is_open and self._frames and self._stuck_since is None:
            self._stuck_since = self.line.now()

    def is_stuck(self, now: int) -> bool:
        """True if the peer has returned no window for too long, whether or not it reads the socket."""
        return self._stuck_since is not None and now - self._stuck_since >= self.line.rules.stuck

    def finished(self) -> None:
        """The other direction is not used; rust-libp2p closes it."""

    def ended(self, reason: str) -> None:
        self._is_over = True
        self._frames.clear()
        self.size = 0
        if self._is_open:
            self.line.end(f"the peer ended the stream of gossipsub: {reason}")


class Delivery:
    """An envelope on its way to one peer. `done` ends when the peer has answered ACK, or with NotDelivered."""

    def __init__(self, envelope: bytes, done: asyncio.Future[None]) -> None:
        self.frame = frame(envelope)
        self.done = done

    def fail(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(NotDelivered(f"The envelope was not delivered: {reason}."))


class Delivering(Serving):
    """Sends an envelope, and waits for exactly ACK."""

    def __init__(self, line: Line, stream: Stream, delivery: Delivery) -> None:
        super().__init__(line, stream)
        self.delivery = delivery
        self._answer = bilateral.Answer()
        self._is_agreed = False

    def begin(self) -> None:
        self._is_agreed = True
        self.finish()

    def receive(self, data: bytes) -> None:
        self._answer.receive(data)
        if self._answer.is_complete and not self.delivery.done.done():
            self.delivery.done.set_result(None)

    def finished(self) -> None:
        if not self._answer.is_complete:
            self.line.session.reset(self.stream)
            self.ended("the peer ended the stream without ACK")

    def ended(self, reason: str) -> None:
        # A peer that is leaving refuses streams before it looks at them.
        if self._is_agreed or not self.line.is_leaving or not self.line.again(self.delivery):
            self.delivery.fail(reason)


class Talk:
    """A stream from its beginning: the negotiation, and then what serves its protocol."""

    def __init__(self, line: Line, stream: Stream) -> None:
        self.line = line
        self.stream = stream
        self._began = line.now()
        self._unread = 0
        self.serving: Serving | None = None

    @property
    def deadline(self) -> int | None:
        return self._began + self.line.rules.stream if self.serving is None else self.serving.deadline

    def receive(self, data: bytes) -> None:
        """Raises PeerFault: then the stream must be reset."""
        self._unread += len(data)
        self._take(data)
        if self.serving is None or not self.serving.holds:
            self.line.session.consumed(self.stream, self._unread)
            self._unread = 0

    def _take(self, data: bytes) -> None:
        raise NotImplementedError

    def finished(self) -> None:
        """The peer sends no more. Raises PeerFault."""
        if self.serving is None:
            self.line.session.reset(self.stream)
        else:
            self.serving.finished()
        self.line.session.consumed(self.stream, self._unread)

    def ended(self, reason: str) -> None:
        if self.serving is not None:
            self.serving.ended(reason)


class Answering(Talk):
    """The peer opened the stream and proposes what to do with it."""

    def __init__(self, line: Line, stream: Stream) -> None:
        super().__init__(line, stream)
        self._negotiation = Responder(SERVED)

    def _take(self, data: bytes) -> None:
        if self.serving is None:
            answer = self._negotiation.receive(data)
            if answer and not self.line.session.send(self.stream, answer):
                self.line.session.reset(self.stream)
                return
            if self._negotiation.agreed is None:
                return
            data = self._negotiation.rest()
            self.serving = SERVED[self._negotiation.agreed](self.line, self.stream)
            self.serving.begin()
        if data:
            self.serving.receive(data)


class Asking(Talk):
    """We opened the stream. `early` follows the proposal at once, which saves a round trip."""

    def __init__(
        self,
        line: Line,
        stream: Stream,
        proposals: tuple[str, ...],
        serving: Serving,
        early: bytes = b"",
    ) -> None:
        super().__init__(line, stream)
        self.serving: Serving = serving
        self._negotiation = Initiator(proposals)
        self.serving.send(self._negotiation.start() + early)

    def _take(self, data: bytes) -> None:
        if not self._is_agreed():
            self.serving.send(self._negotiation.receive(data))
            if not self._is_agreed():
                return
            data = self._negotiation.rest()
            self.serving.begin()
        if data:
            self.serving.receive(data)

    def _is_agreed(self) -> bool:
        return self._negotiation.agreed is not None
