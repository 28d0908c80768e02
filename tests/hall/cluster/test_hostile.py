"""Agents that would harm other nodes, by odd texts or dear commands; and nodes that are confused."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from msgspec import UNSET

from moothall.hall.budgets import Price
from moothall.hall.cluster import homes, rooms
from moothall.hall.cluster.cluster import CHANGE, FOLLOWS_SECONDS
from moothall.hall.cluster.elections import LONG_ANSWER, MAX_ANSWERS, ChannelLog
from moothall.hall.cluster.log import MARK_BYTES, RECORD_BYTES, Follow, Happened, Record, Ring
from moothall.hall.cluster.nodes import SILENCE_SECONDS
from moothall.hall.cluster.replicas import RESEND_SECONDS
from moothall.hall.cluster.roster import AgentPresent
from moothall.hall.gallery import Gallery
from moothall.settings.limits import Rate
from moothall.wire.agentchat.client import ClientMessage, Join, ListAgents, SetNick, SetPresence
from moothall.wire.bus import EVERY_NODE, channel_subject
from tests.identity.vectors import ALICE
from tests.support.cluster import Halls
from tests.support.world import FakeLink, Guest, assert_open, assert_sent

ROOM = "#general"
STORE = Price._fields.index("store")
BYTES = Price._fields.index("bytes")


def halls_with(*nodes: str, **settings: Any) -> Halls:
    return Halls(*nodes, random=Random(5), auto_join=False, **settings)  # noqa: S311


# -- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        r'{"type":"INVITE","channel":"#general","agent":"@\ud83d"}',
        r'{"type":"INVITE","channel":"#general","agent":"@\ud83d","ref":"\udc00"}',
        r'{"type":"INVITE","channel":"#secret","agent":"@\ud83d"}',
        r'{"type":"RESPONDING_TO","channel":"#general","msg_id":"\ud83d","started_at":5,"ref":"1"}',
        r'{"type":"RESPONDING_TO","channel":"#general","msg_id":"1","started_at":-1e300,"ref":"1"}',
        '{"type":"RESPONDING_TO","channel":"#general","msg_id":"1","started_at":1' + "0" * 300 + "}",
        '{"type":"RESPONDING_TO","channel":"#general","msg_id":"1","started_at":-1' + "0" * 30 + "}",
        r'{"type":"LIST_AGENTS","channel":"#general","ref":"\ud83d"}',
        r'{"type":"TYPING","channel":"#general","ref":"\ud83d"}',
        r'{"type":"MSG","to":"#general","content":"\ud83d","in_reply_to":"\ud83d","sig":"\ud83d"}',
        r'{"type":"SET_PRESENCE","status":"away","status_text":"\ud83d"}',
        r'{"type":"RECEIPT","msg_id":"\ud83d","status":"FAILED","reason":"\ud83d","ref":"\ud83d"}',
        r'{"type":"VERIFY_RESPONSE","request_id":"\ud83d","nonce":"\ud83d","sig":"\ud83d"}',
    ],
)
@pytest.mark.parametrize("home", "ab")
def test_what_no_packet_can_hold_harms_no_other_agent(home: str, frame: str) -> None:
    """Lone surrogates, and numbers beyond 64 bits. The sender is on a, and so may be the home of the channel."""
    halls = halls_with("a", "b", "c", floor=True, no_limits=True)
    first, second = ("a", "b") if home == "a" else ("b", "a")
    guests = {first: halls.agent(first, first, join=ROOM)}
    guests[second] = halls.agent(second, second, join=ROOM)
    alice, bob = guests["a"], guests["b"]
    halls["a"].send_raw(alice, frame.encode())
    halls["a"].send(alice, "MSG", to=bob.id, content="in the same turn")
    halls.settle()
    assert "in the same turn" in [message.get("content") for message in bob.read()]
    assert_open(alice, bob)
    carol = halls.agent("c", "carol", join=ROOM)  # her node needs all that the home knows
    halls.hush()
    for guest in (alice, bob):
        halls.send(guest, "MSG", to=ROOM, content="hello")
        assert_sent(carol, "MSG", content="hello")
    assert len(halls["c"].hall.channels.find(ROOM).members) == 3
    for world in halls:
        assert not world.log.find("channel_command_failed")


# -- bugs ------------------------------------------------------------------------------------------


def with_members() -> tuple[Halls, dict[str, Guest]]:
    """A member on each of three nodes. The home of the channel is c."""
    halls = halls_with("a", "b", "c", no_limits=True)
    return halls, {node: halls.agent(node, node, join=ROOM) for node in "cab"}


def test_a_command_that_fails_at_the_home_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it did until then is told, so the nodes still agree."""
    halls = halls_with("a", "b", no_limits=True)
    alice = halls.agent("a", "alice", join=ROOM)
    bob = halls.agent("b", "bob", join=ROOM)
    dave = halls.agent("b", "dave", join=ROOM)
    halls.hush()
    run = rooms.ChannelRoom._run_command

    def fail(self: rooms.ChannelRoom, *args: Any) -> None:
        run(self, *args)
        raise RuntimeError("a bug")

    monkeypatch.setattr(rooms.ChannelRoom, "_run_command", fail)
    halls["b"].send(bob, "LEAVE", channel=ROOM, ref="1")
    halls["b"].send(dave, "MSG", to=alice.id, content="in the same turn")
    halls.settle()
    monkeypatch.undo()
    assert {message["type"] for message in alice.read()} == {"AGENT_LEFT", "MSG"}
    assert_sent(dave, "AGENT_LEFT", agent=bob.id)
    for node in "ab":
        assert bob.id[1:] not in halls[node].hall.channels.find(ROOM).members
    assert len(halls["a"].log.find("channel_command_failed")) == 1
    halls.send(bob, "PING")
    assert "PONG" in [message["type"] for message in bob.read()], "its session does not wait for ever"


