"""Where envelopes go: to all connections of a recipient, to the inbox, to those that are told."""

from typing import Any

import pytest
from msgspec import structs

from moothall.hall.mesh.frames import NotaryAssigned
from moothall.hall.mesh.market import Mail, Told
from moothall.wire.mesh.envelope import Envelope, encode
from moothall.wire.mesh.msg_types import MsgType
from tests.hall.mesh.town import Agent, Town
from tests.support.envelopes import CONVERSATION


def propose(sender: Agent, recipient: Agent) -> Envelope:
    return sender.send(MsgType.PROPOSE, b"offer", to=recipient, conversation=CONVERSATION)


def quiet(*agents: Agent) -> None:
    """Forget what they got so far."""
    for agent in agents:
        agent.link.frames.clear()


def kept_for(town: Town, agent: Agent) -> list[bytes]:
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
