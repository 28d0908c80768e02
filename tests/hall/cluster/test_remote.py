"""Agents of other nodes: what they are told gets to their connection, what they answer to the agent that asked."""

import pytest

from moothall.hall.cluster import remote
from moothall.hall.cluster.moves import HOLD_SECONDS, MAX_HELD, MAX_MOVES, AskPassed
from moothall.hall.cluster.ownership import MAX_HEIRS, Displace
from moothall.hall.cluster.remote import (
    MAX_AWAITED,
    Banned,
    Deliver,
    DeliverLine,
    DeliverPacket,
    PassOn,
)
from moothall.hall.cluster.roster import AgentPresent
from moothall.hall.session import Agent
from moothall.settings.limits import Rate
from moothall.wire.agentchat.codec import encode
from moothall.wire.agentchat.server import Chat, Pong
from moothall.wire.bus import EVERY_NODE, BusMessage
from moothall.wire.outgoing import Outgoing
from tests.hall.test_third_wire import Telegraph
from tests.identity.vectors import ALICE, BOB
from tests.support.cluster import Halls
from tests.support.world import (
    ADMIN_KEY,
    Guest,
    assert_closed,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

NONCE = "n" * 16


def agent_on(halls: Halls, node: str, guest: Guest) -> Agent:
    return halls[node].hall.roster.agents[guest.id[1:]]


def test_direct_messages_go_both_ways() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob")
    halls.send(alice, "MSG", to=bob.id, content="hello", ref="7")
    said = assert_sent(bob, "MSG", content="hello")
    assert (said["from"], said["from_name"]) == (alice.id, "alice")
    assert_sent(alice, "ACK", ref="7", msg_id=said["msg_id"])
    halls.advance(1)
    halls.send(bob, "MSG", to=alice.id, content="hi")
    assert_sent(alice, "MSG", content="hi")


def test_the_order_of_a_sender_is_kept() -> None:
    halls = Halls("a", "b", no_limits=True)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    for number in range(20):
        halls["a"].send(alice, "MSG", to=bob.id, content=str(number))
        if number % 3 == 0:
            halls.end_turn()
    halls.settle()
    assert [message["content"] for message in bob.read()] == [str(number) for number in range(20)]


def test_lone_surrogates_arrive_as_they_were_sent() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    halls.world_of(alice).send_raw(alice, b'{"type":"MSG","to":"%b","content":"\\ud83d"}' % bob.id.encode())
    halls.settle()
    assert_sent(bob, "MSG", content="\ud83d")


def test_an_agent_that_is_not_there_is_refused_as_ever() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    halls.disconnect(bob)
    halls.send(alice, "MSG", to=bob.id, content="hello")
    assert_refused(alice, "AGENT_NOT_FOUND")


def test_what_cannot_get_there_now_is_refused() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY)
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.cut("a")
    halls.send(alice, "MSG", to=bob.id, content="hello")
    assert_refused(alice, "UNAVAILABLE", "another node")
    halls.send(alice, "FILE_CHUNK", to=bob.id, content="chunk")
    assert_refused(alice, "UNAVAILABLE")
    halls.send(alice, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_refused(alice, "UNAVAILABLE")
    for verb in ("ADMIN_KICK", "ADMIN_VERIFY"):
        halls.send(alice, verb, admin_key=ADMIN_KEY, agent_id=bob.id, verified=True)
        assert_refused(alice, "UNAVAILABLE", "another node")
    halls.send(alice, "ADMIN_MOTD", admin_key=ADMIN_KEY, motd="soon", kick=True)
    assert_refused(alice, "UNAVAILABLE", "without `kick`")
    halls.send(alice, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id="@" + "0" * 8)
    assert_refused(alice, "AGENT_NOT_FOUND")
    halls.advance(1)
    assert_open(alice, bob)
    halls.send(alice, "MSG", to=alice.id, content="to myself")
    assert_sent(alice, "MSG")
    halls.heal("a")
    halls.advance(2)
    halls.send(alice, "MSG", to=bob.id, content="again")
    assert_sent(bob, "MSG", content="again")


def test_one_message_to_many_agents_of_a_node_is_one_on_the_bus() -> None:
    halls = Halls("a", "b", "c")
    there = [halls.agent("b", f"there{number}") for number in range(5)]
    elsewhere = halls.agent("c", "elsewhere")
    hall = halls["a"].hall
    everyone = [agent_on(halls, "a", guest) for guest in (*there[:3], elsewhere, *there[3:])]
    hall.delivery.tell_all(everyone, Pong(ts=1))
    waiting = halls.clusters["a"].post._waiting
    ids = {subject: [message.ids for message in each] for subject, each in waiting.items()}  # type: ignore[attr-defined]
    assert ids == {"node.b": [[guest.id[1:] for guest in there]], "node.c": [[elsewhere.id[1:]]]}
    halls.settle()
    for guest in (*there, elsewhere):
        assert_sent(guest, "PONG")
    # What goes out in a later turn is a message of its own.
    outgoing = Outgoing(Pong(ts=2))
    everyone[0].link.put(outgoing)
    halls.settle()
    everyone[1].link.put(outgoing)
    halls.settle()
    assert_sent(there[0], "PONG")
    assert_sent(there[1], "PONG")


def test_the_order_for_one_agent_is_kept_when_messages_are_shared() -> None:
    halls = Halls("a", "b")
    one, two = halls.agent("b", "one"), halls.agent("b", "two")
    first, second = Outgoing(Pong(ts=1)), Outgoing(Pong(ts=2))
    agent_on(halls, "a", one).link.put(first)
    agent_on(halls, "a", two).link.put(second)
    agent_on(halls, "a", two).link.put(first)
    agent_on(halls, "a", one).link.put(second)
    halls.settle()
    assert [message["ts"] for message in one.read()] == [1, 2]
    assert [message["ts"] for message in two.read()] == [2, 1]


class Late:
    """Bob has moved from b to c, and Alice's node has yet to hear of it. His former node may have to, as well."""

    def __init__(self, *, knows: bool, features: list[str] | None = None) -> None:
        self.halls = halls = Halls("a", "b", "c", no_limits=True)
        self.alice = halls.agent("a", "alice", features=["receipts"])
        halls.agent("b", "bob", key=BOB, features=features or ())
        halls.broker.delayed |= {("b", "a"), ("c", "a")}
        if not knows:
            halls.clusters["b"].post._handlers[AgentPresent] = lambda origin, message: None
        self.bob = halls.agent("c", "bob", key=BOB, features=features or ())
        assert halls["a"].hall.roster.agents[self.bob.id[1:]].node == "b"


@pytest.mark.parametrize("knows", [True, False])
def test_a_message_to_an_agent_that_has_moved_is_sent_on(knows: bool) -> None:
    late = Late(knows=knows)
    late.halls.send(late.alice, "MSG", to=late.bob.id, content="hello", ref="1")
    assert_sent(late.alice, "ACK", ref="1")
    assert_sent(late.bob, "MSG", content="hello")


def test_a_line_and_a_packet_to_an_agent_that_has_moved_are_sent_on() -> None:
    halls = Halls("a", "b", "c")
    office = Telegraph(halls["c"], "office")
    halls.settle()
    packets: list[BusMessage] = []
    halls.clusters["c"].post._handlers[DeliverPacket] = lambda origin, message: packets.append(message)
    line = encode(Chat("@12345678", "alice", office.agent.address, "hello", ts=1))
    halls.clusters["a"].send("b", DeliverLine([office.agent.id], line))
    halls.clusters["a"].send("b", DeliverPacket(office.agent.id, b"packet"))
    halls.settle()
    assert office.received == ["alice STOP HELLO STOP"]
    assert packets == [DeliverPacket(office.agent.id, b"packet", moves=1)]


@pytest.mark.parametrize("features", [[], ["receipts"]])
def test_receipts_of_what_was_sent_on_mean_the_connection_that_has_it(features: list[str]) -> None:
    late = Late(knows=True, features=features)
    late.bob.link.watched = []
    late.halls.send(late.alice, "MSG", to=late.bob.id, content="hello", receipt=True)
    msg_id = assert_sent(late.bob, "MSG", content="hello")["msg_id"]
    late.halls.broker.delayed.clear()
    late.halls.settle()
    assert_silent(late.alice)
    for told in late.bob.link.watched:
        told(True)
    late.halls.settle()
    assert_sent(late.alice, "RECEIPT", msg_id=msg_id, status="DELIVERED")
    if features:
        late.halls.send(late.bob, "RECEIPT", msg_id=msg_id, status="SEEN")
        assert_sent(late.alice, "RECEIPT", msg_id=msg_id, status="SEEN")


def test_a_message_is_not_sent_on_for_ever() -> None:
    """Each of two nodes takes the agent for one of the other."""
    halls = Halls("a", "b")
    for one, other in ("ab", "ba"):
        halls.clusters[one].ownership._heirs["12345678"] = other
    before = halls.broker.published
    halls.clusters["a"].send("b", Deliver(["12345678"], b"frame"))
    halls.settle()
    assert halls.broker.published - before == 1 + MAX_MOVES
    written: list[bool] = []
    carrier = halls.clusters["a"].roster.carrier("b")
    assert carrier is not None
    carrier.when_written("12345678", written.append)
    halls.settle()
    assert written == [False]


def test_messages_that_are_sent_on_keep_their_order() -> None:
    """Alice's node hears of the move between two messages. The second one has the shorter way."""
    late = Late(knows=True)
    halls, alice, bob = late.halls, late.alice, late.bob
    halls.broker.delayed.add(("a", "b"))
    halls["a"].send(alice, "MSG", to=bob.id, content="first", ref="1")
    halls.settle()
    halls.broker.delayed -= {("b", "a"), ("c", "a")}
    halls.settle()
    assert halls["a"].hall.roster.agents[bob.id[1:]].node == "c"
    halls.advance(HOLD_SECONDS / 2)
    halls["a"].send(alice, "MSG", to=bob.id, content="second", ref="2")
    halls["a"].send(alice, "MSG", to=bob.id, content="third", ref="3", receipt=True)
    for slow in ({("a", "b")}, {("b", "c")}):
        halls.broker.delayed = slow
        halls.settle()
        assert_silent(bob)
    halls.broker.delayed.clear()
    halls.settle()
    assert [message["content"] for message in bob.read()] == ["first", "second", "third"]
    assert [message["type"] for message in alice.read()] == ["ACK", "ACK", "ACK", "RECEIPT"]


def test_messages_wait_for_a_former_node_that_does_not_answer_for_a_moment_only() -> None:
    """It may be one of the version before."""
    halls = Halls("a", "b", "c", no_limits=True)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob", key=BOB)
    halls.send(alice, "MSG", to=bob.id, content="hello")
    del halls.clusters["b"].post._handlers[AskPassed]
    halls.clusters["b"].post._kinds._decoders.pop(AskPassed.KIND)
    bob = halls.agent("c", "bob", key=BOB)
    halls.advance(HOLD_SECONDS - 0.1)
    halls.send(alice, "MSG", to=bob.id, content="again")
    assert_silent(bob)
    halls.advance(0.2)
    assert_sent(bob, "MSG", content="again")


def test_messages_that_wait_for_a_former_node_are_bounded() -> None:
    halls = Halls("a", "b", "c", no_limits=True)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob", key=BOB)
    halls.send(alice, "MSG", to=bob.id, content="hello")
    halls.broker.delayed.add(("a", "b"))  # its question is still on the way
    bob = halls.agent("c", "bob", key=BOB)
    for number in range(MAX_HELD + 1):
        halls["a"].send(alice, "MSG", to=bob.id, content=str(number))
    halls.settle()
    assert [message["content"] for message in bob.read()] == [str(number) for number in range(MAX_HELD + 1)]


def test_the_nodes_that_ids_went_to_are_remembered_up_to_a_limit() -> None:
    halls = Halls("a", "b")
    for number in range(MAX_HEIRS + 1):
        halls.clusters["b"].send("a", Displace(f"{number}", 1, "192.0.2.1"))
    halls.settle()
    owner = halls.clusters["a"].ownership
    assert [owner.heir_of(str(number)) for number in (0, 1, MAX_HEIRS)] == ["", "b", "b"]


def test_files_get_there_and_a_slow_reader_is_spared() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    halls.send(alice, "FILE_CHUNK", to=bob.id, content="chunk")
    assert_sent(bob, "FILE_CHUNK", content="chunk")
    limit = halls["b"].settings.outbox_limit
    bob.link.watched = []
    bob.link.unread = limit // 2
    halls.advance(1)
    halls.send(alice, "FILE_CHUNK", to=bob.id, content="one more")  # its node did not know yet
    assert_sent(bob, "FILE_CHUNK", content="one more")
    halls.advance(1)
    halls.send(alice, "FILE_CHUNK", to=bob.id, content="too much")
    assert_refused(alice, "RATE_LIMITED", "does not read this fast")
    bob.link.unread = 0
    for told in bob.link.watched:
        told(True)
    halls.settle()
    halls.advance(1)
    halls.send(alice, "FILE_CHUNK", to=bob.id, content="again")
    assert_sent(bob, "FILE_CHUNK", content="again")


def test_a_receipt_means_the_remote_connection() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", features=["receipts"])
    bob = halls.agent("b", "bob", features=["receipts"])
    bob.link.watched = []
    halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True, ref="1")
    msg_id = assert_sent(bob, "MSG", receipt="SEEN")["msg_id"]
    assert [message["type"] for message in alice.read()] == ["ACK"]
    for told in bob.link.watched:
        told(True)
    halls.settle()
    assert_sent(alice, "RECEIPT", msg_id=msg_id, status="DELIVERED", to=bob.id)
    halls.send(bob, "RECEIPT", msg_id=msg_id, status="SEEN", ref="r")
    assert_sent(bob, "ACK", ref="r")
    assert_sent(alice, "RECEIPT", msg_id=msg_id, status="SEEN", to=bob.id)
    halls.send(bob, "RECEIPT", msg_id=msg_id, status="FAILED", reason="too hard")
    assert_sent(alice, "RECEIPT", status="FAILED", reason="too hard")
    halls.send(bob, "RECEIPT", msg_id=msg_id, status="SEEN")
    assert_silent(alice, bob)


