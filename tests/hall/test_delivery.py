"""A message reaches those it is for, once each, and all of them get the same bytes."""

from typing import Any

from moothall.hall.delivery import Delivery
from moothall.identity import PrivateKey
from moothall.wire.agentchat.server import Ack, TypingNotice
from moothall.wire.outgoing import Bundle, Outgoing
from tests.support.world import Guest, World, assert_sent, assert_silent

ALICE = PrivateKey(b"a" * 32)
BOB = PrivateKey(b"b" * 32)
NOTICE = TypingNotice(ts=1, from_="@someone", from_name="someone", channel="#general")


def delivery_of(world: World) -> Delivery:
    """As other rooms see it."""
    return world.hall.delivery


def quiet(*names: str, **keys: Any) -> tuple[World, list[Guest]]:
    world = World()
    guests = [world.agent(name, key=keys.get(name), join="#general") for name in names]
    world.hush()
    return world, guests


def test_an_agent_is_told_and_the_teller_knows_whether_it_was_there() -> None:
    world, (alice, bob) = quiet("alice", "bob")
    target = world.hall.roster.agents[bob.id[1:]]
    assert delivery_of(world).tell(target, NOTICE)
    assert_sent(bob, "TYPING")
    world.disconnect(bob)
    assert not delivery_of(world).tell(target, NOTICE)
    assert [message["type"] for message in alice.read()] == ["AGENT_LEFT"]


def test_a_message_to_one_that_was_displaced_is_not_delivered_to_its_successor() -> None:
    world = World()
    first = world.agent("alice", key=ALICE)
    before = world.hall.roster.by_key[ALICE.public.raw]
    second = world.agent("alice", key=ALICE)
    first.read()
    second.read()
    assert not delivery_of(world).tell(before, NOTICE)
    assert_silent(first, second)


def test_all_are_told_with_the_same_frame() -> None:
    world, guests = quiet("alice", "bob", "carol")
    agents = [world.hall.roster.agents[guest.id[1:]] for guest in guests[:2]]
    world.hall.delivery.tell_all(agents, NOTICE)
    assert guests[0].link.frames[-1] is guests[1].link.frames[-1]
    assert_silent(guests[2])


def test_keys_are_told_wherever_they_are_and_the_actor_gets_its_answer() -> None:
    world, (alice, bob, carol) = quiet("alice", "bob", "carol", alice=ALICE, bob=BOB)
    actor = alice.session
    actor.ref, actor.answered = "r1", False
    stranger = PrivateKey(b"s" * 32)
    keys = [ALICE.public.raw, BOB.public.raw, stranger.public.raw]
    delivery_of(world).tell_keys(keys, Ack(ts=1), actor)
    assert assert_sent(alice, "ACK")["ref"] == "r1"
    assert "ref" not in assert_sent(bob, "ACK")
    delivery_of(world).tell_keys(keys, Ack(ts=2), actor)
    assert "ref" not in assert_sent(alice, "ACK")  # one answer, and then news
    assert_silent(carol)


def test_several_notices_reach_the_watchers_in_one_piece() -> None:
    world, (alice, bob, carol) = quiet("alice", "bob", "carol")
    channel = world.hall.channels.find("#general")
    bundle = Bundle([Outgoing(NOTICE), Outgoing(NOTICE)])
    delivery_of(world).spread(channel, bundle, but=world.hall.roster.agents[carol.id[1:]])
    assert alice.link.frames[-1] is bob.link.frames[-1]
    assert [message["type"] for message in alice.read()] == ["TYPING", "TYPING"]
    assert_silent(carol)
