"""A host: one key, its connections to peers, gossipsub over all of them, and envelopes to each.

There is one connection per peer. If two peers dial each other at the same time, the one that the smaller key
dialled stays; both sides know that. A connection that comes much later takes the place of the old one: a peer that
dials has none that works.

A node of the reference that starts may dial twice at once. It says only once which topics it is in, and forgets
who we are when either connection ends. So the second one is kept as a spare: the peer may use it, and it takes the
place of the first one when that is lost. When a connection ends and another stays, the resident hears of the peer
again.

The clock and the timer are handed in. Time limits are looked at in ticks of a second, all of them.
"""

import asyncio
import random
import socket
import time
from itertools import count
from typing import Final

import msgspec

from moothall.errors import PeerUnreachable
from moothall.hall.access import AddressCounts
from moothall.hall.mesh.network import Settle
from moothall.network.link import PIECE, Link
from moothall.network.outside import LoopTime, Outside
from moothall.network.redial import Kept, Redial
from moothall.network.resident import Resident
from moothall.network.rules import Rules
from moothall.network.streams import SERVED, Delivery
from moothall.p2p import gossipsub
from moothall.p2p.gossipsub import GossipSub, Joined, Outcome
from moothall.p2p.handshake import Credentials
from moothall.p2p.identify import Identification
from moothall.p2p.multiaddr import Multiaddr
from moothall.p2p.pubsub import decode_rpc, signed_message

OURS: Final = "moothall"  # what our programs begin their agent_version with

_UNSPECIFIED: Final = ("0.0.0.0", "::")  # noqa: S104  # to tell that no peer can dial them
_NOWHERE: Final = Multiaddr("ip6", "::", 0)  # as long as an observed address gets
_BACKLOG: Final = 1024  # connections that the kernel may hold for us
_FAMILIES: Final = {
    "ip4": socket.AF_INET,
    "dns4": socket.AF_INET,
    "ip6": socket.AF_INET6,
    "dns6": socket.AF_INET6,
}


class Peer(msgspec.Struct, frozen=True):
    """A connection, for people and metrics."""

    agent_id: bytes
    address: Multiaddr  # of its end of the connection
    is_outbound: bool
    opened_at: int
    told: Identification | None
    waiting: int  # bytes
    dropped: int  # messages of gossipsub that it was too slow for


class KeptPeer(msgspec.Struct, frozen=True):
    """A configured address, for people and metrics."""

    address: Multiaddr
    agent_id: bytes | None  # as the address says it, or as it was found there
    is_connected: bool
    error: str  # of the last attempt; empty if it succeeded, or is the first and under way


class Statistics(msgspec.Struct, frozen=True):
    connections: int  # also those in their handshake
    peers: int
    waiting: int  # bytes, for and from all peers
    dropped: int
    refused: int  # connections over a limit
    outcomes: dict[str, int]  # of messages in topics
    gossip: gossipsub.Statistics