def test_agents_that_do_not_read_cost_others_no_receipts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node waits for so many of another node's connections. It forgets those that it waits for longest."""
    monkeypatch.setattr(remote, "MAX_UNWRITTEN", 5)
    halls = Halls("a", "b", no_limits=True)
    mallory, alice = (halls.agent("a", name, features=["receipts"]) for name in ("mallory", "alice"))
    sink, bob = (halls.agent("b", name, features=["receipts"]) for name in ("sink", "bob"))
    sink.link.watched = []
    for _ in range(5):
        halls.send(mallory, "MSG", to=sink.id, content="unread", receipt=True)
    halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True, ref="1")
    assert_sent(alice, "ACK", ref="1")
    assert_sent(alice, "RECEIPT", status="DELIVERED", to=bob.id)
    assert [(each["type"], each["status"]) for each in mallory.read()] == [("RECEIPT", "UNDELIVERED")]


def test_a_sender_that_comes_back_at_another_node_is_told_how_its_messages_stand() -> None:
    halls = Halls("a", "b")
    bob = halls.agent("a", "bob", features=["receipts"])
    alice = halls.agent("a", "alice", key=ALICE, features=["receipts"])
    halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True)
    msg_id = assert_sent(bob, "MSG")["msg_id"]
    halls.disconnect(alice)
    halls.send(bob, "RECEIPT", msg_id=msg_id, status="SEEN")
    again = halls.connect("b")
    halls.identify(again, "alice", key=ALICE, features=["receipts"])
    assert_sent(again, "WELCOME")
    assert_sent(again, "RECEIPT", msg_id=msg_id, status="SEEN", to=bob.id)
    halls.send(bob, "RECEIPT", msg_id=msg_id, status="DONE")
    assert_sent(again, "RECEIPT", msg_id=msg_id, status="DONE", to=bob.id)


