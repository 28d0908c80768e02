"""Channels in a hall of several nodes: an agent cannot tell which node it is connected to."""

from random import Random

import pytest

from moothall.hall.cluster.replicas import Role
from moothall.hall.gallery import Gallery
from moothall.identity import PrivateKey
from tests.support.cluster import Halls
from tests.support.world import FakeLink, Guest, assert_sent, assert_silent

BOB = PrivateKey(b"b" * 32)


def halls_with(*nodes: str, **settings: object) -> Halls:
    return Halls(*nodes, random=Random(5), **settings)  # noqa: S311


def lines(guest: Guest) -> list[str]:
    return [message["content"] for message in guest.read() if message["type"] == "MSG"]


def test_members_of_all_nodes_hear_each_other() -> None:
    halls = halls_with("a", "b", "c")
    alice = halls.agent("a", "alice", join="#general")
    bob = halls.agent("b", "bob", join="#general")
    assert_sent(alice, "AGENT_JOINED", agent=bob.id, name="bob")
    halls.send(alice, "MSG", to="#general", content="hello", ref="1")
    assert_sent(bob, "MSG", content="hello", **{"from": alice.id})
    assert_sent(alice, "ACK", ref="1")
    halls.send(bob, "MSG", to="#general", content="hi", ref="2")
    assert_sent(alice, "MSG", content="hi")
    assert_sent(bob, "ACK", ref="2")
    assert_silent(alice, bob)
    carol = halls.connect("c")
    halls.identify(carol, "carol")
    carol.id = assert_sent(carol, "WELCOME")["agent_id"]
    halls.send(carol, "JOIN", channel="#general", ref="3")
    told = carol.read()
    joined = next(message for message in told if message["type"] == "JOINED")
    assert joined["ref"] == "3"
    assert {entry["id"] for entry in joined["agents"]} == {alice.id, bob.id, carol.id}
    replay = [message["content"] for message in told if message["type"] == "MSG" and message.get("replay")]
    assert replay == ["hello", "hi"]


def test_leaving_and_disconnecting_is_told_once() -> None:
    halls = halls_with("a", "b", "c")
    alice, bob, carol = (halls.agent(node, node, join="#general") for node in "abc")
    halls.hush()
    halls.send(bob, "LEAVE", channel="#general", ref="1")
    assert_sent(bob, "LEFT", channel="#general", ref="1")
    for guest in (alice, carol):
        assert_sent(guest, "AGENT_LEFT", agent=bob.id)
    halls.disconnect(carol)
    assert_sent(alice, "AGENT_LEFT", agent=carol.id)
    assert_silent(alice, bob)
    halls.send(bob, "MSG", to="#general", content="?", ref="2")
    assert_sent(bob, "ERROR", code="CHANNEL_NOT_FOUND", ref="2")
    halls.send(alice, "LIST_AGENTS", channel="#general")
    assert [entry["id"] for entry in assert_sent(alice, "AGENTS")["list"]] == [alice.id]


def test_each_list_is_answered_at_a_node_that_forgets_the_channel_in_between() -> None:
    """The home still counts what the node has submitted."""
    halls = halls_with("a", "b", auto_join=False)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    halls.send(alice, "CREATE_CHANNEL", channel="#work")
    for ref in ("1", "2", "3"):
        halls.send(bob, "LIST_AGENTS", channel="#work", ref=ref)
        assert [entry["id"] for entry in assert_sent(bob, "AGENTS", ref=ref)["list"]] == [alice.id]
        halls.advance(3)
        assert "#work" not in halls.clusters["b"].channels.homes.logs


def test_a_channel_is_made_once_and_known_at_all_nodes() -> None:
    halls = halls_with("a", "b")
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    for guest in (alice, bob):
        halls.world_of(guest).send(guest, "CREATE_CHANNEL", channel="#new", ref="1")
    halls.settle()
    answers = [guest.read()[0] for guest in (alice, bob)]
    assert sorted(answer["type"] for answer in answers) == ["ERROR", "JOINED"]
    assert next(answer["code"] for answer in answers if answer["type"] == "ERROR") == "CHANNEL_EXISTS"
    halls.advance(1)
    for guest in (alice, bob):
        halls.send(guest, "LIST_CHANNELS")
        listed = {entry["name"]: entry["agents"] for entry in assert_sent(guest, "CHANNELS")["list"]}
        assert listed["#new"] == 1


