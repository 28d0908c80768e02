"""Nodes of one hall with mesh agents on them: see `tests.hall.mesh.town` and `tests.support.cluster`.

towns = Towns("a", "b")
alice, bob = towns.present("a", "alice"), towns.present("b", "bob", hears="news")
towns.say(alice, "news", "hello")
assert bob.envelopes()[-1].sender == alice.id
"""

from random import Random
from typing import Any

from moothall.hall.gate import Gate
from moothall.hall.mesh.bridge import Bridge
from moothall.hall.mesh.own_envelopes import OwnEnvelopes
from moothall.hall.mesh.presence import Presence
from moothall.settings.limits import Rate
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.peers import FakeNetwork
from tests.hall.mesh.town import Agent, Town
from tests.support.cluster import Halls
from tests.support.world import World


class MeshTown(Town):
    """A node, with the bridge between topics and channels."""

    def _presence(self, own: OwnEnvelopes) -> Presence:
        return Bridge(Gate(self.hall), own)


def text(topic: str, content: str) -> bytes:
    return Broadcast(topic=topic, title="", content=content.encode()).encode()


class Towns(Halls):
    def __init__(self, *names: str, **settings: Any) -> None:
        self.agents: list[Agent] = []
        super().__init__(*names, **settings)

    def make(self, name: str) -> World:
        dice = Random(f"{name} {self.random.random()}")  # noqa: S311
        settings: dict[str, Any] = {"rate_message": Rate(0, 1), **self._settings}
        return MeshTown(books=self.books, clock=self.clock, dice=dice, **settings)

    def start(self, name: str) -> World:
        world = super().start(name)
        self.town(name).room.join_nodes(self.clusters[name].topics)
        return world

    def town(self, name: str) -> Town:
        town = self[name]
        assert isinstance(town, Town)
        return town

    def network(self, name: str) -> FakeNetwork:
        """Give this node the network of peers."""
        network = FakeNetwork()
        self.town(name).room.network = network
        self.advance(1)
        return network

    def present(self, node: str, name: str, *, hears: str = "") -> Agent:
        """An agent that has sent its BEACON. It has read all that there was for it."""
        agent = self.town(node).connect_agent(name)
        self.agents.append(agent)
        agent.beacon()
        self.settle()
        if hears:
            self.subscribe(agent, hears)
        agent.types()
        return agent

    def hush(self) -> None:
        super().hush()
        for agent in self.agents:
            agent.types()

    def subscribe(self, agent: Agent, topic: str) -> None:
        agent.tell(type="subscribe", topic=topic)
        self.settle()
        agent.types()

    def unsubscribe(self, agent: Agent, topic: str) -> None:
        agent.tell(type="unsubscribe", topic=topic)
        self.settle()
        agent.types()

    def say(self, agent: Agent, topic: str, content: str) -> Envelope:
        return self.sends(agent, MsgType.BROADCAST, text(topic, content))

    def sends(self, agent: Agent, msg_type: MsgType, payload: bytes = b"") -> Envelope:
        envelope = agent.send(msg_type, payload)
        self.settle()
        return envelope

    def replays(self, agent: Agent, envelope: Envelope) -> None:
        agent.post(encode(envelope))
        self.settle()