def test_one_that_moves_again_and_again_pays_for_what_it_is_told() -> None:
    halls = Halls("a", "b", budget_told=Rate(30, 1000))
    bob = halls.agent("a", "bob", features=["receipts"])
    alice = halls.agent("a", "alice", key=ALICE, features=["receipts"])
    halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True)
    told = 0
    for _ in range(100):
        moved = halls.connect("b")
        halls.identify(moved, "alice", key=ALICE, features=["receipts"])
        told += sum(message["type"] == "RECEIPT" for message in moved.read())
        halls.disconnect(moved)
    assert 0 < told <= 30


def test_a_connection_that_ends_first_did_not_get_it() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", features=["receipts"])
    for how in ("leaves", "dies"):
        bob = halls.agent("b", "bob", features=["receipts"])
        bob.link.watched = []
        halls.advance(1)
        halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True)
        alice.read()
        if how == "leaves":
            halls.disconnect(bob)
            for told in bob.link.watched:
                told(False)
            halls.settle()
        else:
            halls.kill("b")
            halls.advance(5)
        assert_sent(alice, "RECEIPT", status="UNDELIVERED", to=bob.id)


def test_a_message_to_a_node_that_has_just_died_is_undelivered() -> None:
    """The sender's node hears of the death later, and has acknowledged the message by then."""
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", features=["receipts"])
    bob = halls.agent("b", "bob", features=["receipts"])
    halls.kill("b")
    halls.send(alice, "MSG", to=bob.id, content="hello", receipt=True, ref="1")
    assert_sent(alice, "ACK", ref="1")
    assert_silent(alice)
    halls.advance(5)
    assert_sent(alice, "RECEIPT", status="UNDELIVERED", to=bob.id)