def test_invitations_count_at_all_nodes() -> None:
    halls = halls_with("a", "b", "c")
    alice = halls.agent("a", "alice")
    bob, carol = halls.agent("b", "bob", key=BOB), halls.agent("c", "carol")
    halls.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    assert_sent(alice, "JOINED", channel="#den")
    halls.send(bob, "JOIN", channel="#den", ref="1")
    assert_sent(bob, "ERROR", code="NOT_INVITED", ref="1")
    halls.send(alice, "INVITE", channel="#den", agent=bob.id, ref="2")
    assert_sent(alice, "ACK", ref="2")
    assert_sent(bob, "MSG", content="You are invited to #den")
    halls.send(bob, "JOIN", channel="#den")
    assert_sent(bob, "JOINED", channel="#den")
    assert_sent(alice, "AGENT_JOINED", agent=bob.id)
    halls.send(bob, "INVITE", channel="#den", agent=carol.id)
    assert_sent(carol, "MSG", content="You are invited to #den")
    halls.send(carol, "JOIN", channel="#den")
    assert_sent(carol, "JOINED", channel="#den")
    halls.send(carol, "LIST_CHANNELS")
    assert "#den" not in [entry["name"] for entry in assert_sent(carol, "CHANNELS")["list"]]


@pytest.mark.parametrize("follows", [True, False], ids=["as it happens", "with the state"])
def test_an_invitation_outlives_the_home_of_its_channel(follows: bool) -> None:
    """The next home hears of it when it is made, or when it begins to follow the channel."""
    halls = halls_with("a", "b", "c")
    alice, bob, carol = halls.agent("a", "alice"), halls.agent("b", "bob"), halls.agent("c", "carol")
    halls.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    halls.send(alice, "INVITE", channel="#den", agent=bob.id)
    for step in ("join", "invite") if follows else ("invite", "join"):
        if step == "join":
            halls.send(bob, "JOIN", channel="#den")
        else:
            halls.send(alice, "INVITE", channel="#den", agent=carol.id)
    halls.kill("a")
    halls.advance(6)
    halls.hush()
    halls.send(carol, "JOIN", channel="#den")
    assert_sent(carol, "JOINED", channel="#den")


def test_a_node_whose_last_member_left_hears_no_more_of_a_channel() -> None:
    halls = halls_with("a", "b", "c", no_limits=True)
    alice, bob, carol = (halls.agent(node, node, join="#general") for node in "abc")
    halls.advance(3)

    def cost() -> int:
        before = halls.broker.published
        halls.send(alice, "MSG", to="#general", content="hello")
        return halls.broker.published - before

    assert cost() == 2
    halls.send(bob, "LEAVE", channel="#general")
    halls.advance(3)
    assert "#general" not in halls.clusters["b"].channels.homes.logs
    assert cost() == 1
    assert lines(carol)[-2:] == ["hello", "hello"]


def test_one_of_two_nodes_has_the_floor() -> None:
    halls = halls_with("a", "b", "c", floor=True)
    asker, early, late = (halls.agent(node, node, join="#general") for node in "cab")
    halls.hush()
    halls.send(asker, "MSG", to="#general", content="who knows?", ref="1")
    msg_id = assert_sent(asker, "ACK")["msg_id"]
    halls.hush()
    now = int(halls.clock.time() * 1000)
    for guest, started in ((late, now + 50), (early, now + 10)):
        halls.world_of(guest).send(
            guest, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=started
        )
    halls.settle()
    told = late.read()
    assert [message["holder"] for message in told if message["type"] == "YIELD"] == [early.id]
    assert not [message for message in early.read() if message["type"] == "YIELD"]
    claims = [message for message in asker.read() if message["type"] == "FLOOR_CLAIMED"]
    assert claims[-1]["holder"] == early.id
    assert str(claims[-1]["started_at"]) == str(now + 10)  # an integer stays one


def test_the_members_of_a_dead_node_leave() -> None:
    halls = halls_with("a", "b", "c")
    alice, bob, carol = (halls.agent(node, node, join="#general") for node in "abc")
    halls.hush()
    halls.kill("a")
    halls.advance(5)
    for guest in (bob, carol):
        assert_sent(guest, "AGENT_LEFT", agent=alice.id)
    halls.send(bob, "MSG", to="#general", content="on we go", ref="1")
    assert_sent(bob, "ACK", ref="1")
    assert_sent(carol, "MSG", content="on we go")
    assert_silent(bob, carol)