def test_a_channel_that_fails_holds_no_other_one_up(monkeypatch: pytest.MonkeyPatch) -> None:
    halls = halls_with("a", "b", no_limits=True)
    halls.raises_failures = False
    alice, bob = (halls.agent(node, node, join=ROOM) for node in "ab")
    halls.send(alice, "CREATE_CHANNEL", channel="#other")
    halls.send(bob, "JOIN", channel="#other")
    halls.hush()
    tick = ChannelLog.tick

    def fail(self: ChannelLog) -> None:
        if self.name == ROOM:
            raise RuntimeError("a bug")
        tick(self)

    monkeypatch.setattr(ChannelLog, "tick", fail)
    halls.broker.losing.add(("a", "b"))
    halls.send(alice, "MSG", to="#other", content="late")
    halls.broker.losing.clear()
    assert list(halls.clusters["a"].channels.homes.logs) == [ROOM, "#other"]
    halls.advance(2)
    assert_sent(bob, "MSG", content="late")  # the home has told its last number
    failed = halls["a"].log.find("channel_failed")
    assert len(failed) > 2, "the clock of the channels goes on"
    assert {facts["channel"] for facts in failed} == {ROOM}


def test_what_fails_in_a_tick_does_not_end_the_next_ones() -> None:
    halls = halls_with("a", "b")
    homes, ticked = halls.clusters["a"].channels.homes, 0

    def fail() -> None:
        nonlocal ticked
        ticked += 1
        raise RuntimeError("a bug")

    homes.ticked = fail
    for _ in range(3):
        with pytest.raises(RuntimeError):
            halls.advance(0.6)
    assert ticked == 3


def test_a_node_that_cannot_be_admitted_does_not_hold_a_new_home_up(monkeypatch: pytest.MonkeyPatch) -> None:
    halls, guests = with_members()
    listeners = {node: halls.agent(node, f"{node}-listener", join=ROOM) for node in "ab"}
    halls.raises_failures = False
    halls.send(guests["c"], "LEAVE", channel=ROOM)
    halls.kill("c")
    admit = ChannelLog._admit

    def fail(self: ChannelLog, node: str, follow: Follow) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(ChannelLog, "_admit", fail)
    for node in "ab":
        halls.send(guests[node], "MSG", to=ROOM, content="said while there was no home")
    halls.advance(SILENCE_SECONDS + 3)
    home = halls.clusters["a"].channels.homes.home_of(ROOM)
    assert home in ("a", "b")
    listener = listeners[home]
    assert "said while there was no home" in [message.get("content") for message in listener.read()]
    monkeypatch.setattr(ChannelLog, "_admit", admit)
    halls.advance(2)
    halls.hush()
    halls.send(guests["b" if home == "a" else "a"], "MSG", to=ROOM, content="all is well")
    assert_sent(listener, "MSG", content="all is well")