def test_a_message_that_the_bus_has_lost_is_undelivered() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice", features=["receipts"])
    bob = halls.agent("b", "bob", features=["receipts"])
    halls["a"].send(alice, "MSG", to=bob.id, content="hello", receipt=True, ref="1")
    assert_sent(alice, "ACK", ref="1")
    halls.end_turn()
    halls.cut("a")
    assert_sent(alice, "RECEIPT", status="UNDELIVERED", to=bob.id)
    halls.heal("a")
    halls.advance(5)
    assert_silent(alice, bob)


def test_agents_prove_their_key_to_agents_of_other_nodes() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.send(alice, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    assert_sent(alice, "VERIFY_REQUEST", status="pending")
    request = assert_sent(bob, "VERIFY_REQUEST", nonce=NONCE)["request_id"]
    halls.send(bob, "VERIFY_RESPONSE", request_id=request, nonce=NONCE, sig=BOB.sign(NONCE), ref="v")
    assert_sent(alice, "VERIFY_SUCCESS", agent=bob.id, pubkey=BOB.public.pem)
    assert_sent(bob, "VERIFY_SUCCESS", verified=True, ref="v")
    assert_silent(alice, bob)
    halls.send(bob, "VERIFY_RESPONSE", request_id=request, nonce=NONCE, sig="x", ref="w")
    assert_refused(bob, "VERIFICATION_EXPIRED", ref="w")
    halls.send(bob, "VERIFY_RESPONSE", request_id="verify_x_1", nonce=NONCE, sig="x", ref="u")
    assert_refused(bob, "VERIFICATION_EXPIRED", ref="u")


def test_a_request_fails_when_the_agent_or_its_node_is_gone() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice", key=ALICE), halls.agent("b", "bob", key=BOB)
    halls.send(alice, "VERIFY_REQUEST", target=bob.id, nonce=NONCE)
    alice.read()
    halls.kill("b")
    halls.advance(5)
    assert_sent(alice, "VERIFY_FAILED", reason="Verification failed: the agent left")


def test_an_admin_kicks_and_bans_agents_of_other_nodes() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY)
    admin = halls.agent("a", "admin")
    bob, carl = halls.agent("b", "bob", key=BOB), halls.agent("b", "carl")
    halls.send(admin, "ADMIN_KICK", admin_key=ADMIN_KEY, agent_id=bob.id)
    assert_sent(admin, "ADMIN_RESULT", action="kick", success=True)
    assert_sent(bob, "KICKED", reason="Kicked by admin")
    assert_closed(bob, 1000, "Kicked by admin")
    halls.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=carl.id, reason="enough")
    assert_sent(carl, "BANNED", reason="enough")
    assert_closed(carl, 1000, "Banned by admin")
    assert list(halls["a"].hall.roster.agents) == [admin.id[1:]]
    assert_open(admin)


