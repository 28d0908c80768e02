"""One packet's way: registered, counted, and handled by what its `dst` says (seed 004, routing; keep wire 4, 6).

What arrives here has been parsed and its signature has held. `RESERVED` and `PREFIXES` are looked at before the
registry, `EXTENSIONS` only after it: where the reference would answer `error:offline` there is room for more.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from moothall.hall.access import AddressCounts
from moothall.hall.bindings import Holding, IdClaim
from moothall.hall.budgets import Price
from moothall.hall.channels import Channel
from moothall.hall.costs import LOOKUP
from moothall.hall.keep import discovery
from moothall.hall.keep.bridge import (
    AGENT,
    DELIVERY_FAILED,
    OFFLINE,
    RATE_LIMITED,
    Bridge,
    Found,
    Refused,
)
from moothall.hall.keep.discovery import Answer
from moothall.hall.keep.listing import Listing
from moothall.hall.keep.registry import Peer, Pins, Registry
from moothall.hall.keep.replays import Replays
from moothall.hall.keep.scars import Scars
from moothall.hall.packet_link import PacketLink
from moothall.hall.roster import Present
from moothall.hall.wires import KEEP
from moothall.settings.limits import Rate, Window
from moothall.wire.keep.codec import encode
from moothall.wire.keep.packet import HEARTBEAT, Packet

DONE: Final = "done"
UNKNOWN_DISCOVERY: Final = "error:unknown_discovery"
FEE_TOO_LOW: Final = "error:fee_too_low"
PINNED: Final = "error:pinned"
REGISTER_FIRST: Final = "error:register_first"
SRC_REQUIRED: Final = "error:src_required"
TOO_MANY_IDENTITIES: Final = "error:too_many_identities"

MAX_IDENTITIES: Final = 1000  # of one connection
MAX_IDENTITY_TEXT: Final = (
    128 * 1024
)  # characters of all of them: the list of agents holds each several times
# Identities that are freed in one turn of the loop, when a connection with many of them ends: under half a
# millisecond, and a second for 20,000 of them.
FREED_AT_ONCE: Final = 32
# An agent that comes and goes costs the loop as much as this many packets besides the one that brings it, and the
# store this many microseconds, if it has to be asked who owns an id.
ARRIVAL_FRAMES: Final = 4
CLAIM_STORE: Final = 50
# A client can ask often for a list that does not fit.
TRUNCATION_LOG: Final = Rate(1, 3600)
HEARTBEAT_PACKET: Final = encode(Packet(typ=HEARTBEAT, src=discovery.SERVER))

Failed = Callable[[BaseException], None]
# "Who offers this skill, and how do they and these keys stand?" Answered later, with one of two calls.
Directory = Callable[[str, list[bytes], Callable[[Found], None], Failed], None]


class KeepRoom:
    def __init__(
        self, bridge: Bridge, directory: Directory, *, version: str, pins: Pins | None = None
    ) -> None:
        settings = bridge.gate.settings
        self.registry = Registry()
        self.scars = Scars()
        self.listing = Listing()  # the agents of all wires
        self.packets = 0  # valid ones
        self.forwarded = 0
        self.dropped: Counter[str] = Counter()  # by reason
        self.bridge = bridge
        self.gate = bridge.gate
        self._asking: set[Peer] = set()  # peers whose first packet waits for an answer of the keyring
        self._directory = directory
        self.version = version
        self.started = bridge.gate.now()
        self._swarm_fee = settings.keep_swarm_fee
        self._pins = pins
        self._max_identities = 0 if settings.no_limits else settings.keep_max_identities
        self._max_per_address = 0 if settings.no_limits else settings.keep_identities_per_ip
        self._per_address = AddressCounts(0)
        self._truncations = {question: Window(TRUNCATION_LOG) for question in QUESTIONS}
        # Identities that start "agent:" are the hall's to give, so these two never meet those of keep clients.
        self.gate.roster.on_arrival(self._list_agent)
        self.gate.roster.on_departure(lambda agent: self.listing.discard(AGENT + agent.id))
        self._elsewhere: dict[str, Present] = {}  # keep agents of other nodes, by identity
        self.gate.roster.on_arrival_elsewhere(self._list_elsewhere)
        self.gate.roster.on_departure_elsewhere(self._forget_elsewhere)
        self._replays = Replays(settings.keep_replay_window) if settings.keep_replay_window else None
        for agent in self.gate.roster.everyone():
            self._list_elsewhere(agent)  # agents of this node come later

    def _list_agent(self, agent: Present) -> None:
        """Those of this wire are listed under the identity they have here."""
        if agent.via != KEEP:
            self.listing.add(AGENT + agent.id)

    def _list_elsewhere(self, agent: Present) -> None:
        identity = agent.identity
        if agent.via != KEEP or identity is None:
            self._list_agent(agent)
            return
        self._elsewhere[identity] = agent
        if self.registry.is_held(identity):  # last write wins: that node did not have it before
            owner = self.registry.owner(identity)
            self._free(identity)
            if owner is not None:
                owner.close()
        self.listing.add(identity)

    def _forget_elsewhere(self, agent: Present) -> None:
        if agent.via != KEEP or agent.identity is None:
            self.listing.discard(AGENT + agent.id)
        elif self._elsewhere.get(agent.identity) is agent:
            del self._elsewhere[agent.identity]
            if not self.registry.is_held(agent.identity):
                self.listing.discard(agent.identity)

    def accept(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        """A packet whose signature held; `forwarded` are the bytes in which it travels on (keep wire 4)."""
        if self._replays is not None and not self._replays.admit(packet.sig, self.gate.now()):
            self.dropped["replay"] += 1
            return
        src = packet.src
        try:
            if src:
                resident = self.bridge.residents.get(src)
                if resident is None or resident.peer is not peer or resident.key != packet.pk:
                    self._check_claim(peer, packet)
                    self._charge(peer, Price(frames=ARRIVAL_FRAMES, store=CLAIM_STORE))
                    self._ask_owner(peer, packet, forwarded)
                    return
            else:
                self.bridge.admit(src, packet.pk)
        except Refused as refused:
            peer.answer(discovery.reply(packet.id, refused.body))
            return
        self._handle(peer, packet, forwarded)

    def _ask_owner(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        """Register its identity once it is known which key owns the id; its later packets wait for that."""
        peer.hold()
        self._asking.add(peer)

        def answered(holding: Holding) -> None:
            if peer in self._asking:  # else it left while we looked
                self._asking.discard(peer)
                self._handle(peer, packet, forwarded, holding)
            peer.release()

        def failed(error: BaseException) -> None:
            self._asking.discard(peer)
            if self.gate.may_log("keep_identity_not_registered"):
                self.gate.log.warning("keep_identity_not_registered", error=repr(error))
            peer.answer(discovery.reply(packet.id, DELIVERY_FAILED))
            peer.release()

        agent_id = self.bridge.visitors.own_id(packet.pk)
        look = IdClaim(agent_id, packet.pk, self.gate.timestamp(), may_bind=False)
        self.gate.keyring.claim(look, answered, failed)

    def _handle(self, peer: Peer, packet: Packet, forwarded: bytes, holding: Holding | None = None) -> None:
        """`holding` tells who owns the id of a key that is to be registered."""
        src, dst = packet.src, packet.dst
        try:
            if holding is not None:
                self._register(peer, packet, holding.owner)
            self.packets += 1
            if packet.scar:
                self.scars.note(src, packet.scar)
            body = self._route(peer, packet, forwarded, dst)
        except Refused as refused:
            body = refused.body
        if body is not None:
            peer.answer(discovery.reply(packet.id, body))

    def leave(self, peer: Peer) -> bool:
        """The connection is gone. None of its identities can be addressed from now on.

        A single one is freed at once. More of them are left to `free_some`; whether there are any.
        """
        self._asking.discard(peer)
        self.registry.abandon(peer)
        self.bridge.part(peer)
        if self.registry.count(peer) == 1:
            self._free(self.registry.first(peer))
        return self.registry.next_abandoned() is not None

    def free_some(self) -> bool:
        """Free a few identities of connections that are gone; whether there are more."""
        for _ in range(FREED_AT_ONCE):
            identity = self.registry.next_abandoned()
            if identity is None:
                return False
            self._free(identity)
        return self.registry.next_abandoned() is not None

    # -- identities --------------------------------------------------------------------------------

    def _check_claim(self, peer: Peer, packet: Packet) -> None:
        """Refused, if this packet does not register its identity.

        With pins, only a packet to the hall itself does. The hall passes on all others, to keep agents as they are
        and to WebSocket agents as `packet` of a MSG, so strangers have them and could send them again.
        """
        self.bridge.admit(packet.src, packet.pk)
        if self._pins is not None:
            if not self._pins.admit(packet.src, packet.pk):
                self.gate.note("keep_identity_pinned", ip=peer.ip)
                raise Refused(PINNED)
            if not is_for_hall(packet.dst):
                raise Refused(REGISTER_FIRST)

    def _register(self, peer: Peer, packet: Packet, owner_of_id: bytes | None) -> None:
        """The identity is this connection's from now on; Refused, if it may not have it."""
        src, key = packet.src, packet.pk
        self._check_claim(peer, packet)  # once more: much may have happened while the store was asked
        owner = self.registry.owner(src)
        self._check_identities(peer, src, is_new=owner is not peer)
        if self._pins is not None:
            self._pins.pin(src, key)
        if self.registry.is_held(src):
            self._free(src)
        is_first = not self.registry.count(peer)
        self.registry.claim(src, peer)
        self._per_address.admit(peer.ip)
        self.listing.add(src)
        self.bridge.arrive(peer, src, key, owner_of_id)
        if owner is not None and owner is not peer:
            if self.gate.may_log("keep_identity_moved"):
                self.gate.log.info("keep_identity_moved", old_ip=owner.ip, new_ip=peer.ip)
            owner.close()
        if is_first:
            peer.registered()

    def _check_identities(self, peer: Peer, src: str, *, is_new: bool) -> None:
        """The first identity of a connection is always admitted; those besides it share what room there is."""
        registry = self.registry
        count = registry.count(peer)
        if not count:
            return
        if is_new and (
            count >= MAX_IDENTITIES
            or registry.text(peer) + len(src) > MAX_IDENTITY_TEXT
            or 0 < self._max_identities <= registry.extra
            or (not peer.is_loopback and 0 < self._max_per_address <= self._per_address[peer.ip])
        ):
            raise Refused(TOO_MANY_IDENTITIES)
        arrivals = self.bridge.party(peer).arrivals
        if arrivals is not None and not arrivals.admit(self.gate.now()):
            raise Refused(TOO_MANY_IDENTITIES)

    def _free(self, identity: str) -> None:
        resident = self.bridge.residents[identity]
        self.registry.free(identity)
        self._per_address.depart(resident.peer.ip)
        self.listing.discard(identity)
        self.bridge.depart(identity)

    # -- the table of destinations (seed 004, routing) ---------------------------------------------

    def _route(self, peer: Peer, packet: Packet, forwarded: bytes, dst: str) -> str | None:
        """The body of the reply, or None if there is none."""
        if dst in RESERVED:
            return DONE
        if dst.startswith(DISCOVER):
            return self._discover(peer, packet, dst[len(DISCOVER) :])
        owner = self.registry.owner(dst)
        if owner is not None:
            if not owner.deliver(forwarded, peer, packet.id, packet.ttl):
                return DELIVERY_FAILED
            self.forwarded += 1
            return None
        if (there := self._elsewhere.get(dst)) is not None and isinstance(there.link, PacketLink):
            if not there.link.put_packet(forwarded):
                return DELIVERY_FAILED
            self.forwarded += 1
            return None
        for prefix, handle in EXTENSIONS:
            if dst.startswith(prefix):
                if not packet.src:
                    return SRC_REQUIRED
                handle(self, peer, packet, forwarded)
                return None
        return OFFLINE

    def to_agent(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        agent = self.gate.roster.find(packet.dst[len(AGENT) :])
        if agent is None:
            raise Refused(OFFLINE)
        self.bridge.tell(packet.src, agent, packet, forwarded)
        self.forwarded += 1

    def to_channel(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        self._charge(peer, Price(told=_audience(self.bridge.visitors.public_channel(packet.dst))))
        self.bridge.say(packet.src, packet, forwarded)
        self.forwarded += 1

    def to_nearest(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        word = packet.dst[len(NEAREST) :]

        def deliver(candidates: list[Present]) -> None:
            if not candidates:
                raise Refused(OFFLINE)
            self.bridge.tell(packet.src, candidates[0], packet, forwarded)

        self._look_for(peer, packet, word, deliver)

    def to_swarm(self, peer: Peer, packet: Packet, forwarded: bytes) -> None:
        if packet.fee < self._swarm_fee:
            raise Refused(FEE_TOO_LOW)
        word = packet.dst[len(SWARM) :]
        self._charge(peer, Price(told=_audience(self.bridge.visitors.public_channel(f"#{word}"))))

        def deliver(candidates: list[Present]) -> None:
            channel = self.bridge.visitors.public_channel(f"#{word}")
            self.bridge.tell_all(packet.src, candidates, channel, packet, forwarded)

        self._look_for(peer, packet, word, deliver)

    def _look_for(
        self,
        peer: Peer,
        packet: Packet,
        word: str,
        deliver: Callable[[list[Present]], None],
    ) -> None:
        """Ask the directory; the sender's later packets wait for the answer."""
        bridge, src = self.bridge, packet.src
        named = bridge.named(word, src)
        self._charge(peer, Price(told=len(named), store=LOOKUP.store + len(named)))
        peer.hold()

        def finish(body: str | None) -> None:
            if body is not None:
                peer.answer(discovery.reply(packet.id, body))
            peer.release()

        def found(answer: Found) -> None:
            if self.registry.owner(src) is not peer:
                finish(None)  # it left, or lost its identity, while we looked
                return
            chosen = bridge.candidates(named, answer, src)
            self._owe(peer, Price(told=max(0, len(chosen) - len(named))))
            try:
                deliver(chosen)
            except Refused as refused:
                finish(refused.body)
            else:
                self.forwarded += 1
                finish(None)

        def failed(error: BaseException) -> None:
            if self.gate.may_log("keep_directory_failed"):
                self.gate.log.warning("keep_directory_failed", error=repr(error))
            finish(DELIVERY_FAILED)

        keys = [key for agent in named if (key := bridge.key_of(agent)) is not None]
        self._directory(word, keys, found, failed)

    # -- questions (keep wire 8) -------------------------------------------------------------------

    def _discover(self, peer: Peer, packet: Packet, question: str) -> str:
        ask = QUESTIONS.get(question)
        if ask is None:
            return UNKNOWN_DISCOVERY
        answer = ask(self, discovery.room(packet.id))
        if answer.left_out and self._truncations[question].admit(self.gate.now()):
            self.gate.log.warning("keep_discovery_truncated", question=question, left_out=answer.left_out)
        self._owe(peer, Price(bytes=len(answer.body)))
        return answer.body

    # -- what it costs -----------------------------------------------------------------------------

    def _charge(self, peer: Peer, price: Price) -> None:
        """What a packet costs besides itself, before the work is done.

        Refused, if the connection is over its budget. Where its address is, the packet is handled all the same:
        the address owes it, and what it sends next waits.
        """
        if peer.meter is not None:
            shortage = peer.meter.charge(price, self.gate.now())
            if shortage is not None:
                if not shortage.is_address:
                    raise Refused(RATE_LIMITED)
                self._owe(peer, price)

    def _owe(self, peer: Peer, price: Price) -> None:
        """The sender's next packet waits until this is paid."""
        if peer.meter is not None:
            peer.meter.owe(price, self.gate.now())


def is_for_hall(dst: str) -> bool:
    """True if the hall answers the packet itself and never passes it on."""
    return dst in RESERVED or dst.startswith(DISCOVER)


def _audience(channel: Channel | None) -> int:
    """How many connections get a packet. A node that does not follow the channel counts its members."""
    return 0 if channel is None else channel.audience or channel.away


def info(keep: KeepRoom, space: int) -> Answer:
    return discovery.info(
        agents_online=len(keep.gate.roster),
        uptime=keep.gate.now() - keep.started,
        version=keep.version,
    )


def agents(keep: KeepRoom, space: int) -> Answer:
    return discovery.agents(keep.listing, space)


def stats(keep: KeepRoom, space: int) -> Answer:
    return discovery.stats(keep.scars, keep.packets, space)


def scars(keep: KeepRoom, space: int) -> Answer:
    return discovery.scars(keep.scars, space)


def about_hall(keep: KeepRoom, space: int) -> Answer:
    bridge = keep.bridge
    return discovery.hall(
        channel=bridge.channel, name=keep.gate.settings.server_name, pk=bridge.pk, limit=space
    )


DISCOVER: Final = "discover:"
NEAREST: Final = "nearest:"
SWARM: Final = "swarm:"

RESERVED: Final = frozenset(("", discovery.SERVER))  # an agent of this name is listed, and never addressed
EXTENSIONS: Final = (
    (AGENT, KeepRoom.to_agent),
    ("#", KeepRoom.to_channel),
    (NEAREST, KeepRoom.to_nearest),
    (SWARM, KeepRoom.to_swarm),
)
QUESTIONS: Final = {
    "info": info,
    "agents": agents,
    "stats": stats,
    "scars": scars,
    "hall": about_hall,
}
IDENTITY: Final = "identity"
# All kinds of `dst`: reserved names, questions, any registered identity, and prefixes.
DESTINATIONS: Final = (
    *sorted(RESERVED),
    *(f"{DISCOVER}{question}" for question in QUESTIONS),
    IDENTITY,
    *(prefix for prefix, _ in EXTENSIONS),
)