def fail_at(monkeypatch: pytest.MonkeyPatch, halls: Halls, node: str, *methods: str) -> None:
    """The room of each channel fails there: no record can be applied, or no state taken."""

    def failing(method: str) -> Callable[..., Any]:
        hall, well = halls[node].hall, getattr(rooms.ChannelRoom, method)

        def fail(self: rooms.ChannelRoom, *args: Any, **how: Any) -> Any:
            if self._hall is hall:
                raise RuntimeError("a bug")
            return well(self, *args, **how)

        return fail

    for method in methods:
        monkeypatch.setattr(rooms.ChannelRoom, method, failing(method))
    halls.raises_failures = False


@pytest.mark.parametrize(("command", "answer"), [("LEAVE", "LEFT"), ("JOIN", "JOINED")])
def test_a_command_is_answered_though_its_record_fails(
    monkeypatch: pytest.MonkeyPatch, command: str, answer: str
) -> None:
    halls, guests = with_members()
    alice, bob, carol = (guests[node] for node in "abc")
    amy = halls.agent("a", "amy", join=ROOM)
    if command == "JOIN":
        halls.send(alice, "LEAVE", channel=ROOM)
    halls.advance(1)
    halls.hush()
    fail_at(monkeypatch, halls, "a", "apply")
    halls.send(alice, command, channel=ROOM, ref="1")
    monkeypatch.undo()
    halls.advance(1)
    assert [each["type"] for each in alice.read() if each.get("ref") == "1"] == [answer]
    halls.send(alice, "PING")
    assert_sent(alice, "PONG")
    assert gaps(amy) == 1
    assert gaps(bob) == gaps(carol) == 0, "their nodes have missed nothing"
    halls.hush()
    halls.send(bob, "MSG", to=ROOM, content="all is well")
    for guest in (amy, carol):
        assert_sent(guest, "MSG", content="all is well")
    assert len(alice.read()) == (command == "JOIN")
    members = [set(world.hall.channels.find(ROOM).members) for world in halls]
    assert members[0] == members[1] == members[2]


def gaps(guest: Guest) -> int:
    """How often the guest was told of a gap, of what it has not read yet."""
    return sum(each.get("content", "").startswith("Messages may be missing") for each in guest.read())


