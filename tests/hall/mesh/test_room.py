"""The way of an envelope through the room of the mesh."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from moothall.errors import Banned, InvalidMessage, OutOfOrder, RateLimited
from moothall.hall.mesh.beacons import LARGEST_AUDIENCE
from moothall.hall.mesh.frames import ConversationChanged, NotaryAssigned
from moothall.hall.mesh.guest import MAX_IN_FLIGHT
from moothall.hall.mesh.market import Mail, Payer, Told
from moothall.hall.mesh.source import BYTES_OF_ONE
from moothall.hall.mesh.topics import MAX_TOPICS
from moothall.settings.limits import Rate
from moothall.wire.mesh.announcements import Discover
from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.envelope import Envelope, encode, signing_bytes
from moothall.wire.mesh.msg_types import BILATERAL, MsgType
from tests.hall.mesh.town import CONVERSATION, Agent, MeshLink, Town
from tests.support.world import HALL_KEY


def broadcast(agent: Agent, topic: str, content: bytes = b"hello") -> Any:
    return agent.send(MsgType.BROADCAST, Broadcast(topic=topic, title="", content=content).encode())


def signed(agent: Agent, as_type: MsgType, **fields: Any) -> Envelope:
    """An envelope with fields that no agent of ours would give it."""
    envelope = structs.replace(agent.seal(as_type, b"{}"), **fields)
    return structs.replace(envelope, signature=agent.key.sign_bytes(signing_bytes(envelope)))


def quiet(*agents: Agent) -> None:
    for agent in agents:
        agent.types()


# -- topics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "msg_type",
    [
        MsgType.ADVERTISE,
        MsgType.DISCOVER,
        MsgType.BOUNTY,
        MsgType.NOTARIZE_BID,
        MsgType.FEEDBACK,
        MsgType.BEACON,
    ],
)
def test_a_message_to_a_fixed_topic_reaches_all_but_its_sender(msg_type: MsgType) -> None:
    town = Town()
    alice, bob, carol = (town.present(name) for name in ("alice", "bob", "carol"))
    stranger = town.connect_agent("stranger")
    quiet(alice, bob, carol)
    sent = alice.beacon("other name") if msg_type is MsgType.BEACON else alice.send(msg_type, b"{}")
    frames = [agent.link.frames[-1] for agent in (bob, carol)]
    assert frames[0] is frames[1]
    assert bob.envelopes() == carol.envelopes() == [sent]
    assert alice.envelopes() == stranger.envelopes() == []


def test_the_other_connections_of_the_sender_do_not_get_its_publications() -> None:
    town = Town()
    alice = town.present("alice")
    again = town.connect_agent("alice")
    again.beacon()
    quiet(alice, again)
    alice.send(MsgType.BOUNTY, b"{}")
    assert again.envelopes() == []


def test_a_broadcast_subscribes_its_sender_to_its_topic() -> None:
    town = Town()
    alice, bob, carol = (town.present(name) for name in ("alice", "bob", "carol"))
    quiet(alice, bob, carol)
    assert broadcast(alice, "news")
    assert bob.ask(type="subscribe", topic="news", ref="r") == {
        "type": "subscribed",
        "topics": ["news"],
        "ref": "r",
    }
    sent = broadcast(bob, "news")
    assert (alice.envelopes(), bob.envelopes(), carol.envelopes()) == ([sent], [], [])
    assert bob.ask(type="unsubscribe", topic="news") == {"type": "subscribed", "topics": []}
    broadcast(alice, "news")
    assert bob.envelopes() == []
    assert town.presence.subscribed == {(alice.guest, "news")}


def test_a_broadcast_that_is_chat_is_not_recorded() -> None:
    town = Town()
    alice = town.present("alice")
    town.presence.chat_topics = {"general"}
    broadcast(alice, "general")
    data = broadcast(alice, "sounds")
    bounty = alice.send(MsgType.BOUNTY, b"{}")
    alice.beacon("again")
    assert town.dealings.recorded == [data, bounty]


def test_a_broadcast_that_is_refused_is_told_to_its_sender_only() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    bob.ask(type="subscribe", topic="news")
    quiet(alice, bob)
    town.presence.refusal = RateLimited("too fast")
    broadcast(alice, "news")
    (refused,) = alice.texts()
    assert (refused["type"], refused["fault"], refused["reason"]) == ("refused", "RATE_LIMITED", "too fast")
    assert bob.envelopes() == []


def test_a_connection_has_a_limited_number_of_topics() -> None:
    town = Town(mesh_rate=Rate(0, 1))
    alice = town.present("alice")
    for number in range(MAX_TOPICS):
        alice.ask(type="subscribe", topic=f"t{number}")
    assert alice.ask(type="subscribe", topic="one more")["code"] == "TOO_MANY_TOPICS"
    broadcast(alice, "one more")
    assert alice.texts()[0]["fault"] == "TooManyTopics"
    broadcast(alice, "t7")
    assert alice.texts() == []


def test_a_broadcast_without_a_readable_topic_is_refused() -> None:
    town = Town()
    alice = town.present("alice")
    alice.send(MsgType.BROADCAST, b"not CBOR")
    assert alice.texts()[0]["fault"] == "WrongRoute"


def test_discover_is_answered_to_the_requester() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.found = [{"agent_id": bob.id.hex(), "online": True}]
    sent = alice.send(MsgType.DISCOVER, Discover("translation").encode())
    assert alice.texts() == [
        {"type": "discover_results", "query": "translation", "results": town.dealings.found}
    ]
    assert bob.envelopes() == [sent]


def test_a_discover_that_is_not_searched_for_is_refused_and_not_accepted() -> None:
    town = Town()
    alice, bob = town.connect_agent("alice"), town.present("bob")
    alice.prove(acks=True)
    quiet(alice, bob)
    town.dealings.error = InvalidMessage("A DISCOVER asks for a capability")
    sent = alice.send(MsgType.DISCOVER, Discover("x" * 1000).encode())
    assert [(each["type"], each["fault"]) for each in alice.texts()] == [("refused", "INVALID_MSG")]
    assert bob.envelopes() == [sent]
    town.dealings.error = None
    alice.send(MsgType.DISCOVER, Discover("translation").encode())
    assert [each["type"] for each in alice.texts()] == ["discover_results", "accepted"]


def test_a_broadcast_on_a_topic_without_a_name_is_refused() -> None:
    town = Town()
    alice = town.present("alice")
    alice.send(MsgType.BROADCAST, Broadcast(topic="", title="", format="text", content=b"hi").encode())
    assert alice.texts()[0]["fault"] == "WrongRoute"


def test_an_advertisement_has_the_name_of_the_beacon_and_is_published_when_it_is_kept() -> None:
    town = Town()
    alice, bob = town.connect_agent("alice"), town.present("bob")
    town.dealings.waiting = []
    first = alice.send(MsgType.ADVERTISE, b'{"capabilities":["x"]}')
    assert bob.envelopes() == []
    town.dealings.waiting.pop()()
    assert bob.envelopes() == [first]
    alice.beacon("Alice the Great")
    alice.send(MsgType.ADVERTISE, b"{}")
    assert [name for _, name in town.dealings.advertised] == [alice.id.hex()[:8], "Alice the Great"]


# -- agents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("msg_type", sorted(BILATERAL))
def test_a_bilateral_envelope_reaches_its_recipient_as_it_came_after_the_commit(msg_type: MsgType) -> None:
    town = Town()
    alice, bob, carol = (town.present(name) for name in ("alice", "bob", "carol"))
    quiet(alice, bob, carol)
    town.dealings.waiting = []
    sent = alice.send(msg_type, bytes(80), to=bob, conversation=CONVERSATION)
    assert bob.types() == []
    town.dealings.waiting.pop()()
    assert bob.envelopes() == [sent]
    assert (carol.types(), alice.types()) == ([], [])
    assert town.dealings.payers == [Payer("192.0.2.7", is_loopback=False)]


def test_an_envelope_to_an_agent_that_is_away_waits_in_its_inbox() -> None:
    town = Town()
    alice = town.present("alice")
    bob = town.connect_agent("bob")
    sent = alice.propose(bob)
    (offline,) = alice.texts()
    assert offline == {
        "type": "offline",
        "recipient": bob.id.hex(),
        "msg_type": "PROPOSE",
        "nonce": sent.nonce,
        "conversation_id": CONVERSATION.hex(),
        "stored": True,
    }
    assert town.dealings.taken == [(sent, True)]


def test_without_an_inbox_the_sender_is_told_that_nothing_is_stored() -> None:
    town = Town(inbox=False)
    alice = town.present("alice")
    alice.propose(bytes(31) + b"\1")
    (offline,) = alice.texts()
    assert (offline["type"], offline["stored"]) == ("offline", False)


def test_what_the_market_stored_or_carried_is_not_put_into_the_inbox_again() -> None:
    town = Town()
    alice = town.present("alice")
    bob = town.connect_agent("bob")
    town.dealings.told = Told(state="NEGOTIATING", stored=True)
    alice.propose(bob)
    assert alice.texts()[0]["stored"] is True
    town.dealings.told = Told(state="NEGOTIATING", carried=True)
    alice.propose(bob)
    assert alice.texts() == []
    assert bob.prove()["cursor"] == 0


def test_a_connection_that_does_not_receive_takes_no_mail_of_its_agent() -> None:
    town = Town()
    alice = town.present("alice")
    command = town.connect_agent("bob")
    command.prove(acks=True, receives=False)
    quiet(alice, command)
    alice.propose(command)
    assert town.dealings.taken[-1][1]  # it is away
    assert town.dealings.here == set()
    assert alice.texts()[0]["stored"] is True
    assert command.envelopes() == []
    notary = NotaryAssigned(conversation_id=CONVERSATION.hex(), notary=alice.id.hex(), fee=1)
    town.dealings.told = Told(state="COMMITTED", notices=((command.id, notary), (alice.id, notary)))
    command.send(MsgType.ACCEPT, bytes(16), to=alice, conversation=CONVERSATION)
    assert command.types() == ["notary_assigned", "accepted"]
    town.dealings.told = Told(state="NEGOTIATING")
    running = town.present("bob", proven=True)
    assert running.ask(type="inbox")["envelopes"]
    quiet(alice, command, running)
    alice.propose(running)
    assert (running.types(), command.types(), alice.types()) == (["PROPOSE"], [], [])
    command.leave()
    assert town.dealings.here == {running.id}
    running.leave()
    assert town.dealings.here == set()


def test_an_envelope_that_another_hall_took_is_brought_here() -> None:
    town = Town()
    bob = town.present("bob", proven=True)
    alice = Agent(Town(), "alice", "192.0.2.8")
    letter = alice.seal(MsgType.PROPOSE, bytes(16), to=bob, conversation=CONVERSATION)
    outcomes: list[dict[str, bool]] = []
    town.dealings.carried(bob.id, encode(letter), False, lambda **each: outcomes.append(each))
    assert bob.envelopes() == [letter]
    assert outcomes == [{"is_here": True, "is_proven": True, "stored": False}]


@pytest.mark.parametrize("is_kept", [False, True])
def test_an_envelope_of_another_hall_for_an_agent_that_left_is_kept(is_kept: bool) -> None:
    """With an inbox in the store it is there before it is brought."""
    town = Town()
    bob = town.connect_agent("bob")
    alice = Agent(Town(), "alice", "192.0.2.8")
    letter = alice.seal(MsgType.PROPOSE, bytes(16), to=bob, conversation=CONVERSATION)
    outcomes: list[dict[str, bool]] = []
    town.dealings.carried(bob.id, encode(letter), is_kept, lambda **each: outcomes.append(each))
    assert outcomes == [{"is_here": False, "is_proven": False, "stored": True}]
    assert bool(bob.prove()["cursor"]) is not is_kept


def test_an_envelope_that_is_out_of_order_is_not_routed() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.error = OutOfOrder("no", "CLOSED")
    sent = alice.send(MsgType.ACCEPT, bytes(16), to=bob, conversation=CONVERSATION)
    assert alice.texts() == [
        {
            "type": "out_of_order",
            "msg_type": "ACCEPT",
            "nonce": sent.nonce,
            "conversation_id": CONVERSATION.hex(),
            "state": "CLOSED",
            "reason": "no",
        }
    ]
    town.dealings.error = RateLimited("too many open conversations")
    alice.propose(bob)
    assert alice.texts()[0]["fault"] == "RATE_LIMITED"
    town.dealings.error = OSError("disk full")
    alice.propose(bob)
    assert alice.texts()[0]["fault"] == "InternalError"
    assert bob.types() == []


def test_feedback_from_a_stranger_is_not_relayed() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.error = OutOfOrder("Only the two parties", "RESOLVED")
    alice.send(MsgType.FEEDBACK, b"")
    assert (alice.types(), bob.types()) == (["out_of_order"], [])


def test_an_envelope_of_the_hall_is_brought_to_the_notary_and_the_parties_are_told() -> None:
    town = Town()
    alice, bob, notary = (town.present(name, proven=True) for name in ("alice", "bob", "notary"))
    quiet(alice, bob, notary)
    assign = alice.seal(MsgType.NOTARIZE_ASSIGN, notary.id, to=notary)
    notice = NotaryAssigned(conversation_id=CONVERSATION.hex(), notary=notary.id.hex(), fee=7)
    town.dealings.told = Told(
        state="COMMITTED",
        notices=((alice.id, notice), (bob.id, notice)),
        mail=(Mail(notary.id, encode(assign)),),
    )
    alice.send(MsgType.ACCEPT, bytes(16), to=bob, conversation=CONVERSATION)
    assert notary.envelopes() == [assign]
    assert [each["type"] for each in alice.texts()] == ["notary_assigned"]
    assert bob.types() == ["ACCEPT", "notary_assigned"]


@pytest.mark.parametrize("stored", [False, True])
def test_a_notary_that_is_away_finds_its_assignment_in_the_inbox(stored: bool) -> None:
    """Which the market may have seen to."""
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    notary = town.connect_agent("notary")
    town.dealings.told = Told(state="COMMITTED", mail=(Mail(notary.id, b"assign", stored),))
    alice.send(MsgType.ACCEPT, bytes(16), to=bob, conversation=CONVERSATION)
    assert (notary.prove()["cursor"] == 0) == stored


def test_the_market_knows_who_is_here() -> None:
    town = Town()
    alice, again = town.present("alice", proven=True), town.connect_agent("alice")
    claimed = town.present("bob")
    again.prove()
    assert town.dealings.here == {alice.id}
    alice.leave()
    assert town.dealings.here == {alice.id}
    again.leave()
    claimed.leave()
    assert town.dealings.here == set()


def test_a_change_without_an_envelope_is_told_to_the_parties() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    change = ConversationChanged(conversation_id=CONVERSATION.hex(), state="RESOLVED", cause="review")
    town.dealings.changed((alice.id, bytes(32)), change)
    assert (alice.types(), bob.types()) == (["conversation_changed"], [])


# -- who sends -----------------------------------------------------------------------------------------


def test_an_envelope_counts_once() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    sent = alice.propose(bob)
    alice.post(encode(sent))
    (refused,) = alice.texts()
    assert (refused["fault"], refused["nonce"]) == ("NonceReplay", sent.nonce)
    assert len(bob.envelopes()) == 1


def test_an_envelope_from_before_the_start_may_have_been_taken_before() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    alice.post(encode(signed(alice, MsgType.BOUNTY, timestamp=town.room.floor)))
    assert alice.texts()[0]["fault"] == "NonceReplay"


def test_a_forged_envelope_is_refused() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    forged = structs.replace(alice.seal(MsgType.BOUNTY, b"{}"), signature=bytes(64))
    alice.post(encode(forged))
    assert alice.texts()[0]["fault"] == "InvalidSignature"
    wrong = structs.replace(alice.seal(MsgType.BOUNTY, b"{}"), version=2)
    alice.post(encode(wrong))
    assert alice.texts()[0]["fault"] == "UnsupportedVersion"
    alice.post(b"\x00")
    assert alice.texts()[0]["fault"] == "CborDecode"
    alice.post(bytes(70_000))
    assert alice.texts()[0]["fault"] == "EnvelopeTooLarge"
    assert bob.types() == []
    assert town.room.refused == {
        "InvalidSignature": 1,
        "UnsupportedVersion": 1,
        "CborDecode": 1,
        "EnvelopeTooLarge": 1,
    }


@pytest.mark.parametrize("payload", [b"", bytes(64), bytes(200)])
def test_a_beacon_names_its_sender(payload: bytes) -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    alice.send(MsgType.BEACON, payload)
    assert alice.texts()[0]["fault"] == "BeaconKeyMismatch"
    assert bob.types() == []


def test_a_connection_sends_the_envelopes_of_one_key() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    bob.post(encode(alice.seal(MsgType.BOUNTY, b"{}")))
    assert bob.texts()[0]["fault"] == "WrongSender"


def test_what_the_hall_signed_is_not_heeded_when_it_comes_back() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    hall = town.connect_agent("hall", key=HALL_KEY)
    alice.post(encode(hall.seal(MsgType.BOUNTY, b"{}")))
    assert alice.texts()[0]["fault"] == "ReservedKey"
    alice.propose(HALL_KEY.public.raw)
    assert alice.texts()[0]["fault"] == "ReservedKey"
    assert alice.guest.key is None


def test_a_banned_key_is_refused_at_any_time() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(bob)
    town.presence.banned[alice.id] = Banned("You are banned")
    alice.propose(bob)
    assert alice.texts()[-1]["fault"] == "BANNED"
    assert alice.ask(type="prove", agent_id=alice.id.hex())["code"] == "BANNED"
    assert bob.types() == []


def test_a_recipient_belongs_to_bilateral_envelopes_only() -> None:
    town = Town()
    alice = town.present("alice")
    alice.post(encode(signed(alice, MsgType.BOUNTY, recipient=alice.id)))
    alice.post(encode(signed(alice, MsgType.BOUNTY, msg_type=MsgType.REJECT)))
    assert [text["fault"] for text in alice.texts()] == ["WrongRoute", "WrongRoute"]


def test_presence_follows_beacons_and_connections() -> None:
    town = Town()
    alice = town.present("alice")
    assert town.presence.present == {alice.guest: (alice.id, "alice", False)}
    alice.prove()
    assert town.presence.present == {alice.guest: (alice.id, "alice", True)}
    alice.leave()
    assert town.presence.present == {}


def test_a_beacon_in_a_crowd_updates_the_roster_and_goes_to_no_connection() -> None:
    town = Town()
    crowd = [town.present(f"agent{number}", f"192.0.2.{number % 16}") for number in range(LARGEST_AUDIENCE)]
    quiet(*crowd)
    late = town.present("late")
    crowd[0].beacon("renamed")
    assert town.presence.present[late.guest] == (late.id, "late", False)
    assert town.presence.present[crowd[0].guest] == (crowd[0].id, "renamed", False)
    assert not any(each.types() for each in (*crowd, late))


# -- acks and order ------------------------------------------------------------------------------------


def test_a_connection_that_asked_for_acks_hears_of_each_envelope() -> None:
    town = Town()
    alice = town.connect_agent("alice")
    alice.prove(acks=True)
    bob = town.present("bob")
    quiet(alice)
    sent = alice.propose(bob)
    assert alice.texts() == [
        {
            "type": "accepted",
            "msg_type": "PROPOSE",
            "nonce": sent.nonce,
            "conversation_id": CONVERSATION.hex(),
            "state": "NEGOTIATING",
        }
    ]
    alice.beacon()
    alice.send(MsgType.BOUNTY, b"{}")
    broadcast(alice, "x")
    assert [text["msg_type"] for text in alice.texts()] == ["BEACON", "BOUNTY", "BROADCAST"]
    alice.propose(bytes(31) + b"\1")
    assert alice.types() == ["offline", "accepted"]


def test_a_connection_waits_when_too_many_of_its_envelopes_wait_for_the_disk() -> None:
    town = Town(mesh_rate=Rate(0, 1))
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.waiting = waiting = list[Callable[[], None]]()
    sent = [alice.propose(bob, bytes([number]) * 16) for number in range(1, MAX_IN_FLIGHT + 12)]
    assert len(waiting) == MAX_IN_FLIGHT
    assert alice.link.paused
    bob.beacon("other")  # others do not wait
    assert alice.types() == ["BEACON"]
    while waiting:
        waiting.pop(0)()
        assert len(waiting) <= MAX_IN_FLIGHT
    assert bob.envelopes() == sent
    assert not alice.link.paused


def test_a_long_envelope_that_waits_for_the_disk_counts_as_several() -> None:
    town = Town(mesh_rate=Rate(0, 1))
    alice, bob = town.present("alice"), town.present("bob")
    town.dealings.waiting = waiting = list[Callable[[], None]]()
    payload = bytes(BYTES_OF_ONE * MAX_IN_FLIGHT // 2)
    sent = [
        alice.send(MsgType.DELIVER, payload, to=bob, conversation=bytes([number]) * 16)
        for number in range(1, 5)
    ]
    assert len(waiting) == 2
    quiet(bob)
    while waiting:
        waiting.pop(0)()
        assert len(waiting) <= 2
    assert bob.envelopes() == sent
    assert alice.guest.in_flight == 0


def test_what_a_connection_sent_before_it_ended_is_still_handled() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.checks.is_stopped = True
    sent = alice.propose(bob)
    alice.beacon("ghost")
    alice.leave()
    town.checks.run()
    assert bob.envelopes() == [sent]
    assert town.presence.present == {bob.guest: (bob.id, "bob", False)}
    assert list(town.room.guests) == [bob.guest]


def test_envelopes_that_wait_for_the_disk_outlive_their_connection() -> None:
    town = Town(mesh_rate=Rate(0, 1))
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.waiting = waiting = list[Callable[[], None]]()
    sent = [alice.propose(bob, bytes([number]) * 16) for number in range(1, MAX_IN_FLIGHT + 4)]
    alice.leave()
    while waiting:
        waiting.pop(0)()
    assert bob.envelopes() == sent


def test_what_a_connection_that_is_gone_cannot_pay_for_is_dropped() -> None:
    town = Town(budget_told=Rate(2, 10))
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    for number in range(1, 6):
        alice.propose(bob, bytes([number]) * 16)
    alice.leave()
    taken = len(bob.envelopes())
    assert taken < 5
    town.advance(100)
    assert bob.envelopes() == []


def test_a_hall_that_closes_finishes_what_is_under_way() -> None:
    town = Town()
    alice, bob = town.present("alice"), town.present("bob")
    quiet(alice, bob)
    town.dealings.waiting = waiting = list[Callable[[], None]]()
    alice.propose(bob)
    ended: list[bool] = []
    town.room.take_no_more(lambda: ended.append(True))
    alice.propose(bob)
    assert (len(waiting), ended) == (1, [])
    waiting.pop()()
    assert ended == [True]
    assert len(bob.envelopes()) == 1


# -- limits --------------------------------------------------------------------------------------------


def test_a_connection_over_its_rate_waits() -> None:
    town = Town(mesh_rate=Rate(3, 10))
    alice, bob = town.connect_agent("alice"), town.present("bob")
    for _ in range(5):
        alice.send(MsgType.BOUNTY, b"{}")
    assert len(bob.envelopes()) == 3
    assert alice.link.paused
    town.advance(10)
    assert len(bob.envelopes()) == 2
    assert not alice.link.paused


def test_a_publication_is_charged_for_its_audience_before_it_is_taken() -> None:
    town = Town(budget_told=Rate(10, 10))
    alice = town.present("alice")
    bob = town.present("bob")
    for number in range(8):
        town.present(str(number))
    town.advance(100)
    quiet(bob)
    alice.send(MsgType.BOUNTY, b"{}")
    alice.send(MsgType.BOUNTY, b"{}")
    assert len(bob.envelopes()) == 1
    town.advance(10)
    assert len(bob.envelopes()) == 1


def test_a_connection_without_a_key_is_closed_in_time() -> None:
    town = Town()
    alice, bob = town.connect_agent("alice"), town.present("bob")
    town.advance(town.settings.identify_timeout)
    assert alice.link.closed is not None
    assert bob.link.closed is None
    assert list(town.room.guests) == [bob.guest]


def test_an_address_has_a_limited_number_of_connections() -> None:
    town = Town(max_connections_per_ip=2)
    first = town.connect_agent("a")
    town.connect_agent("b")
    link = MeshLink()
    assert town.room.connect(link, "192.0.2.7") is None
    assert link.closed is not None
    first.leave()
    assert town.room.connect(MeshLink(), "192.0.2.7") is not None


def test_the_market_is_told_which_envelopes_came_with_a_proof_of_the_key() -> None:
    town = Town()
    bob = town.present("bob")
    town.present("carol").propose(bob)
    sent = town.present("alice", proven=True).propose(bob)
    assert town.dealings.proven == [sent]