def test_nodes_apart_tell_of_a_gap_afterwards() -> None:
    halls = halls_with("a", "b")
    alice, bob = (halls.agent(node, node, join="#general") for node in "ab")
    anna, bert = (halls.agent(node, node * 2, join="#general") for node in "ab")
    halls.hush()
    halls.cut("a", "b")
    halls.advance(2)
    halls.send(alice, "MSG", to="#general", content="on a", ref="1")
    halls.send(bob, "MSG", to="#general", content="on b", ref="2")
    assert lines(anna) == ["on a"]
    assert lines(bert) == ["on b"]
    knowing = halls.agent("a", "knowing", features=["gaps"], join="#general")
    halls.heal("a", "b")
    halls.advance(10)
    gaps = [message for message in knowing.read() if message["type"] == "GAP"]
    assert gaps
    assert all(gap["channel"] == "#general" for gap in gaps)
    for guest in (alice, anna, bob, bert):
        assert any(line.startswith("Messages may be missing") for line in lines(guest))
    halls.send(alice, "MSG", to="#general", content="together")
    for guest in (anna, bob, bert):
        assert lines(guest) == ["together"]


def test_a_command_that_waits_for_a_lost_home_is_answered_when_its_node_goes_alone() -> None:
    halls = halls_with("a", "b", floor=True)
    alice, bob = (halls.agent(node, node, join="#general") for node in "ab")
    halls.hush()
    halls.send(alice, "MSG", to="#general", content="who knows?", ref="1")
    msg_id = assert_sent(alice, "ACK")["msg_id"]
    halls.hush()
    halls.cut("a", "b")
    claim = {"channel": "#general", "msg_id": msg_id, "started_at": 1, "ref": "2"}
    halls.world_of(bob).send(bob, "RESPONDING_TO", **claim)
    halls.advance(2)
    assert_sent(bob, "ACK", ref="2")
    halls.send(bob, "PING")
    assert_sent(bob, "PONG")


def test_lines_keep_their_order_when_a_node_goes_alone() -> None:
    """An answer lets Ann go on, and her line makes the node decide about #two. So Bob's LEAVE is answered, and he
    says his second line while the first one still waits."""
    halls, rooms = halls_with("a", "b", no_limits=True), ("#one", "#two")
    alice = halls.agent("a", "alice")
    for room in rooms:
        halls.send(alice, "CREATE_CHANNEL", channel=room)
    ann, bob = (halls.agent("b", name, join=rooms) for name in ("ann", "bob"))
    halls.cut("b")
    halls.send(ann, "INVITE", channel="#one", agent=bob.id, ref="1")
    halls.send(ann, "MSG", to="#two", content="on we go")
    halls.send(bob, "MSG", to="#one", content="first")
    halls.send(bob, "LEAVE", channel="#two", ref="2")
    halls.send(bob, "MSG", to="#one", content="second")
    ann.read()
    halls.advance(2)
    assert [line for line in lines(ann) if line in ("first", "second")] == ["first", "second"]


def test_agents_enter_all_channels_of_all_nodes_at_their_welcome() -> None:
    halls = halls_with("a", "b", auto_join=True)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob")
    assert any(message["type"] == "AGENT_JOINED" for message in alice.read())
    guest = halls.connect("b")
    world = halls["b"]
    world.identify(guest, "carol")
    world.send(guest, "MSG", to="#general", content="here I am", ref="1")
    halls.settle()
    assert "here I am" in lines(alice)
    assert "here I am" in lines(bob)


def test_a_quiet_channel_is_prompted_once() -> None:
    halls = halls_with("a", "b", idle_prompts=True, idle_timeout=10)
    alice, bob = (halls.agent(node, node, join="#general") for node in "ab")
    halls.hush()
    halls.advance(14)
    for guest in (alice, bob):
        assert len(lines(guest)) == 1


def test_names_and_presence_are_told_once() -> None:
    halls = halls_with("a", "b")
    alice, bob = (halls.agent(node, node, join="#general") for node in "ab")
    halls.hush()
    halls.send(alice, "SET_NICK", nick="alix")
    assert_sent(bob, "NICK_CHANGED", agent_id=alice.id, new_nick="alix")
    halls.send(alice, "SET_PRESENCE", status="busy")
    halls.advance(1)
    assert_sent(bob, "PRESENCE_CHANGED", agent_id=alice.id, presence="busy")
    assert_silent(bob)