def test_records_that_always_fail_do_not_keep_nodes_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The node asks for the state now and then, and its members get their lines with it."""
    halls, guests = with_members()
    fail_at(monkeypatch, halls, "a", "apply")
    log = halls.clusters["a"].channels.homes.logs[ROOM]
    halls.advance(1)
    before = log.gaps
    for number in range(20):
        halls.send(guests["c"], "MSG", to=ROOM, content=f"line {number}")
    assert log.gaps - before <= 1
    halls.advance(5)
    assert log.gaps - before <= 5 / (RESEND_SECONDS / 2)
    lines = [line.content for line in halls["a"].hall.channels.find(ROOM).buffer]
    assert lines[-20:] == [f"line {number}" for number in range(20)]


@pytest.mark.parametrize("broken", [["apply"], ["apply", "install"]])
def test_a_new_home_begins_without_what_it_cannot_apply(
    monkeypatch: pytest.MonkeyPatch, broken: list[str]
) -> None:
    """It asks for the state in place of the records, and goes on without if it cannot take that either."""
    halls, guests = with_members()
    halls.broker.losing.add(("c", "b"))
    halls.send(guests["c"], "MSG", to=ROOM, content="b has to borrow this")
    halls.kill("c")
    fail_at(monkeypatch, halls, "b", *broken)
    homes = halls.clusters["a"].channels.homes
    monkeypatch.setattr(homes, "_claim", lambda *args: None)  # so b is the next home
    halls.hush()
    halls.advance(SILENCE_SECONDS + 3)
    monkeypatch.undo()
    assert homes.home_of(ROOM) == "b"
    assert gaps(guests["b"]) >= 1
    halls.advance(3)
    halls.hush()
    for speaker, listener in (("a", "b"), ("b", "a")):
        halls.send(guests[speaker], "MSG", to=ROOM, content=f"hello from {speaker}")
        assert_sent(guests[listener], "MSG", content=f"hello from {speaker}")


def test_a_node_that_could_not_apply_a_record_borrows_the_state_as_the_next_home(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    halls, guests = with_members()
    fail_at(monkeypatch, halls, "b", "apply")
    halls.broker.losing.add(("b", "c"))  # what it asks the home for
    halls.send(guests["c"], "MSG", to=ROOM, content="not applied")
    halls.kill("c")
    monkeypatch.undo()
    homes = halls.clusters["a"].channels.homes
    monkeypatch.setattr(homes, "_claim", lambda *args: None)  # so b is the next home
    halls.hush()
    halls.advance(SILENCE_SECONDS + 3)
    assert homes.home_of(ROOM) == "b"
    assert gaps(guests["b"]) >= 1
    for node in "ab":
        assert "not applied" in [line.content for line in halls[node].hall.channels.find(ROOM).buffer]


# -- confused nodes --------------------------------------------------------------------------------


def test_what_a_node_brings_to_an_election_is_read_when_it_comes() -> None:
    """A new home looks at it later, on behalf of all nodes."""
    halls, guests = with_members()
    halls.kill("c")
    epoch = halls.clusters["a"].channels.homes.logs[ROOM].epoch
    for node, other in (("a", "b"), ("b", "a")):
        halls.clusters[node].send(other, Follow(ROOM, epoch + 1, 0, 0, b"\xc1"))
    halls.advance(SILENCE_SECONDS + 3)
    assert [halls.clusters[node].post.refused for node in "ab"] == [1, 1]
    halls.hush()
    halls.send(guests["a"], "MSG", to=ROOM, content="hello")
    assert_sent(guests["b"], "MSG", content="hello")
    halls.send(guests["b"], "MSG", to=ROOM, content="hello back")
    assert_sent(guests["a"], "MSG", content="hello back")


def test_a_change_from_far_ahead_does_not_keep_nodes_busy() -> None:
    """A change that cannot be next is asked for once, and not as fast as the bus carries it."""
    halls = halls_with("a", "b")
    alice = halls.agent("a", "alice")
    roster = halls.clusters["a"].roster
    record = roster.record_of(halls["a"].hall.roster.agents[alice.id[1:]])
    halls.clusters["a"].publish(EVERY_NODE, AgentPresent(2**40, record))
    halls.settle()
    bob = halls.agent("a", "bob")
    assert bob.id[1:] in halls["b"].hall.roster.agents


def test_a_record_from_far_ahead_does_not_keep_nodes_busy() -> None:
    halls = halls_with("a", "b")
    alice, bob = (halls.agent(node, node, join=ROOM) for node in "ab")
    log = halls.clusters["a"].channels.homes.logs[ROOM]
    far = Record(2**40, "junk", log.room.state())
    halls.clusters["a"].publish(channel_subject(ROOM), Happened(ROOM, log.epoch, far))
    halls.settle()
    halls.advance(1)
    halls.hush()
    halls.send(alice, "MSG", to=ROOM, content="hello")
    assert_sent(bob, "MSG", content="hello")
    assert not halls.clusters["b"].channels.homes.logs[ROOM]._early


# -- prices ----------------------------------------------------------------------------------------


def price(halls: Halls, node: str, guest: Guest, message: ClientMessage) -> Price:
    hall = halls[node].hall
    (command,) = (row for row in hall.commands if row.message is type(message))
    return command.cost.price(hall, guest.session, message, 0)


@pytest.mark.parametrize("message", [Join(channel=ROOM), ListAgents(channel=ROOM, agents=UNSET)])
def test_a_crowd_of_another_node_has_its_price(message: ClientMessage) -> None:
    """The node of the sender knows no member, only how many there are."""
    halls = halls_with("a", "b")
    for number in range(5):
        halls.agent("a", f"member-{number}", join=ROOM)
    halls.advance(1)
    here, there = halls.agent("a", "here"), halls.agent("b", "there")
    assert not halls["b"].hall.channels.find(ROOM).members
    assert price(halls, "b", there, message).told == price(halls, "a", here, message).told >= 5


def test_history_of_another_node_is_owed_when_it_came() -> None:
    halls = halls_with("a", "b")
    alice = halls.agent("a", "alice", join=ROOM)
    halls.send(alice, "MSG", to=ROOM, content="x" * 4000)
    bob = halls.agent("b", "bob", key=ALICE)
    owed = halls["b"].hall.budgets.keys
    before = owed.debts(ALICE.public.raw, halls.clock.monotonic())
    halls.send(bob, "JOIN", channel=ROOM)
    after = owed.debts(ALICE.public.raw, halls.clock.monotonic())
    rate = halls["b"].settings.budget_bytes
    assert after[BYTES] - (before or [0.0] * 4)[BYTES] >= 4000 * rate.seconds / rate.limit


def test_long_answers_of_another_node_are_owed() -> None:
    halls = halls_with("a", "b")
    for number in range(50):
        halls.agent("a", f"member-{number}", join=ROOM)
    bob = halls.agent("b", "bob", key=ALICE)
    halls.send(bob, "LIST_AGENTS", channel=ROOM)
    answer = assert_sent(bob, "AGENTS")
    assert len(answer["list"]) == 50
    rate = halls["b"].settings.budget_bytes
    owed = halls["b"].hall.budgets.keys.debts(ALICE.public.raw, halls.clock.monotonic())
    assert owed[BYTES] >= len(bob.link.frames[-1]) * rate.seconds / rate.limit


def test_changes_of_the_registry_have_a_price() -> None:
    """NATS writes each of them to its disk: a claim on an id, a new channel."""
    rate = Rate(20_000, 0.1)
    halls = halls_with("a", "b", address_store=rate)

    def owed(ip: str) -> float:
        addresses, now = halls["b"].hall.budgets.shared, halls.clock.monotonic()
        assert addresses is not None
        return addresses.of(ip, now).debts(now)[STORE] * rate.limit / rate.seconds

    halls.agent("b", "bob", ip="198.51.100.7", key=ALICE)
    anna = halls.agent("b", "anna", ip="198.51.100.8")
    before = owed("198.51.100.8")
    assert owed("198.51.100.7") >= before + CHANGE
    halls.send(anna, "CREATE_CHANNEL", channel="#new")
    assert_sent(anna, "JOINED")
    assert owed("198.51.100.8") >= before + CHANGE


def test_each_change_of_a_takeover_has_a_price() -> None:
    """The new node enters itself and the former owner, and then itself alone."""
    rate = Rate(20_000, 0.1)
    halls = halls_with("a", "b", address_store=rate)
    halls.agent("a", "alice", key=ALICE)
    addresses, now = halls["b"].hall.budgets.shared, halls.clock.monotonic()
    assert addresses is not None
    halls.agent("b", "alice", ip="198.51.100.7", key=ALICE)
    assert addresses.of("198.51.100.7", now).debts(now)[STORE] * rate.limit / rate.seconds >= 2 * CHANGE


def test_what_all_nodes_are_told_has_a_price_for_each() -> None:
    halls = halls_with("a", "b", "c")
    alone = halls.agent("a", "alone")
    for message in (SetNick(nick="other"), SetPresence(status="away")):
        assert price(halls, "a", alone, message).told == 2


# -- what a home keeps -----------------------------------------------------------------------------


def with_crowd(size: int = 60) -> tuple[Halls, Guest]:
    """A crowd on a, and bob on b, who is in no channel. A list of the crowd is longer than what a home keeps."""
    halls = halls_with("a", "b", no_limits=True)
    for number in range(size):
        halls.agent("a", f"member-{number}", join=ROOM)
    halls.advance(1)
    return halls, halls.agent("b", "bob")


def test_a_home_keeps_no_long_answers() -> None:
    """A node that asks for the state gets all answers with it: lists of a crowd would be sent again and again."""
    halls, bob = with_crowd()
    for _ in range(5):
        halls.send(bob, "LIST_AGENTS", channel=ROOM)
        assert len(assert_sent(bob, "AGENTS")["list"]) == 60
    senders = halls.clusters["a"].channels.homes.logs[ROOM]._senders
    assert sum(map(len, senders["b"].answers.values())) <= MAX_ANSWERS * LONG_ANSWER
    assert len(senders["b"].long) == 5


def count_bytes(halls: Halls, node: str) -> list[int]:
    """The sizes of all packets that the node publishes from now on."""
    published: list[int] = []
    bus = halls.clusters[node].bus
    publish = bus.publish

    def count(subject: str, payload: bytes) -> None:
        published.append(len(payload))
        publish(subject, payload)

    bus.publish = count  # type: ignore[method-assign]
    return published


def test_a_list_brings_no_history_to_the_node_that_asks() -> None:
    halls = halls_with("a", "b", no_limits=True)
    alice, bob = halls.agent("a", "alice", join=ROOM), halls.agent("b", "bob")
    for number in range(20):
        halls.send(alice, "MSG", to=ROOM, content=f"{number} {'x' * 4000}")
    halls.advance(1)
    published = count_bytes(halls, "a")
    halls.send(bob, "LIST_AGENTS", channel=ROOM)
    assert_sent(bob, "AGENTS")
    assert 0 < sum(published) < 1000


def test_many_that_join_at_once_do_not_overrun_the_bus(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that sends more than NATS takes loses the bus, for all of its agents."""
    limit = 200_000
    monkeypatch.setattr(homes, "MOST_TOLD", limit)
    halls = halls_with("a", "b", no_limits=True)
    alice = halls.agent("a", "alice")
    channels = [f"#{number}" for number in range(10)]
    for channel in channels:
        halls.send(alice, "CREATE_CHANNEL", channel=channel)
        for _ in range(20):
            halls.send(alice, "MSG", to=channel, content="x" * 4000)
    halls.send(alice, "CREATE_CHANNEL", channel="#small")
    guests = [halls.agent("b", f"guest-{number}") for number in range(10)]
    last = halls.agent("b", "last")
    published = count_bytes(halls, "a")
    for guest, channel in zip(guests, channels, strict=True):
        halls["b"].send(guest, "JOIN", channel=channel)
    halls["b"].send(last, "JOIN", channel="#small")
    halls.settle()
    assert limit // 2 < sum(published) < limit + 100_000
    assert_sent(last, "JOINED", channel="#small")  # it does not wait for large ones
    halls.advance(3)
    for guest in guests:
        assert len([each for each in guest.read() if each["type"] in ("MSG", "JOINED")]) == 21


