"""Where envelopes go: to all connections of a recipient, to the inbox, to those that are told."""

from typing import Any

import pytest
from msgspec import structs

from moothall.errors import OutOfOrder
from moothall.hall.mesh.frames import NotaryAssigned
from moothall.hall.mesh.market import Mail, Told
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import BROADCAST_TOPIC, MsgType
from moothall.wire.mesh.offers import encode_amount
from tests.hall.mesh.peers import PEER, Distant, FakeNetwork, Peer, networked
from tests.hall.mesh.town import Agent, Town
from tests.support.envelopes import CONVERSATION


def propose(sender: Agent, recipient: Agent) -> Envelope:
    return sender.send(MsgType.PROPOSE, b"offer", to=recipient, conversation=CONVERSATION)


def quiet(*agents: Agent) -> None:
    """Forget what they got so far."""
    for agent in agents:
        agent.link.frames.clear()


def kept_for(town: Town, agent: Agent | Distant) -> list[bytes]:
    pages: list[Any] = []
    assert town.inboxes is not None
    town.inboxes.read(agent.id, None, 100, pages.append, pages.append)
    return [raw for _, raw in pages[0].envelopes]


def parties(town: Town) -> tuple[Agent, Agent]:
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    return alice, bob


def test_an_envelope_is_one_frame_object_for_all_receivers() -> None:
    town = Town()
    alice, bob = town.connect_agent("alice"), town.connect_agent("bob")
    others = [town.connect_agent("bob") for _ in range(2)]
    for agent in (alice, bob, *others):
        agent.prove()
    propose(alice, bob)
    frames = {id(agent.link.frames[-1]) for agent in (bob, *others)}
    assert len(frames) == 1
    assert town.room.routing.relayed == 3


def test_an_envelope_waits_in_the_inbox_until_a_connection_proves_the_key() -> None:
    town = Town()
    alice, bob = parties(town)
    sent = propose(alice, bob)
    assert bob.envelopes() == [sent]
    assert kept_for(town, bob) == [encode(sent)]
    assert alice.texts() == []
    bob.prove()
    propose(alice, bob)
    assert kept_for(town, bob) == [encode(sent)]


@pytest.mark.parametrize("how", ["stored", "carried"])
def test_what_the_market_stored_or_another_hall_brings_is_not_kept_again(how: str) -> None:
    town = Town()
    alice, bob = parties(town)
    bob.leave()
    town.dealings.told = structs.replace(town.dealings.told, **{how: True})
    propose(alice, bob)
    assert kept_for(town, bob) == []
    told = [(each["type"], each["stored"]) for each in alice.texts()]
    assert told == ([("offline", True)] if how == "stored" else [])


def test_notices_and_mail_of_the_hall_go_to_those_that_they_name() -> None:
    town = Town()
    alice, bob = parties(town)
    carol, dave = town.present("carol"), town.connect_agent("dave")
    quiet(alice, bob, carol)
    notice = NotaryAssigned(conversation_id=CONVERSATION.hex(), notary=carol.id.hex(), fee=1)
    assigned = alice.seal(MsgType.NOTARIZE_ASSIGN, carol.id, to=carol)
    town.dealings.told = Told(
        state="COMMITTED",
        notices=((alice.id, notice), (dave.id, notice)),
        mail=(Mail(carol.id, encode(assigned)),),
    )
    sent = propose(alice, bob)
    assert [each["type"] for each in alice.texts()] == ["notary_assigned"]
    assert bob.envelopes() == [sent]
    assert carol.envelopes() == [assigned]
    assert kept_for(town, carol) == [encode(assigned)]  # it has not proven its key


# -- over the network --------------------------------------------------------------------------------------


def distant_parties(**settings: Any) -> tuple[Town, FakeNetwork, Agent, Distant]:
    """An agent here, and one that a peer reaches."""
    town, network = networked(**settings)
    alice, dora = town.present("alice"), Distant(town, "dora")
    network.reachable = {dora.id}
    quiet(alice)
    network.took()
    return town, network, alice, dora


def types(agent: Agent) -> list[tuple[str, bool]]:
    return [(each["type"], each["stored"]) for each in agent.texts()]


def test_an_envelope_to_an_agent_that_a_peer_reaches_is_taken_then_carried() -> None:
    town, network, alice, dora = distant_parties()
    town.dealings.waiting = []
    sent = alice.propose(dora.id)
    assert network.carried == []  # before the commit
    (end,) = town.dealings.waiting
    end()
    assert network.carried == [(sent, None)]
    assert town.dealings.taken == [(sent, False)]
    assert town.dealings.abroad == [(sent, dora.id)]
    assert alice.texts() == []
    assert kept_for(town, dora) == []


@pytest.mark.parametrize("is_known", [False, True])
def test_the_sender_is_told_if_a_peer_does_not_take_it(is_known: bool) -> None:
    town, network, alice, dora = distant_parties()
    network.delivers = None
    if is_known:
        town.dealings.provers.append(dora.id)
    sent = alice.propose(dora.id)
    assert alice.texts() == []
    network.waiting.pop()(False)
    assert types(alice) == [("offline", is_known)]
    assert kept_for(town, dora) == ([encode(sent)] if is_known else [])


def test_the_sender_is_told_if_the_store_does_not_answer_either() -> None:
    town, network, alice, dora = distant_parties()
    network.delivers = None
    alice.propose(dora.id)
    town.dealings.error = OSError("the disk is gone")
    network.waiting.pop()(False)
    assert types(alice) == [("offline", False)]


