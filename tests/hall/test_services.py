"""The protocols are enough for agents that are connected to another node: the market serves them without a hall."""

import json
from collections.abc import Collection, Iterable
from typing import Any, cast

from moothall.hall.delivery import Delivery
from moothall.hall.outside import Link
from moothall.hall.roster import Present, Roster
from moothall.hall.services import Services
from moothall.hall.session import Session
from moothall.identity import PrivateKey, PublicKey
from moothall.wire.agentchat.client import Proposal
from moothall.wire.agentchat.codec import decode
from moothall.wire.agentchat.server import ServerMessage
from moothall.wire.outgoing import Outgoing
from tests.identity.vectors import ALICE
from tests.support.deals import signed
from tests.support.world import FakeLink, World, assert_refused, assert_sent


class Remote:
    """An agent of another node."""

    name = "bob"
    claimed_key = None
    presence = "online"
    node = "there"
    via = None
    identity = None

    def __init__(self, key: PublicKey) -> None:
        self.key = key
        self.id = key.agent_id()
        self.address = f"@{self.id}"
        self.wire = FakeLink()
        self.status_text = None
        self.verified = True
        self.kind = None
        self.budget = None
        self.link: Link = self.wire  # what a bus would carry to its node


class TwoNodes:
    """The roster and the delivery of two nodes, on top of those of one."""

    def __init__(self, here: World, remote: Remote) -> None:
        self._roster: Roster = here.hall.roster
        self._delivery: Delivery = here.hall.delivery
        self._remote = remote

    def __len__(self) -> int:
        return len(self._roster) + 1

    def get(self, agent_id: str) -> Present | None:
        return self._remote if agent_id == self._remote.id else self._roster.get(agent_id)

    find = get

    def holder(self, key: bytes) -> Present | None:
        return self._remote if key == self._remote.key.raw else self._roster.holder(key)

    def everyone(self) -> Collection[Present]:
        return [*self._roster.everyone(), self._remote]

    def tell_keys(self, keys: Iterable[bytes], message: ServerMessage, actor: Session | None = None) -> None:
        self._delivery.tell_keys(keys, message, actor)
        if self._remote.key.raw in keys:
            self._remote.link.put(Outgoing(message))


class Node:
    """A hall with another roster and another delivery."""

    def __init__(self, world: World, nodes: TwoNodes) -> None:
        self._hall = world.hall
        self.roster = nodes
        self.delivery = nodes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hall, name)


def test_an_agent_of_another_node_is_offered_a_deal() -> None:
    world, bob = World(), Remote(PrivateKey(b"r" * 32).public)
    alice = world.agent("alice", key=ALICE)
    fields = signed(ALICE, "PROPOSAL", to=bob.address, task="review")
    world.send(alice, "PROPOSAL", **fields)
    assert_refused(alice, "AGENT_NOT_FOUND")
    offer = decode(json.dumps({"type": "PROPOSAL", **fields}).encode())
    assert isinstance(offer, Proposal)
    world.desk.propose(cast("Services", Node(world, TwoNodes(world, bob))), alice.session, offer)
    deal = assert_sent(alice, "PROPOSAL", to=bob.address)["id"]
    assert [(message["type"], message["id"]) for message in bob.wire.messages] == [("PROPOSAL", deal)]