class Host:
    """`secret` comes from `identity.signatures.expand`. Raises nothing because of what a peer does.

    host = Host(secret, resident, agent_version="moothall/1.0")
    await host.listen(Multiaddr.parse("/ip4/0.0.0.0/tcp/9000"))
    host.keep(Multiaddr.parse("/ip4/192.0.2.1/tcp/9000/p2p/12D3KooW..."))
    """

    def __init__(
        self,
        secret: bytes,
        resident: Resident,
        *,
        agent_version: str,
        rules: Rules | None = None,
        outside: Outside | None = None,
    ) -> None:
        self.rules = rules or Rules()
        self._loop = asyncio.get_running_loop()
        self._outside = outside or LoopTime()
        self._secret = secret
        self._resident = resident
        self._agent_version = agent_version
        die = random.SystemRandom()
        self.credentials = Credentials(secret, die.randbytes(32))
        self.agent_id = self.credentials.agent_id
        self.piece = bytearray(PIECE)
        self._gossip = GossipSub(
            self.agent_id,
            choose=lambda names, most: die.sample(list(names), most),
            rules=self.rules.gossip,
        )
        self._seqnos = count(time.time_ns())  # goes up, also over restarts
        self._addresses: tuple[Multiaddr, ...] = ()
        self._servers: list[asyncio.Server] = []
        self._all: set[Link] = set()
        self._links: dict[bytes, Link] = {}  # one for each peer
        self._spares: dict[bytes, Link] = {}  # the second one of a peer
        self._moments = count()
        self._inbound = 0
        self._unproven: dict[Link, None] = {}  # inbound connections in their handshake, oldest first
        self._by_address = AddressCounts(self.rules.per_address)
        self._redial = Redial(self.rules, die.random)
        self._dials: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._dropped = 0
        self._refused = 0
        self._outcomes = dict.fromkeys((*Outcome, "malformed", "not admitted"), 0)
        self._is_closing = False
        self._empty = asyncio.Event()
        self._heartbeat_at = self.now() + self.rules.first_heartbeat
        self._alarm = self._outside.call_later(self.rules.tick, self._tick)

    # -- what the program asks -----------------------------------------------------------------------------

    def now(self) -> int:
        return self._outside.now()

    async def listen(self, address: Multiaddr) -> Multiaddr:
        """Returns the address with the port that was taken. Raises OSError.

        Peers are told of it, unless it stands for all addresses of the machine: then `announce` those that they can
        reach.
        """
        server = await self._loop.create_server(
            lambda: Link(self, is_outbound=False), address.host, address.port, backlog=_BACKLOG
        )
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        bound = msgspec.structs.replace(address, port=port, agent_id=self.agent_id)
        if address.host not in _UNSPECIFIED:
            self.announce((*self._addresses, bound))
        return bound

    def announce(self, addresses: tuple[Multiaddr, ...]) -> None:
        """Tells peers where this host can be reached: those that are here, and those to come.

        Raises ValueError if there are too many addresses for one message.
        """
        self._identification(addresses).encode()
        self._addresses = addresses
        for link in self._links.values():
            link.announce()

    async def dial(self, address: Multiaddr) -> bytes:
        """The key of the peer at an address, which is connected now. Raises PeerUnreachable."""
        if address.agent_id is not None and address.agent_id in self._links:
            return address.agent_id
        try:
            async with asyncio.timeout(self.rules.handshake / 1000):
                _, link = await self._loop.create_connection(
                    lambda: Link(self, is_outbound=True, expected=address.agent_id),
                    address.host,
                    address.port,
                    family=_FAMILIES.get(address.kind, socket.AF_UNSPEC),
                )
        except (OSError, UnicodeError, TimeoutError) as error:
            raise PeerUnreachable(f"Cannot connect to {address}: {str(error) or 'no answer'}.") from None
        await link.ready
        return link.agent_id

    def keep(self, address: Multiaddr) -> None:
        """Connects to an address, and again whenever the connection is lost."""
        self._redial.keep(address)
        self._dial_due()

    def kept(self) -> list[KeptPeer]:
        """The addresses that were given to `keep`."""
        return [
            KeptPeer(kept.address, kept.agent_id, kept.agent_id in self._links, kept.error)
            for kept in self._redial.kept()
        ]

    def peers(self) -> list[Peer]:
        return [self.peer(name) for name in self._links]

    def peer(self, name: bytes) -> Peer:
        """One that is connected."""
        link = self._links[name]
        return Peer(name, link.remote, link.is_outbound, link.opened_at, link.told, link.held, link.dropped)

    def is_ours(self, name: bytes) -> bool:
        """True for a peer that has identified itself as a program of ours. It takes envelopes in any order."""
        link = self._links.get(name)
        told = None if link is None else link.told
        return told is not None and told.agent_version.partition("/")[0] == OURS

    def peers_in(self, topic: str) -> list[bytes]:
        return self._gossip.peers_in(topic)

    def statistics(self) -> Statistics:
        return Statistics(
            len(self._all),
            len(self._links),
            self._waiting,
            self._dropped + sum(link.dropped for link in self._links.values()),
            self._refused,
            {str(outcome): number for outcome, number in self._outcomes.items()},
            self._gossip.statistics(),
        )

    def join(self, topic: str) -> None:
        self._gossip.join(topic, self.now())
        self._pump()

    def leave(self, topic: str) -> None:
        self._gossip.leave(topic, self.now())
        self._pump()

    def publish(self, topic: str, data: bytes, *, only: bytes | None = None) -> int:
        """Sends to all peers in a topic, or first to one of them. Returns how many there are.

        Raises ValueError if it is too long.
        """
        message = signed_message(self._secret, next(self._seqnos), topic, data)
        reached = self._gossip.publish(message, self.now(), only)
        self._pump()
        return reached

    def send(self, peer: bytes, envelope: bytes) -> asyncio.Future[None]:
        """Sends an envelope on a bilateral stream. The future ends with the peer's ACK, or with NotDelivered.

        Envelopes leave in the order of the calls. Raises PeerUnreachable; ValueError if it is too long.
        """
        link = self._links.get(peer)
        if link is None:
            raise PeerUnreachable(f"There is no connection to the peer {peer.hex()}.")
        delivery = Delivery(envelope, self._loop.create_future())
        link.deliver(delivery)
        return delivery.done

    async def close(self) -> None:
        """Requests under way get their ACK, within a time limit. Peers are told that this host goes away."""
        self._is_closing = True
        self._alarm.cancel()
        for server in self._servers:
            server.close()
        for dial in self._dials:
            dial.cancel()
        await asyncio.gather(*self._dials, return_exceptions=True)
        self._empty.clear()
        limit = self._outside.call_later(self.rules.closing, self._abort)
        for link in list(self._all):
            link.retire()
        if self._all:
            await self._empty.wait()
        limit.cancel()
        for server in self._servers:
            await server.wait_closed()

    # -- what connections tell -----------------------------------------------------------------------------

    def moment(self) -> int:
        return next(self._moments)

    def met(self, link: Link) -> str | None:
        self._all.add(link)
        if self._is_closing:
            return "the host is closing"
        if link.is_outbound:
            return None
        if not self._by_address.admit(link.remote.host):
            self._refused += 1
            return "too many connections from this address"
        self._inbound += 1
        link.is_counted = True
        self._unproven[link] = None
        if self._inbound > self.rules.connections:
            self._refused += 1
            oldest = next(iter(self._unproven))
            if oldest is link:
                return "too many connections"
            # A peer that finishes its handshake soon gets a place, however many others do not.
            oldest.abort("a newer connection took the place of this one, which was in its handshake")
            self._uncount(oldest)
        return None

    def proved(self, link: Link) -> None:
        self._unproven.pop(link, None)
        name = link.agent_id
        if name == self.agent_id:
            if link.is_outbound:
                link.abort("this is our own address")
            return
        old = self._links.get(name)
        if old is not None and not self._is_closing and self._is_twin(old, link):
            self._spares[name] = link
            return
        if self._is_closing or (old is not None and self._is_better(old, link)):
            link.retire()
            return
        self._links[name] = link
        if old is not None:
            self._gossip.disconnect(name)
            old.retire()
        self._gossip.connect(name, is_outbound=link.is_outbound)
        link.begin()
        self._resident.connected(name)
        self._pump()

    def lost(self, link: Link, reason: str) -> None:
        self._all.discard(link)
        self._waiting -= link.counted
        link.counted = 0
        self._dropped += link.dropped
        self._uncount(link)
        if link.is_open:
            self._lose(link, reason)
        if not self._all:
            self._empty.set()

    def settle(self, link: Link) -> None:
        self._pump()
        held = link.held
        self._waiting += held - link.counted
        link.counted = held
        if self._waiting > self.rules.total:
            fullest = max(self._all, key=lambda each: each.counted)
            fullest.abort("too many bytes wait for all peers, and most of them for this one")

    def identification(self, link: Link) -> bytes:
        return self._identification(self._addresses, link.remote).encode()

    def identified(self, link: Link, told: Identification) -> None:
        if self._links.get(link.agent_id) is link:
            self._resident.identified(link.agent_id, told)

    def heard(self, link: Link, rpc: bytes) -> None:
        name, now = link.agent_id, self.now()
        said = decode_rpc(rpc)
        for event in self._gossip.hear(name, said, now):
            tell = self._resident.joined if isinstance(event, Joined) else self._resident.left
            tell(name, event.topic)
        self._outcomes["malformed"] += said.malformed
        for message in said.messages:
            if not self._resident.admits(name, message):
                self._outcomes["not admitted"] += 1
                continue
            outcome = self._gossip.take(name, message, now)
            self._outcomes[outcome] += 1
            if outcome is Outcome.NEW:
                self._resident.message(name, message)
            elif outcome is Outcome.FORGED and self._gossip.is_forger(name):
                link.end("the peer sent too many messages whose signatures do not hold")
                return

    def arrived(self, link: Link, envelope: bytes, settle: Settle) -> None:
        self._resident.envelope(link.agent_id, envelope, settle)

    def again(self, link: Link, delivery: Delivery) -> bool:
        other = self._links.get(link.agent_id)
        if other is None or other is link:
            return False
        other.deliver(delivery)
        return True

    # -- how it is done ------------------------------------------------------------------------------------

    def _identification(
        self, addresses: tuple[Multiaddr, ...], observed: Multiaddr = _NOWHERE
    ) -> Identification:
        return Identification(
            self.agent_id, addresses, tuple(SERVED), observed, agent_version=self._agent_version
        )

    def _lose(self, link: Link, reason: str) -> None:
        name = link.agent_id
        spare = self._spares.get(name)
        if spare is link:
            del self._spares[name]
        if self._links.get(name) is link:
            del self._links[name]
            if spare is None or spare.is_leaving or self._is_closing:
                self._gossip.disconnect(name)
                self._resident.disconnected(name, reason)
                return
            self._links[name] = self._spares.pop(name)
            spare.begin()
            self._gossip.greet(name)
        if name in self._links and not self._is_closing:
            self._resident.connected(name)
            for topic in self._gossip.topics_of(name):
                self._resident.joined(name, topic)
            self._pump()

    def _is_twin(self, old: Link, new: Link) -> bool:
        """True if the peer dialled twice before it used the first connection. A peer has one spare at most."""
        return (
            not old.is_outbound
            and not new.is_outbound
            and not old.is_leaving
            and new.met_at < old.used_at
            and old.agent_id not in self._spares
        )

    def _is_better(self, old: Link, new: Link) -> bool:
        """True if the connection that is there stays."""
        if (
            old.is_outbound == new.is_outbound
            or old.is_leaving
            or self.now() - old.opened_at > self.rules.simultaneous
        ):
            return False
        return old.is_outbound == (self.agent_id < old.agent_id)

    def _uncount(self, link: Link) -> None:
        """A connection of a peer does not count any more."""
        if link.is_counted:
            link.is_counted = False
            self._inbound -= 1
            self._by_address.depart(link.remote.host)
            self._unproven.pop(link, None)

    def _pump(self) -> None:
        for name, frame in self._gossip.outgoing():
            if not self._links[name].tell(frame):
                self._gossip.missed(name)

    def _tick(self) -> None:
        self._alarm = self._outside.call_later(self.rules.tick, self._tick)
        now = self.now()
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + self.rules.heartbeat
            self._gossip.heartbeat(now)
            self._pump()
        for link in list(self._all):
            link.tick()
        self._dial_due()

    def _dial_due(self) -> None:
        for kept in self._redial.due(self.now(), self._since):
            kept.is_dialling = True
            dial = self._loop.create_task(self._dial(kept))
            self._dials.add(dial)
            dial.add_done_callback(self._dials.discard)

    async def _dial(self, kept: Kept) -> None:
        try:
            kept.agent_id = await self.dial(kept.address)
            kept.error = ""
        except PeerUnreachable as error:
            kept.error = str(error)  # it is dialled again
        finally:
            kept.is_dialling = False

    def _since(self, name: bytes) -> int | None:
        link = self._links.get(name)
        return None if link is None else link.opened_at

    def _abort(self) -> None:
        for link in list(self._all):
            link.abort("the host is closing")