def test_an_envelope_to_an_agent_that_is_proven_here_stays_here() -> None:
    town, network, alice, _ = distant_parties()
    bob = town.present("bob", proven=True)
    quiet(bob)
    network.reachable.add(bob.id)
    sent = alice.propose(bob)
    assert bob.envelopes() == [sent]
    assert (network.carried, town.dealings.abroad) == ([], [])


def test_an_agent_that_did_not_prove_its_key_does_not_take_mail_away_from_the_network() -> None:
    town, network, alice, _ = distant_parties()
    bob = town.present("bob")  # a BEACON can be replayed
    quiet(bob)
    network.reachable.add(bob.id)
    sent = alice.propose(bob)
    assert bob.envelopes() == [sent]
    assert network.carried == [(sent, None)]


def test_a_recipient_that_came_here_meanwhile_is_not_looked_for_on_the_network() -> None:
    town, network, alice, dora = distant_parties()
    town.dealings.waiting = []
    sent = alice.propose(dora.id)
    came = town.connect_agent("dora")
    came.prove()
    town.dealings.waiting[0]()
    assert came.envelopes() == [sent]
    assert network.carried == []


def test_what_another_hall_of_the_store_brings_does_not_go_to_a_peer_too() -> None:
    town, network, alice, dora = distant_parties()
    town.dealings.told = structs.replace(town.dealings.told, carried=True)
    alice.propose(dora.id)
    assert (network.carried, alice.texts()) == ([], [])


def test_an_envelope_from_a_peer_reaches_an_agent_here() -> None:
    town, network, alice, dora = distant_parties()
    peer = Peer(town)
    sent = dora.propose(alice)
    peer.brings(sent)
    assert alice.envelopes() == [sent]
    assert town.dealings.taken == [(sent, True)]  # it has not proven its key, so the inbox has it too
    assert town.dealings.abroad == [(sent, dora.id)]
    assert (town.dealings.proven, network.carried) == ([], [])
    alice.prove()
    peer.brings(dora.propose(alice))
    assert [is_away for _, is_away in town.dealings.taken] == [True, False]
    assert peer.settled == [True, True]


def test_a_peer_gets_its_ack_after_the_commit() -> None:
    town, _, alice, dora = distant_parties()
    peer = Peer(town)
    town.dealings.waiting = []
    peer.brings(dora.propose(alice))
    assert (alice.envelopes(), peer.settled) == ([], [])
    town.dealings.waiting.pop()()
    assert (len(alice.envelopes()), peer.settled) == (1, [True])


@pytest.mark.parametrize(("error", "is_final"), [(OutOfOrder("no"), True), (OSError("disk full"), False)])
def test_a_peer_sends_again_what_could_not_be_saved(error: Exception, is_final: bool) -> None:
    town, _, alice, dora = distant_parties()
    peer = Peer(town)
    town.dealings.error = error
    peer.brings(dora.propose(alice))
    assert peer.settled == [is_final]


def test_what_is_refused_has_its_ack_too() -> None:
    town, _, alice, dora = distant_parties()
    peer = Peer(town)
    sent = dora.propose(alice)
    peer.brings(sent)
    peer.brings(sent)  # a replay
    peer.relay.receive(b"junk", None, peer.settled.append)
    peer.brings(dora.propose(alice), BROADCAST_TOPIC)
    assert peer.settled == [True] * 4


def test_what_the_market_refuses_of_a_peer_is_not_delivered() -> None:
    town, _, alice, dora = distant_parties()
    town.dealings.error = OutOfOrder("no")
    Peer(town).brings(dora.propose(alice))
    assert alice.envelopes() == []
    assert town.room.border.dropped == {"OutOfOrder": 1}


def test_the_hall_is_a_postman_between_peers() -> None:
    town, network, _, dora = distant_parties()
    peer, other = Peer(town), Distant(town, "other")
    sent = other.propose(dora)
    peer.brings(sent)
    peer.brings(sent)  # it is carried once
    assert network.carried == [(sent, PEER)]
    assert town.dealings.taken == []
    assert town.room.border.dropped == {"NonceReplay": 1}
    assert town.room.statistics()["forwarded"] == 1
    network.delivers = False
    peer.brings(other.propose(dora))
    assert town.room.border.dropped == {"NonceReplay": 1, "Undelivered": 1}
    assert peer.settled == [True, True, False]  # the ACK of the next peer is passed on


def test_a_postman_carries_no_amount_beyond_64_bits() -> None:
    town, network, _, dora = distant_parties()
    other = Distant(town, "other")
    Peer(town).brings(other.propose(dora, encode_amount(2**64)))
    assert network.carried == []
    assert town.room.border.dropped == {"AmountOverflow": 1}


def test_an_envelope_to_an_agent_that_is_nowhere_is_kept_if_the_hall_knows_it() -> None:
    town, network, alice, dora = distant_parties()
    alice.prove()
    alice.leave()
    peer, stranger = Peer(town), Distant(town, "stranger")
    sent = dora.propose(alice)
    peer.brings(sent)
    assert town.dealings.taken == [(sent, True)]
    assert kept_for(town, alice) == [encode(sent)]
    peer.brings(dora.propose(stranger))
    assert len(town.dealings.taken) == 1
    assert kept_for(town, stranger) == []
    assert town.room.border.dropped == {"UnknownRecipient": 1}
    assert network.carried == []


def test_an_assignment_reaches_a_notary_on_the_network() -> None:
    town, network, alice, dora = distant_parties()
    bob = town.present("bob")
    assigned = alice.seal(MsgType.NOTARIZE_ASSIGN, dora.id, to=dora.id)
    town.dealings.told = Told(state="COMMITTED", mail=(Mail(dora.id, encode(assigned), stored=True),))
    propose(alice, bob)
    assert network.carried == [(assigned, None)]