def test_a_ban_holds_at_all_nodes_when_the_agent_is_closed() -> None:
    """The store tells the other nodes later."""
    halls = Halls("a", "b", "c", admin_key=ADMIN_KEY)
    admin, bob = halls.agent("a", "admin"), halls.agent("b", "bob", key=BOB)
    halls.send(admin, "ADMIN_BAN", admin_key=ADMIN_KEY, agent_id=bob.id, reason="enough")
    assert [message["type"] for message in bob.read()] == ["BANNED"]
    assert_closed(bob, 1000, "Banned by admin")
    for node in halls.worlds:
        again = halls.connect(node)
        halls.identify(again, "bob", key=BOB)
        assert_refused(again, "BANNED", "enough")


@pytest.mark.parametrize("ban", [b"[]", b"x", b"\xff"])
def test_a_ban_that_cannot_be_read_is_refused(ban: bytes) -> None:
    halls = Halls("a", "b")
    halls.clusters["a"].publish(EVERY_NODE, Banned(ban))
    halls.settle()
    assert halls.clusters["b"].post.refused == 1
    assert len(halls["b"].hall.bans) == 0


def test_a_message_of_the_day_with_kick_closes_the_connections_of_all_nodes() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY)
    admin, alice = halls.agent("a", "admin"), halls.agent("a", "alice", join="#general")
    bob, stranger = halls.agent("b", "bob", join="#general"), halls.connect("b")
    halls.hush()
    halls.send(admin, "ADMIN_MOTD", admin_key=ADMIN_KEY, motd="back in an hour", kick=True)
    for guest in (alice, bob, stranger):
        assert_sent(guest, "MOTD_UPDATE", motd="back in an hour")
    halls.advance(0.4)
    assert_open(alice, bob, stranger)
    late = halls.connect("b")
    halls.advance(0.1)
    for guest in (alice, bob, stranger):
        assert_closed(guest, 1001, "Server maintenance")
        assert_silent(guest)
    assert_open(admin, late)
    assert list(halls["b"].hall.roster.agents) == [admin.id[1:]]