def test_a_history_is_paid_for_by_an_agent_that_left_before_it_came() -> None:
    rate = Rate(1_600_000, 0.1)
    halls = halls_with("a", "b", address_bytes=rate)
    alice = halls.agent("a", "alice", join=ROOM)
    for _ in range(3):
        halls.send(alice, "MSG", to=ROOM, content="x" * 4000)
        halls.advance(1)
    mallory = halls.agent("b", "mallory", ip="198.51.100.7")
    addresses, now = halls["b"].hall.budgets.shared, halls.clock.monotonic()
    assert addresses is not None
    before = (addresses.of("198.51.100.7", now).debts(now) or [0.0] * 4)[BYTES]
    halls["b"].send(mallory, "JOIN", channel=ROOM)
    halls["b"].disconnect(mallory)
    halls.settle()
    owed = addresses.of("198.51.100.7", now).debts(now)[BYTES] - before
    assert owed * rate.limit / rate.seconds >= 12_000


def test_records_of_all_channels_share_a_limit() -> None:
    """Each channel with members on two nodes keeps what was said, for nodes that miss something."""
    limit = 512 * 1024
    halls = halls_with("a", "b", no_limits=True, replay_memory=limit)
    alice, bob = (halls.agent(node, node) for node in "ab")
    channels = ["#quiet", *(f"#{number}" for number in range(8))]
    for channel in channels:
        halls.send(alice, "CREATE_CHANNEL", channel=channel)
        halls.send(bob, "JOIN", channel=channel)
    halls.send(alice, "MSG", to="#quiet", content="one line")
    for _ in range(40):
        for channel in channels[1:]:
            halls["a"].send(alice, "MSG", to=channel, content="x" * 4000)
        halls.settle()
    for node in "ab":
        homes = halls.clusters[node].channels.homes
        rings = {channel: homes.logs[channel]._ring for channel in channels}
        assert limit // 2 < sum(ring.size for ring in rings.values()) == homes.memory.used <= limit
        assert all(ring.size == sum(map(len, _bodies(ring))) + _overhead(ring) for ring in rings.values())
        assert len(_bodies(rings["#quiet"])) > 1, "the fullest make way"
    for channel in channels:
        for guest in (alice, bob):
            halls.send(guest, "LEAVE", channel=channel)
    halls.advance(1)
    assert halls.clusters["b"].channels.homes.memory.used == 0


