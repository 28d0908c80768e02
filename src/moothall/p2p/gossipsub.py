"""gossipsub 1.1: how messages get from their author to all nodes in a topic (mesh wire 6.2).

In each topic a node keeps a mesh: a few peers that it passes every message on to, in full. GRAFT takes a peer into
the mesh, PRUNE puts it out; after that the two wait (the backoff) before they try again. Other peers are told from
time to time which messages there are (IHAVE), and ask for those they missed (IWANT). A node sends its own messages
to all peers in the topic (flood publish), not only to its mesh.

A peer can make us work for it only within budgets, which are filled again at each heartbeat: what it may tell of,
what it may ask for in bytes, how many refusals it is sent, and how many signatures may not hold. What is over is
ignored; a peer over the last of them is to be cut off. That one is wide: an honest relay may have checked a
signature by looser rules than ours.

Nothing here has a clock or a die: `now` is in milliseconds, and `choose` picks so many of a list at random. Frames
to send are collected by `outgoing`; what a slow peer cannot take may be dropped. Say `missed`, and IHAVE brings it
back.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeAlias, TypeVar

import msgspec

from moothall.p2p.message_cache import GOSSIP, History, Seen
from moothall.p2p.pubsub import Message, Prune, Rpc

MAX_BACKOFFS: Final = 10_000  # pairs of peer and topic
_MOST_BACKOFF: Final = 600_000  # ms that a peer can make us wait
_TOPICS_AT_ONCE: Final = 200  # in one RPC, so that it stays below 64 KiB
_IDS_AT_ONCE: Final = 800

_T = TypeVar("_T")
Choose: TypeAlias = Callable[[Sequence[bytes], int], list[bytes]]


class Rules(msgspec.Struct, frozen=True):
    degree: int = 6  # peers that a mesh should have
    low: int = 5  # with fewer, others are taken in
    high: int = 12  # with more, some are put out
    outbound: int = 2  # peers of a mesh that we dialled, at least: others cannot surround us
    lazy: int = 6  # peers outside of the mesh that are told of messages, at least
    lazy_share: float = 0.25  # of the peers outside
    backoff: int = 60_000  # ms after PRUNE
    unsubscribe_backoff: int = 10_000
    topics: int = 256  # of one peer
    # Budgets of a peer, from heartbeat to heartbeat.
    ihaves: int = 10  # messages IHAVE that are looked at
    asked: int = 5000  # messages that we ask it for
    answered: int = 2 * 1024 * 1024  # bytes of messages that it gets for IWANT
    refusals: int = 64  # PRUNEs as answers to GRAFT
    forged: int = 500  # messages whose signature does not hold: 30 ms of work


class Outcome(StrEnum):
    """What became of a message."""

    NEW = "new"  # to be looked at by the node; it was passed on
    DUPLICATE = "duplicate"
    OWN = "own"
    UNWANTED = "unwanted"  # in a topic that we are not in
    FORGED = "forged"  # its signature does not hold


class Joined(msgspec.Struct, frozen=True):
    """A peer is in a topic now: what is said in it will get there."""

    peer: bytes
    topic: str


class Left(msgspec.Struct, frozen=True):
    peer: bytes
    topic: str


class Statistics(msgspec.Struct, frozen=True):
    peers: int
    meshes: dict[str, int]  # topic: peers in its mesh
    seen: int
    kept: int
    kept_bytes: int


class _Peer:
    __slots__ = ("answered", "asked", "forged", "ihaves", "is_outbound", "missed", "refusals", "topics")

    def __init__(self, *, is_outbound: bool) -> None:
        self.is_outbound = is_outbound
        self.topics: set[str] = set()
        self.missed = 0  # heartbeats that it is told of messages, though it is in the mesh
        self.refill()

    def refill(self) -> None:
        self.ihaves = self.asked = self.answered = self.refusals = self.forged = 0


class GossipSub:
    """One node. Peers have the name of their key."""

    def __init__(self, agent_id: bytes, *, choose: Choose, rules: Rules | None = None) -> None:
        self._agent_id = agent_id
        self._choose = choose
        self._rules = rules or Rules()
        self._peers: dict[bytes, _Peer] = {}
        self._meshes: dict[str, set[bytes]] = {}  # our topics
        self._backoffs: OrderedDict[tuple[bytes, str], int] = OrderedDict()  # until when
        self._seen = Seen()
        self._history = History()
        self._frames: list[tuple[bytes, bytes]] = []
        self._grafts: dict[bytes, list[str]] = {}
        self._prunes: dict[bytes, list[Prune]] = {}

    def statistics(self) -> Statistics:
        meshes = {topic: len(mesh) for topic, mesh in self._meshes.items()}
        return Statistics(len(self._peers), meshes, len(self._seen), len(self._history), self._history.size)

    def peers_in(self, topic: str) -> list[bytes]:
        return [name for name, peer in self._peers.items() if topic in peer.topics]

    def topics_of(self, name: bytes) -> list[str]:
        """The topics that a peer is in."""
        return list(self._peers[name].topics)

    def outgoing(self) -> list[tuple[bytes, bytes]]:
        """Frames to send, each with its peer. A message has the same frame for all."""
        for name, topics in self._grafts.items():
            self._frames += [(name, Rpc(graft=some).encode()) for some in _some(topics, _TOPICS_AT_ONCE)]
        for name, prunes in self._prunes.items():
            self._frames += [(name, Rpc(prune=some).encode()) for some in _some(prunes, _TOPICS_AT_ONCE)]
        frames, self._frames, self._grafts, self._prunes = self._frames, [], {}, {}
        return frames

    # -- peers and topics ----------------------------------------------------------------------------------

    def connect(self, name: bytes, *, is_outbound: bool) -> None:
        """A peer is there, and is told of our topics. Its own come in an RPC."""
        self._peers[name] = _Peer(is_outbound=is_outbound)
        self.greet(name)

    def greet(self, name: bytes) -> None:
        """A peer is told of our topics, as on each new connection."""
        for topics in _some(list(self._meshes), _TOPICS_AT_ONCE):
            self._frames.append((name, Rpc(subscriptions=[(True, topic) for topic in topics]).encode()))

    def disconnect(self, name: bytes) -> None:
        """A peer is gone. How long it must wait for a mesh is remembered."""
        if self._peers.pop(name, None) is not None:
            for mesh in self._meshes.values():
                mesh.discard(name)
            self._grafts.pop(name, None)
            self._prunes.pop(name, None)
            self._frames = [(to, frame) for to, frame in self._frames if to != name]

    def join(self, topic: str, now: int) -> None:
        if topic not in self._meshes:
            self._meshes[topic] = set()
            self._tell_all(Rpc(subscriptions=[(True, topic)]))
            self._fill(topic, now)

    def leave(self, topic: str, now: int) -> None:
        mesh = self._meshes.pop(topic, None)
        if mesh is not None:
            for name in mesh:
                self._prune(name, topic, now, self._rules.unsubscribe_backoff)
            self._tell_all(Rpc(subscriptions=[(False, topic)]))

    # -- messages ------------------------------------------------------------------------------------------

    def publish(self, message: Message, now: int, only: bytes | None = None) -> int:
        """Sends a message of our own to all peers in its topic, or to one of them. Returns how many there are."""
        peers = [name for name in self.peers_in(message.topic) if only in (None, name)]
        self._send(message, peers, now)
        return len(peers)

    def take(self, name: bytes, message: Message, now: int) -> Outcome:
        """A message from a peer. One that is new is passed on to the mesh of its topic.

        Only a message that its author signed is remembered as seen: a forged one cannot take its place.
        """
        if message.topic not in self._meshes:
            return Outcome.UNWANTED
        if message.author == self._agent_id:
            return Outcome.OWN
        if message.id in self._seen:
            return Outcome.DUPLICATE
        if not message.is_authentic:
            if name in self._peers:
                self._peers[name].forged += 1
            return Outcome.FORGED
        self._send(message, self._meshes[message.topic] - {name, message.author}, now)
        return Outcome.NEW

    def is_forger(self, name: bytes) -> bool:
        """True if a peer sent too many messages whose signatures do not hold."""
        peer = self._peers.get(name)
        return peer is not None and peer.forged > self._rules.forged

    def missed(self, name: bytes) -> None:
        """A message for a peer was dropped. It is told of messages like those outside of the mesh, for a while."""
        if name in self._peers:
            self._peers[name].missed = GOSSIP

    def _send(self, message: Message, names: Iterable[bytes], now: int) -> None:
        self._seen.add(message.id, now)
        frame = self._history.add(message)
        self._frames += [(name, frame) for name in names]

    # -- what peers say ------------------------------------------------------------------------------------

    def hear(self, name: bytes, rpc: Rpc, now: int) -> list[Joined | Left]:
        """All that an RPC says, but for its messages: those go to `take`, one by one."""
        peer = self._peers.get(name)
        if peer is None:
            return []
        events = self._hear_subscriptions(name, peer, rpc, now)
        for topic in rpc.graft:
            events += self._hear_graft(name, peer, topic, now)
        for prune in rpc.prune:
            self._hear_prune(name, prune, now)
        for topic, ids in rpc.ihave:
            self._hear_ihave(name, peer, topic, ids)
        for message_id in dict.fromkeys(rpc.iwant):
            self._hear_iwant(name, peer, message_id)
        return events

    def _hear_subscriptions(self, name: bytes, peer: _Peer, rpc: Rpc, now: int) -> list[Joined | Left]:
        events: list[Joined | Left] = []
        for subscribes, topic in rpc.subscriptions:
            if subscribes:
                joined = self._subscribe(name, peer, topic)
                events += joined
                if joined and len(self._meshes.get(topic, ())) < self._rules.low:
                    self._graft_some(topic, [name], 1, now)
            elif topic in peer.topics:
                peer.topics.discard(topic)
                self._meshes.get(topic, set()).discard(name)
                events.append(Left(name, topic))
        return events

    def _subscribe(self, name: bytes, peer: _Peer, topic: str) -> list[Joined | Left]:
        if not topic or topic in peer.topics or len(peer.topics) >= self._rules.topics:
            return []
        peer.topics.add(topic)
        return [Joined(name, topic)]

    def _hear_graft(self, name: bytes, peer: _Peer, topic: str, now: int) -> list[Joined | Left]:
        mesh = self._meshes.get(topic)
        if mesh is None or name in mesh:
            return []  # a peer that guesses topics is not told which ones we are in
        # rust-libp2p sends GRAFT ahead of its subscriptions, so it counts as one.
        events = self._subscribe(name, peer, topic)
        if topic not in peer.topics:
            return []
        is_full = len(mesh) >= self._rules.high and not peer.is_outbound
        if not is_full and not self._must_wait(name, topic, now):
            mesh.add(name)
        elif peer.refusals < self._rules.refusals:
            peer.refusals += 1
            self._prune(name, topic, now, self._rules.backoff)
        return events

    def _hear_prune(self, name: bytes, prune: Prune, now: int) -> None:
        mesh = self._meshes.get(prune.topic)
        if mesh is not None:
            mesh.discard(name)
            wait = self._rules.backoff if prune.backoff is None else 1000 * prune.backoff
            self._back_off(name, prune.topic, now + min(wait, _MOST_BACKOFF))

    def _hear_ihave(self, name: bytes, peer: _Peer, topic: str, ids: list[bytes]) -> None:
        peer.ihaves += 1
        if topic not in self._meshes or peer.ihaves > self._rules.ihaves:
            return
        missing = list(dict.fromkeys(each for each in ids if each not in self._seen))
        missing = missing[: self._rules.asked - peer.asked]
        peer.asked += len(missing)
        self._frames += [(name, Rpc(iwant=some).encode()) for some in _some(missing, _IDS_AT_ONCE)]

    def _hear_iwant(self, name: bytes, peer: _Peer, message_id: bytes) -> None:
        frame = self._history.frame(message_id)
        if frame is not None and peer.answered + len(frame) <= self._rules.answered:
            peer.answered += len(frame)
            self._frames.append((name, frame))

    # -- the heartbeat -------------------------------------------------------------------------------------

    def heartbeat(self, now: int) -> None:
        """Mends the meshes, tells others of messages, forgets what is old. Due every ten seconds."""
        for peer in self._peers.values():
            peer.refill()
        while self._backoffs and next(iter(self._backoffs.values())) <= now:
            self._backoffs.popitem(last=False)
        for topic, mesh in self._meshes.items():
            if len(mesh) < self._rules.low:
                self._fill(topic, now)
            elif len(mesh) > self._rules.high:
                self._thin(topic, mesh, now)
            self._mend_outbound(topic, mesh, now)
            self._gossip(topic, mesh)
        for peer in self._peers.values():
            peer.missed = max(0, peer.missed - 1)
        self._history.shift()
        self._seen.forget(now)

    def _fill(self, topic: str, now: int) -> None:
        self._graft_some(topic, self.peers_in(topic), self._rules.degree - len(self._meshes[topic]), now)

    def _thin(self, topic: str, mesh: set[bytes], now: int) -> None:
        """Puts peers out until the degree is right. Some that we dialled stay."""
        dialled = [name for name in mesh if self._peers[name].is_outbound]
        staying = set(self._choose(dialled, min(self._rules.outbound, len(dialled))))
        others = sorted(mesh - staying)
        staying.update(self._choose(others, self._rules.degree - len(staying)))
        for name in mesh - staying:
            mesh.discard(name)
            self._prune(name, topic, now, self._rules.backoff)

    def _mend_outbound(self, topic: str, mesh: set[bytes], now: int) -> None:
        if len(mesh) >= self._rules.low:
            dialled = sum(self._peers[name].is_outbound for name in mesh)
            others = [name for name in self.peers_in(topic) if self._peers[name].is_outbound]
            self._graft_some(topic, others, self._rules.outbound - dialled, now)

    def _gossip(self, topic: str, mesh: set[bytes]) -> None:
        ids = self._history.ids(topic)
        if not ids:
            return
        peers = self.peers_in(topic)
        others = [name for name in peers if name not in mesh]
        count = max(self._rules.lazy, int(len(others) * self._rules.lazy_share))
        chosen = self._choose(others, min(count, len(others)))
        chosen += [name for name in peers if self._peers[name].missed and name not in chosen]
        # Each frame is made once, and a peer gets some of them: a heartbeat must not take long with many peers.
        frames = [Rpc(ihave=[(topic, part)]).encode() for part in _some(ids, _IDS_AT_ONCE)]
        most = min(max(1, self._rules.asked // _IDS_AT_ONCE), len(frames))
        for name in chosen:
            self._frames += [(name, frame) for frame in self._choose(frames, most)]

    # -- how it is done ------------------------------------------------------------------------------------

    def _graft_some(self, topic: str, names: list[bytes], count: int, now: int) -> None:
        mesh = self._meshes.get(topic)
        if mesh is None or count <= 0:
            return
        able = [name for name in names if name not in mesh and not self._must_wait(name, topic, now)]
        for name in self._choose(able, min(count, len(able))):
            mesh.add(name)
            self._grafts.setdefault(name, []).append(topic)

    def _prune(self, name: bytes, topic: str, now: int, wait: int) -> None:
        self._back_off(name, topic, now + wait)
        self._prunes.setdefault(name, []).append(Prune(topic, wait // 1000))

    def _back_off(self, name: bytes, topic: str, until: int) -> None:
        """The two wait for each other's sake. A shorter wait does not replace a longer one."""
        until = max(until, self._backoffs.pop((name, topic), 0))
        self._backoffs[name, topic] = until
        if len(self._backoffs) > MAX_BACKOFFS:
            self._backoffs.popitem(last=False)

    def _must_wait(self, name: bytes, topic: str, now: int) -> bool:
        return self._backoffs.get((name, topic), 0) > now

    def _tell_all(self, rpc: Rpc) -> None:
        frame = rpc.encode()
        self._frames += [(name, frame) for name in self._peers]


def _some(items: list[_T], most: int) -> Iterator[list[_T]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]
