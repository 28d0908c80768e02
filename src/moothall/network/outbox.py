"""Envelopes that leave: in the order that the reference needs, once more after a missing ACK, and bounded.

The reference takes only nonces that rise, for each sender. So there is one envelope at a time for each pair of peer
and sender: the next one leaves after the ACK. What a sender says to a topic leaves after its bilateral envelopes
before it, and before those after it. Peers of ours have a window of nonces and need no order, so no topic waits
for them.

Each envelope is made when its turn comes, and made anew for the retry: a node gives it a new nonce and a new time.
A hall has the bytes that an agent signed. It sends the same ones again, until they are too old.

The reference drops what exceeds 100 messages a second of one peer, in windows of a second (mesh wire 6.4). So it
gets at most `PACE` bilateral envelopes from one `tick` to the next: two such bursts in one of its windows leave
room for topics. What is published is not paced: gossipsub sends it to all peers at once.

The owner calls `connected` and `joined` as its host tells it, `tick` every second, and `close` at the end.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from moothall.errors import PeerError, PeerUnreachable

MAX_WAITING: Final = 1000  # envelopes for one peer
MAX_UNDER_WAY: Final = 96  # of them with a stream: of the 100, some are for gossipsub, ping and identify
MAX_PUBLICATIONS: Final = 1000  # that wait for bilateral envelopes, of all senders
MAX_UNHEARD: Final = 20  # that wait for a peer in their topic (mesh wire 6.2)
PACE: Final = 40  # bilateral envelopes in a tick, to a peer that is not one of ours
PATIENCE: Final = 10_000  # ms that an envelope waits for a connection, and a topic for bilateral envelopes
ATTEMPTS: Final = 2

STALE: Final = "The envelope was not sent: it became too old while it waited."
FULL: Final = "The envelope was not sent: too many envelopes wait for this peer. Try again later."
AWAY: Final = "The envelope was not sent: there is no connection to its peer."
CLOSING: Final = "The envelope was not sent: the node is closing."

Make: TypeAlias = Callable[[], bytes | None]
Done: TypeAlias = Callable[[str | None], None]


class Sends(Protocol):
    """The host, as the outbox uses it."""

    def send(self, peer: bytes, envelope: bytes) -> asyncio.Future[None]: ...

    def publish(self, topic: str, data: bytes) -> int: ...

    def peers_in(self, topic: str) -> list[bytes]: ...


class Statistics(msgspec.Struct, frozen=True):
    waiting: int  # bilateral envelopes without an answer, also those under way
    under_way: int
    publications: int  # that wait for bilateral envelopes
    unheard: int  # that wait for a peer in their topic
    counts: dict[str, int]  # delivered, failed, retried, published, unpublished


class _Letter:
    __slots__ = ("attempts", "done", "is_done", "is_ordered", "make", "peer", "sender")

    def __init__(self, peer: bytes, sender: bytes, make: Make, done: Done, *, is_ordered: bool) -> None:
        self.peer = peer
        self.sender = sender
        self.make = make
        self.done = done
        self.is_ordered = is_ordered
        self.attempts = 0
        self.is_done = False


class _Publication:
    __slots__ = ("due", "is_beacon", "make", "sender", "topic")

    def __init__(self, topic: str, sender: bytes, make: Make, due: int, *, is_beacon: bool) -> None:
        self.topic = topic
        self.sender = sender
        self.make = make
        self.due = due
        self.is_beacon = is_beacon


class _Sender:
    """What it has posted and published, in its order; and how many of its letters a publication waits for."""

    __slots__ = ("pending", "queue")

    def __init__(self) -> None:
        self.queue: deque[_Letter | _Publication] = deque()
        self.pending = 0


class _Peer:
    """`lanes` has the letters of each sender; the first of a lane may be under way. `ready` has the others."""

    __slots__ = ("away_since", "lanes", "ready", "sent", "under_way", "waiting")

    def __init__(self) -> None:
        self.lanes: dict[bytes, deque[_Letter]] = {}
        self.ready: deque[bytes] = deque()
        self.waiting = 0
        self.under_way = 0
        self.sent = 0  # since the last tick
        self.away_since: int | None = None


class Outbox:
    """`now` is in milliseconds. `needs_order` is True for peers that are not ours."""

    def __init__(
        self, host: Sends, now: Callable[[], int], *, needs_order: Callable[[bytes], bool] = lambda peer: True
    ) -> None:
        self._host = host
        self._now = now
        self._needs_order = needs_order
        self._peers: dict[bytes, _Peer] = {}
        self._senders: dict[bytes, _Sender] = {}
        self._publications = 0
        self._unheard: deque[_Publication] = deque()
        self._counts: Counter[str] = Counter(delivered=0, failed=0, retried=0, published=0, unpublished=0)
        self._due: deque[bytes] = deque()  # peers that something may leave for
        self._is_running = False
        self._is_closed = False

    def statistics(self) -> Statistics:
        return Statistics(
            sum(peer.waiting for peer in self._peers.values()),
            sum(peer.under_way for peer in self._peers.values()),
            self._publications,
            len(self._unheard),
            dict(self._counts),
        )

    # -- what the owner asks -------------------------------------------------------------------------------

    def post(self, peer: bytes, sender: bytes, make: Make, done: Done) -> None:
        """Sends an envelope to a peer. `done` is called once: with None after the ACK, or with a reason for people.

        `make` returns the bytes, or None if they are too old. It is called once or twice.
        """
        place = self._peers.setdefault(peer, _Peer())
        if self._is_closed or place.waiting >= MAX_WAITING:
            self._counts["failed"] += 1
            done(CLOSING if self._is_closed else FULL)
            return
        place.waiting += 1
        letter = _Letter(peer, sender, make, done, is_ordered=self._needs_order(peer))
        self._senders.setdefault(sender, _Sender()).queue.append(letter)
        self._advance(sender)
        self._run()

    def publish(self, topic: str, sender: bytes, make: Make, *, is_beacon: bool = False) -> None:
        """Sends an envelope to a topic. If no peer is in it, it waits for one, and is made then.

        A BEACON has nonces of its own and waits for nothing.
        """
        publication = _Publication(topic, sender, make, self._now() + PATIENCE, is_beacon=is_beacon)
        is_full = self._publications >= MAX_PUBLICATIONS and not is_beacon
        if self._is_closed or is_full:
            self._counts["unpublished"] += 1
        elif is_beacon or sender not in self._senders:
            self._bring(publication)
        else:
            self._publications += 1
            self._senders[sender].queue.append(publication)
            self._advance(sender)
            self._run()

    def connected(self, peer: bytes) -> None:
        place = self._peers.get(peer)
        if place is not None:
            place.away_since = None
            self._due.append(peer)
            self._run()

    def joined(self, topic: str) -> None:
        """A peer is in this topic now: what waited for one is made and sent."""
        unheard, self._unheard = self._unheard, deque()
        for publication in unheard:
            if publication.topic == topic:
                self._bring(publication)
            else:
                self._unheard.append(publication)

    def tick(self) -> None:
        """Due every second."""
        now = self._now()
        for name, peer in list(self._peers.items()):
            peer.sent = 0
            if peer.away_since is not None and now - peer.away_since >= PATIENCE:
                self._give_up(peer, AWAY)
            self._due.append(name)
            if not peer.waiting and not peer.under_way:
                del self._peers[name]
        for sender in [name for name, each in self._senders.items() if each.queue]:
            self._advance(sender)
        self._run()

    def close(self) -> None:
        """Everything that is still here fails. Close the host first: it waits for ACKs."""
        self._is_closed = True
        self._unheard.clear()
        self._publications = 0
        for sender in list(self._senders):
            self._advance(sender)
        for peer in list(self._peers.values()):
            self._give_up(peer, CLOSING)

    # -- how it is done ------------------------------------------------------------------------------------

    def _advance(self, sender: bytes) -> None:
        """Moves what a sender has queued to where it leaves from, up to a publication that must wait."""
        state = self._senders.get(sender)
        if state is None:
            return
        while state.queue:
            item = state.queue[0]
            if isinstance(item, _Letter):
                state.pending += item.is_ordered
                lane = self._peers[item.peer].lanes.setdefault(sender, deque())
                lane.append(item)
                if len(lane) == 1:
                    self._peers[item.peer].ready.append(sender)
                    self._due.append(item.peer)
            elif self._is_closed:
                self._counts["unpublished"] += 1
            elif state.pending and self._now() < item.due:
                break
            else:
                self._publications -= 1
                self._bring(item)
            state.queue.popleft()
        if not state.queue and not state.pending:
            del self._senders[sender]

    def _bring(self, publication: _Publication) -> None:
        if not self._host.peers_in(publication.topic):
            self._wait_for_peer(publication)
            return
        data = publication.make()
        if data is None:
            self._counts["unpublished"] += 1
        else:
            self._host.publish(publication.topic, data)
            self._counts["published"] += 1

    def _wait_for_peer(self, publication: _Publication) -> None:
        if publication.is_beacon:
            for older in [each for each in self._unheard if each.is_beacon]:
                if older.sender == publication.sender:
                    self._unheard.remove(older)
        self._unheard.append(publication)
        if len(self._unheard) > MAX_UNHEARD:
            self._unheard.popleft()
            self._counts["unpublished"] += 1

    def _run(self) -> None:
        """Sends what can leave. A callback may post more: that is done in the same loop."""
        if self._is_running:
            return
        self._is_running = True
        try:
            while self._due:
                name = self._due.popleft()
                peer = self._peers.get(name)
                while peer is not None and peer.ready and self._has_room(name, peer):
                    self._start(name, peer, peer.lanes[peer.ready.popleft()])
        finally:
            self._is_running = False

    def _has_room(self, name: bytes, peer: _Peer) -> bool:
        return (
            peer.away_since is None
            and peer.under_way < MAX_UNDER_WAY
            and (peer.sent < PACE or not self._needs_order(name))
        )

    def _start(self, name: bytes, peer: _Peer, lane: deque[_Letter]) -> None:
        letter = lane[0]
        data = letter.make()
        if data is None:
            self._finish(peer, letter, STALE)
            return
        try:
            sent = self._host.send(name, data)
        except PeerUnreachable:
            peer.away_since = self._now()
            peer.ready.appendleft(letter.sender)
            return
        except ValueError as error:
            self._finish(peer, letter, f"The envelope was not sent: {error}.")
            return
        letter.attempts += 1
        peer.sent += 1
        peer.under_way += 1
        sent.add_done_callback(lambda sent: self._ended(peer, letter, sent))

    def _ended(self, peer: _Peer, letter: _Letter, sent: asyncio.Future[None]) -> None:
        error = PeerError(CLOSING) if sent.cancelled() else sent.exception()
        peer.under_way -= 1
        if letter.is_done:  # it was given up before
            return
        self._due.append(letter.peer)
        if error is None or letter.attempts >= ATTEMPTS:
            self._finish(peer, letter, None if error is None else str(error))
        else:
            self._counts["retried"] += 1
            peer.ready.appendleft(letter.sender)
        self._run()

    def _finish(self, peer: _Peer, letter: _Letter, reason: str | None) -> None:
        """The first letter of its lane is done."""
        peer.waiting -= 1
        lane = peer.lanes[letter.sender]
        lane.popleft()
        if lane:
            peer.ready.append(letter.sender)
        else:
            del peer.lanes[letter.sender]
        self._done(letter, reason)

    def _done(self, letter: _Letter, reason: str | None) -> None:
        self._counts["delivered" if reason is None else "failed"] += 1
        letter.is_done = True
        state = self._senders.get(letter.sender)
        if state is not None:
            state.pending -= letter.is_ordered
            self._advance(letter.sender)
        letter.done(reason)

    def _give_up(self, peer: _Peer, reason: str) -> None:
        lanes, peer.lanes = peer.lanes, {}
        peer.ready.clear()
        peer.away_since = None
        for lane in lanes.values():
            for letter in lane:
                peer.waiting -= 1
                self._done(letter, reason)