def test_a_channel_of_one_node_publishes_nothing() -> None:
    halls = halls_with("a", "b", no_limits=True)
    alice, anna = (halls.agent("a", name, join="#general") for name in ("alice", "anna"))
    halls.settle()
    before = halls.broker.published
    for _ in range(5):
        halls.send(alice, "MSG", to="#general", content="psst")
    assert halls.broker.published == before
    assert len(lines(anna)) == 5
    assert halls.clusters["a"].channels.homes.logs["#general"].role is Role.HOME
    assert "#general" not in halls.clusters["b"].channels.homes.logs


def test_what_shows_that_lines_were_lost_costs_the_same_for_all_channels() -> None:
    """Once nothing more is said, a home tells the last numbers. It does so in one packet for each node."""

    def cost(channels: int) -> int:
        halls = halls_with("a", "b", no_limits=True)
        alice = halls.agent("a", "alice")
        names = [f"#room-{number}" for number in range(channels)]
        for name in names:
            halls.send(alice, "CREATE_CHANNEL", channel=name)
        halls.agent("b", "bob", join=names)
        halls.advance(5)
        for name in names:
            halls.send(alice, "MSG", to=name, content="hello")
        before = halls.broker.published
        halls.advance(5)
        return halls.broker.published - before

    assert cost(20) == cost(1)


def test_claims_made_apart_end_with_one_winner() -> None:
    halls = halls_with("a", "b", floor=True)
    asker, early, late = (halls.agent(node, node, join="#general") for node in "aab")
    halls.hush()
    halls.send(asker, "MSG", to="#general", content="who knows?", ref="1")
    msg_id = assert_sent(asker, "ACK")["msg_id"]
    halls.cut("a", "b")
    halls.advance(2)
    halls.hush()
    now = int(halls.clock.time() * 1000)
    for guest, started in ((early, now + 10), (late, now + 50)):
        halls.send(guest, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=started)
    assert not [message for guest in (early, late) for message in guest.read() if message["type"] == "YIELD"]
    halls.heal("a", "b")
    halls.advance(10)
    assert [message["holder"] for message in late.read() if message["type"] == "YIELD"] == [early.id]
    assert not [message for message in early.read() if message["type"] == "YIELD"]


def test_a_claim_outlives_the_home_of_its_channel() -> None:
    halls = halls_with("a", "b", "c", floor=True)
    first = halls.agent("a", "first", join="#general")
    early, late = (halls.agent(node, node, join="#general") for node in "bc")
    halls.send(early, "MSG", to="#general", content="who knows?", ref="1")
    msg_id = next(message for message in early.read() if message["type"] == "ACK")["msg_id"]
    now = int(halls.clock.time() * 1000)
    halls.send(late, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=now + 10)
    halls.kill("a")
    halls.advance(6)
    halls.hush()
    halls.send(early, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=now + 5000)
    assert_sent(early, "YIELD", holder=late.id)
    assert first.link.closed is None


def test_a_node_that_comes_late_knows_who_has_the_floor() -> None:
    """It gets the claim with the state of the channel, and is the next home."""
    halls = halls_with("a", "b", floor=True, floor_ttl=60)
    asker, holder = (halls.agent("a", name, join="#general") for name in ("asker", "holder"))
    halls.send(asker, "MSG", to="#general", content="who knows?", ref="1")
    msg_id = next(message for message in asker.read() if message["type"] == "ACK")["msg_id"]
    now = int(halls.clock.time() * 1000)
    halls.send(holder, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=now + 10)
    late = halls.agent("b", "late", join="#general")
    halls.cut("a", "b")
    halls.advance(2)
    late.read()
    halls.send(late, "RESPONDING_TO", channel="#general", msg_id=msg_id, started_at=now + 50)
    assert_sent(late, "YIELD", holder=holder.id)