def _bodies(ring: Ring) -> list[bytes]:
    return [record.body for record in ring._records]


def _overhead(ring: Ring) -> int:
    return len(ring._records) * RECORD_BYTES + len(ring.marks) * MARK_BYTES


def test_a_node_that_missed_what_is_forgotten_gets_the_state() -> None:
    halls = halls_with("a", "b", no_limits=True, replay_memory=64 * 1024)
    alice, bob = (halls.agent(node, node, join=ROOM) for node in "ab")
    halls.hush()
    halls.broker.losing.add(("a", "b"))
    for number in range(30):
        halls.send(alice, "MSG", to=ROOM, content=f"{number} {'x' * 4000}")
    halls.broker.losing.clear()
    halls.advance(2)
    assert gaps(bob) == 1
    halls.send(alice, "MSG", to=ROOM, content="all is well")
    assert_sent(bob, "MSG", content="all is well")


def test_a_long_answer_that_is_lost_is_given_again() -> None:
    halls, bob = with_crowd()
    log = halls.clusters["a"].channels.homes.logs[ROOM]
    halls["b"].send(bob, "LIST_AGENTS", channel=ROOM, ref="1")
    while not ("b" in log._senders and log._senders["b"].taken):
        halls.end_turn()
        assert halls.broker.step()
    halls.broker.losing.add(("a", "b"))
    halls.settle()
    halls.broker.losing.clear()
    assert not bob.unread
    halls.advance(2 * RESEND_SECONDS)
    assert len(assert_sent(bob, "AGENTS", ref="1")["list"]) == 60
    assert not bob.unread


