"""Whatever agents send, and in whatever order the disk answers: what always holds in the room of the mesh."""

import json
from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.errors import OutOfOrder
from moothall.hall.mesh.frames import proof_text
from moothall.hall.mesh.guest import MAX_IN_FLIGHT
from moothall.settings.limits import Rate
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, decode, encode
from moothall.wire.mesh.msg_types import BILATERAL, NAMED_TOPIC, MsgType
from moothall.wire.mesh.validation import topic_of
from tests.hall.mesh.peers import Distant, FakeNetwork, Peer
from tests.hall.mesh.town import Agent, Town, key_of

NAMES = ("alice", "bob", "carol")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "come",
                "go",
                "beacon",
                "send",
                "send",
                "send",
                "publish",
                "broadcast",
                "subscribe",
                "prove",
                "inbox",
                "replay",
                "mutate",
                "text",
                "disk",
                "disk",
                "refuse",
                "time",
                "peer",
                "peer",
                "echo",
                "route",
                "answer",
            ]
        ),
        st.integers(0, 5),
        st.integers(0, 5),
        st.binary(max_size=30),
    ),
    max_size=80,
)


class Life:
    """A town that is lived in, and what was received in it."""

    def __init__(self) -> None:
        self.town = Town(mesh_rate=Rate(20, 1), budget_told=Rate(60, 5), identify_timeout=0)
        self.town.dealings.waiting = self.disk = list[Callable[[], None]]()
        self.agents: list[Agent] = []
        self.sent: list[tuple[str, Envelope]] = []
        self.received: Counter[tuple[int, bytes]] = Counter()  # by connection and envelope
        self.town.room.network = self.network = FakeNetwork()
        self.network.delivers = None
        self.peers = [Peer(self.town, bytes((number,)) * 32) for number in range(2)]
        self.distant = [Distant(self.town, name) for name in ("dora", NAMES[0])]
        self.echoed: set[bytes] = set()  # signatures of what was sent again on a connection
        self.brought: set[bytes] = set()  # signatures of what agents of the network have signed

    def step(self, what: str, one: int, other: int, junk: bytes) -> None:
        if what == "come" or not self.agents:
            self.agents.append(self.town.connect_agent(NAMES[one % len(NAMES)]))
            return
        agent = self.agents[one % len(self.agents)]
        getattr(self, f"_{what}")(agent, other, junk)

    def _go(self, agent: Agent, other: int, junk: bytes) -> None:
        agent.leave()
        self._look(agent)
        self.agents.remove(agent)

    def _beacon(self, agent: Agent, other: int, junk: bytes) -> None:
        self._sent(agent, agent.beacon(f"name-{other}"))

    def _send(self, agent: Agent, other: int, junk: bytes) -> None:
        to = key_of(NAMES[other % len(NAMES)]).public.raw
        msg_type = sorted(BILATERAL)[other % len(BILATERAL)]
        self._sent(agent, agent.send(msg_type, junk, to=to, conversation=bytes(15) + b"1"))

    def _publish(self, agent: Agent, other: int, junk: bytes) -> None:
        types = (MsgType.BOUNTY, MsgType.ADVERTISE, MsgType.DISCOVER, MsgType.FEEDBACK, MsgType.NOTARIZE_BID)
        self._sent(agent, agent.send(types[other % len(types)], junk))

    def _broadcast(self, agent: Agent, other: int, junk: bytes) -> None:
        payload = Broadcast(topic=f"t{other}", title="", content=junk).encode()
        self._sent(agent, agent.send(MsgType.BROADCAST, payload))

    def _subscribe(self, agent: Agent, other: int, junk: bytes) -> None:
        agent.tell(type="subscribe" if other % 2 else "unsubscribe", topic=f"t{other}")

    def _prove(self, agent: Agent, other: int, junk: bytes) -> None:
        agent.tell(type="prove", agent_id=agent.id.hex())
        if agent.guest.challenged is not None:
            text = proof_text(agent.guest.challenged.challenge, self.town.room.hall_id, agent.id.hex())
            agent.tell(type="prove", signature=agent.key.sign_bytes(text).hex())

    def _inbox(self, agent: Agent, other: int, junk: bytes) -> None:
        agent.tell(type="inbox", limit=other + 1)

    def _replay(self, agent: Agent, other: int, junk: bytes) -> None:
        if self.sent:
            replayed = self.sent[other % len(self.sent)][1]
            self.echoed.add(replayed.signature)
            agent.post(encode(replayed))

    def _mutate(self, agent: Agent, other: int, junk: bytes) -> None:
        raw = bytearray(encode(agent.seal(MsgType.BOUNTY, junk)))
        raw[(other * 37) % len(raw)] ^= 1 + other
        agent.post(bytes(raw))
        agent.post(junk)

    def _text(self, agent: Agent, other: int, junk: bytes) -> None:
        text = junk if other % 2 else json.dumps({"type": str(junk)}).encode()
        self.town.room.receive(agent.guest, text)

    def _disk(self, agent: Agent, other: int, junk: bytes) -> None:
        if self.disk:
            self.disk.pop(0)()

    def _refuse(self, agent: Agent, other: int, junk: bytes) -> None:
        self.town.dealings.error = OutOfOrder("no") if other % 2 else None

    def _time(self, agent: Agent, other: int, junk: bytes) -> None:
        self.town.advance(other / 2)

    def _peer(self, agent: Agent, other: int, junk: bytes) -> None:
        """An agent of the network sends something. One of them has the key of an agent that may be here."""
        sender, peer = self.distant[other % 2], self.peers[other % 2]
        types = sorted(set(MsgType) - {MsgType.BEACON, MsgType.BROADCAST})
        msg_type = types[(other + len(junk)) % len(types)]
        to = key_of((*NAMES, "dora")[other % 4]).public.raw if msg_type in BILATERAL else bytes(32)
        sent = [sender.seal(msg_type, junk, to=to), sender.beacon(), sender.broadcast(f"t{other}")]
        for envelope in sent[: 1 + other % 3]:
            self.brought.add(envelope.signature)
            peer.brings(envelope)
            self.sent.append((sender.name, envelope))

    def _echo(self, agent: Agent, other: int, junk: bytes) -> None:
        """A peer brings what was sent before, and junk."""
        if self.sent:
            self.peers[other % 2].brings(self.sent[other % len(self.sent)][1])
        self.peers[other % 2].relay.receive(junk, None)

    def _route(self, agent: Agent, other: int, junk: bytes) -> None:
        self.network.reachable ^= {key_of((*NAMES, "dora")[other % 4]).public.raw}

    def _answer(self, agent: Agent, other: int, junk: bytes) -> None:
        if self.network.waiting:
            self.network.waiting.pop(0)(bool(other % 2))

    def _sent(self, agent: Agent, envelope: Envelope) -> None:
        self.sent.append((agent.name, envelope))

    def look(self) -> None:
        """After each step, while each connection has the key that it had then."""
        for agent in self.agents:
            self._look(agent)

    def _look(self, agent: Agent) -> None:
        for envelope in agent.envelopes():
            is_own = envelope.sender == agent.guest.key
            assert not is_own or envelope.msg_type in BILATERAL, "a sender gets its own publication"
            assert agent.guest.key == envelope.recipient or envelope.msg_type not in BILATERAL
            self.received[agent.guest.number, envelope.signature] += 1

    def check(self) -> None:
        """Let the disk answer and time pass, until nothing has a reason to wait."""
        while self.disk:
            self.disk.pop(0)()
            self.town.advance(1)
        self.town.advance(100)
        assert not self.disk
        for agent in self.agents:
            self._look(agent)
            assert agent.link.closed is None
            assert agent.guest.in_flight == 0
            assert not agent.guest.has_waiting
            assert not agent.guest.checked
            assert not agent.link.paused
        for peer in self.peers:
            assert peer.relay.in_flight == peer.relay.waiting == 0
            assert not peer.relay.checked
        self._check_network()
        assert set(self.town.room.guests) == {agent.guest for agent in self.agents}
        assert max(self.received.values(), default=0) <= 1, "an envelope arrives twice"
        assert not self.town.log.find("a frame of the mesh could not be handled")

    def _check_network(self) -> None:
        room, network = self.town.room, self.network
        assert all(topic_of(decode(raw)) == topic for topic, raw in network.published)
        published = [envelope.signature for _, envelope in network.took()]
        assert len(published) == len(set(published)), "published twice"
        own = [envelope.signature for envelope, source in network.carried if source is None]
        carried = [envelope.signature for envelope, _ in network.carried]
        assert len(carried) == len(set(carried)), "carried twice"
        # A connection may be the first to bring what an agent of the network has signed. A peer is not.
        from_network = {signature for signature in self.brought if signature not in self.echoed}
        assert not from_network & {*published, *own}, "what came from the network goes back as our own"
        here = {agent.id for agent in self.agents if room.connections.is_proven(agent.id)}
        assert network.here == here
        heard = {topic for agent in self.agents for topic in room.topics.of(agent.guest)}
        assert sorted(network.watched) == sorted(NAMED_TOPIC + topic for topic in heard)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_what_always_holds(steps: list[tuple[str, int, int, bytes]]) -> None:
    life = Life()
    for step in steps:
        life.step(*step)
        life.look()
        assert all(agent.guest.in_flight <= MAX_IN_FLIGHT for agent in life.agents)
    life.check()