def test_receipts_come_from_members_of_other_nodes() -> None:
    halls = halls_with("a", "b", "c")
    halls.agent("a", "home", join="#general")
    asker = halls.agent("b", "asker", features=["receipts"], join="#general")
    other = halls.agent("c", "other", features=["receipts"], join="#general")
    halls.hush()
    halls.send(asker, "MSG", to="#general", content="well?", receipt=True, ref="1")
    message = assert_sent(other, "MSG", content="well?", receipt="SEEN")
    halls.send(other, "RECEIPT", msg_id=message["msg_id"], status="SEEN")
    told = [(each["to"], each["status"]) for each in asker.read() if each["type"] == "RECEIPT"]
    assert (other.id, "DELIVERED") in told
    assert (other.id, "SEEN") in told


def test_people_who_watch_any_node_see_all_channels() -> None:
    halls = halls_with("a", "b")
    alice = halls.agent("a", "alice", join="#general")
    halls.send(alice, "MSG", to="#general", content="before")
    link = FakeLink()
    Gallery(halls["b"].hall).connect(link, "192.0.2.9")
    halls.advance(2)
    halls.send(alice, "MSG", to="#general", content="after")
    said = [message["content"] for message in link.messages if message["type"] == "MSG"]
    assert said == ["before", "after"]


def test_empty_channels_make_way_wherever_their_home_is() -> None:
    most = len(Halls("x")["x"].hall.channels) + 1
    halls = halls_with("a", "b", max_channels=most)
    alice, bob = halls.agent("a", "alice"), halls.agent("b", "bob", ip="192.0.2.2")
    halls.send(alice, "CREATE_CHANNEL", channel="#old")
    halls.send(bob, "CREATE_CHANNEL", channel="#new")
    assert_sent(bob, "ERROR", code="INVALID_MSG")
    halls.send(alice, "LEAVE", channel="#old")
    halls.advance(61)
    halls.send(bob, "CREATE_CHANNEL", channel="#new")
    assert_sent(bob, "JOINED", channel="#new")
    halls.advance(1)
    for world in halls:
        names = [channel.name for channel in world.hall.channels]
        assert "#new" in names
        assert "#old" not in names


@pytest.mark.parametrize("home", "ab")
def test_a_lapse_counts_in_channels_of_all_homes(home: str) -> None:
    """An agent that let a claim expire is outranked in another channel, and is told so, wherever the homes are."""
    halls = halls_with("a", "b", floor=True)
    for channel, node in (("#one", "a"), ("#two", home)):
        halls.send(halls.agent(node, f"maker-{channel[1:]}"), "CREATE_CHANNEL", channel=channel)
    channels = ("#one", "#two")
    mallory = halls.agent("a", "mallory", ip="198.51.100.7", join=channels)
    carol = halls.agent("b", "carol", ip="198.51.100.8", join=channels)
    asker = halls.agent("b", "asker", ip="198.51.100.9", join=channels)
    questions = {}
    for channel in channels:
        halls.send(asker, "MSG", to=channel, content="who knows?", ref="1")
        questions[channel] = next(each["msg_id"] for each in asker.read() if each["type"] == "ACK")
        halls.advance(1)
    halls.send(mallory, "RESPONDING_TO", channel="#one", msg_id=questions["#one"], started_at=1)
    halls.advance(halls["a"].settings.floor_ttl + 1)
    halls.send(carol, "RESPONDING_TO", channel="#two", msg_id=questions["#two"], started_at=5)
    halls.hush()
    halls.send(mallory, "RESPONDING_TO", channel="#two", msg_id=questions["#two"], started_at=1)
    assert_sent(mallory, "YIELD", msg_id=questions["#two"], holder=carol.id)
    assert_silent(carol)
    assert halls.clusters["a"].channels.homes.home_of("#two") == home
    noted = [world.log.find("floor_precedence_lost") for world in halls]
    assert len(noted[0]) == 1
    assert not noted[1], "the home of the claim notes it"


def test_a_node_that_missed_how_many_members_a_channel_has_is_told_again() -> None:
    halls = halls_with("a", "b", auto_join=False)
    maker, guest = (halls.agent("a", name) for name in ("maker", "guest"))
    asker = halls.agent("b", "asker")
    halls.send(maker, "CREATE_CHANNEL", channel="#room")
    halls.advance(1)
    halls.cut("b")
    halls.send(guest, "JOIN", channel="#room")
    halls.advance(1)
    halls.heal("b")
    halls.advance(1)
    halls.send(asker, "LIST_CHANNELS")
    listed = {entry["name"]: entry["agents"] for entry in assert_sent(asker, "CHANNELS")["list"]}
    assert listed["#room"] == 2