def test_a_long_answer_that_is_lost_with_the_state_is_given_by_the_own_node() -> None:
    halls, bob = with_crowd()
    log = halls.clusters["a"].channels.homes.logs[ROOM]
    halls["b"].send(bob, "LIST_AGENTS", channel=ROOM, ref="1")
    while not ("b" in log._senders and log._senders["b"].taken):
        halls.end_turn()
        assert halls.broker.step()
    halls.broker.losing.add(("a", "b"))
    halls.settle()
    halls.broker.losing.clear()
    halls.agent("b", "carol", join=ROOM)  # so its node asks for the state
    assert len(assert_sent(bob, "AGENTS", ref="1")["list"]) == 60
    assert not bob.unread


@pytest.mark.parametrize(
    ("command", "fields", "answer"), [("LEAVE", {}, "LEFT"), ("INVITE", {"agent": "@1f3a9c02"}, "ERROR")]
)
def test_a_stranger_to_a_channel_asks_its_home_nothing_that_is_cheap(
    command: str, fields: dict[str, str], answer: str
) -> None:
    """Its node would get all members and the history for a command that costs its sender next to nothing."""
    halls, bob = with_crowd(3)
    published = halls.broker.published
    halls.send(bob, command, channel=ROOM, ref="1", **fields)
    assert_sent(bob, answer, ref="1")
    assert halls.broker.published == published


def test_a_watcher_that_comes_and_goes_brings_no_history_each_time() -> None:
    """A node that is watched follows all public channels, and what a watcher sends is a short request."""
    halls = halls_with("a", "b", no_limits=True)
    alice = halls.agent("a", "alice", join=ROOM)
    for number in range(20):
        halls.send(alice, "MSG", to=ROOM, content=f"{number} {'x' * 4000}")
    gallery, published = Gallery(halls["b"].hall), count_bytes(halls, "a")
    for _ in range(5):
        watcher = gallery.connect(FakeLink(), "198.51.100.7")
        assert watcher is not None
        halls.advance(2)
        assert halls.clusters["b"].channels.homes.knows(ROOM)
        gallery.disconnect(watcher)
        halls.advance(2)
    assert 80_000 < sum(published) < 2 * 80_000
    halls.advance(FOLLOWS_SECONDS)
    assert not halls.clusters["b"].channels.homes.knows(ROOM)