def test_a_message_of_the_day_without_kick_closes_none() -> None:
    halls = Halls("a", "b", admin_key=ADMIN_KEY)
    admin, bob = halls.agent("a", "admin"), halls.agent("b", "bob")
    halls.send(admin, "ADMIN_MOTD", admin_key=ADMIN_KEY, motd="tea at five")
    halls.advance(1)
    assert_open(admin, bob)


def test_callbacks_fire_once_where_the_agent_is() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice")
    halls.send(alice, "MSG", to=alice.id, content="@@cb:5s@@remember")
    alice.read()
    halls.advance(10)
    fired = [message for message in alice.read() if "cb_id" in message]
    assert len(fired) == 1


def test_agents_of_another_wire_get_lines_they_can_translate() -> None:
    halls = Halls("a", "b")
    alice = halls.agent("a", "alice")
    telegraph = Telegraph(halls["b"], "office")
    halls.settle()
    there = halls["a"].hall.roster.agents[telegraph.agent.id]
    assert (there.via, there.node) == ("telegraph", "b")
    halls.send(alice, "MSG", to=there.address, content="hello")
    assert telegraph.received == ["alice STOP HELLO STOP"]
    there.link.put(Outgoing(Pong(ts=1)))
    halls.settle()
    assert telegraph.received == ["alice STOP HELLO STOP"]
    telegraph.send(alice.id, "arriving monday")
    halls.settle()
    alice.read()
    halls["a"].send_raw(alice, b'{"type":"MSG","to":"%b","content":"\\ud83d"}' % there.address.encode())
    halls.advance(1)
    halls["a"].send_raw(alice, b'{"type":"MSG","to":"%b","content":"\\ud83d"}' % there.address.encode())
    halls.settle()
    assert telegraph.received[1:] == ["alice STOP \ud83d STOP"]


def test_a_message_that_cannot_be_read_hurts_no_one() -> None:
    halls = Halls("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    send = halls.clusters["a"].send
    for message in (
        DeliverLine([bob.id[1:]], b"{"),
        DeliverLine([bob.id[1:]], b'{"type":"PONG","ts":1}'),
        PassOn(alice.id[1:], None, b"junk"),
        PassOn(alice.id[1:], None, b'{"type":"LIST_CHANNELS"}'),
    ):
        send("b", message)
        halls.settle()
    assert halls.clusters["b"].post.refused == 4
    send("b", Deliver(["nobody"], b""))
    send("b", PassOn(bob.id[1:], None, b'{"type":"RECEIPT","msg_id":"1","status":"SEEN"}'))
    halls.settle()
    assert_silent(alice, bob)


def test_what_other_nodes_ask_is_remembered_up_to_a_limit() -> None:
    halls = Halls("a", "b")
    remote = halls.clusters["b"].remote
    for number in range(MAX_AWAITED + 10):
        remote.await_answer(str(number), "a")
    assert len(remote._awaited) == MAX_AWAITED
    assert "9" not in remote._awaited
