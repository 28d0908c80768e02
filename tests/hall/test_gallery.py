"""A watcher sees what an anonymous agent could see, and no agent sees the watcher."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moothall.hall import gallery as gallery_module
from moothall.hall.gallery import BUSY, FULL, SLOWER, Gallery, Onlooker, is_open
from moothall.identity import PrivateKey
from moothall.settings import Settings
from moothall.settings.limits import Rate
from moothall.wire.websocket import POLICY_VIOLATION, TRY_AGAIN_LATER
from tests.support.world import ADMIN_KEY, FakeLink, Guest, Message, World, assert_consistent

ALICE = PrivateKey(b"a" * 32)


class Watcher:
    """An onlooker, and how far it has read."""

    def __init__(
        self, world: World, gallery: Gallery, ip: str = "192.0.2.77", *, is_loopback: bool = False
    ) -> None:
        self.link = FakeLink()
        self._gallery = gallery
        self._read = 0
        self._onlooker = gallery.connect(self.link, ip, is_loopback=is_loopback)

    @property
    def onlooker(self) -> Onlooker:
        assert self._onlooker is not None
        return self._onlooker

    def read(self) -> list[Message]:
        messages, self._read = self.link.messages[self._read :], len(self.link.messages)
        return messages

    def send(self, payload: bytes) -> None:
        self._gallery.receive(self.onlooker, payload)

    def leave(self) -> None:
        self._gallery.disconnect(self.onlooker)


def opened(**chosen: Any) -> tuple[World, Gallery]:
    world = World(**chosen)
    return world, Gallery(world.hall)


def types(messages: list[Message]) -> list[str]:
    return [message["type"] for message in messages]


# -- the snapshot ----------------------------------------------------------------------------------


def test_the_first_messages_are_what_there_is() -> None:
    world, gallery = opened(motd="be kind", default_channels=("#general", "#quiet"))
    alice = world.agent("alice", key=ALICE, join="#general")
    world.say(alice, "#general", "hello")
    hello, channels, agents, *rooms = Watcher(world, gallery).read()
    assert (hello["type"], hello["server"], hello["motd"]) == ("HALL", "moothall", "be kind")
    assert hello["hall_key"] == world.hall.public_key
    assert [(each["name"], each["agents"]) for each in channels["list"]] == [("#general", 1), ("#quiet", 0)]
    assert [(each["id"], each["name"]) for each in agents["list"]] == [(alice.id, "alice")]
    assert types(rooms) == ["MSG", "JOINED", "JOINED"]
    assert (rooms[0]["content"], rooms[0]["replay"]) == ("hello", True)
    assert [entry["id"] for entry in rooms[1]["agents"]] == [alice.id]


def test_closed_channels_their_members_and_their_messages_are_not_in_it() -> None:
    world, gallery = opened(verified_channels=("#club",))
    alice = world.agent("alice", key=ALICE, join="#club")
    world.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.say(alice, "#den", "a secret")
    world.say(alice, "#club", "among us")
    told = Watcher(world, gallery).read()
    text = json.dumps(told)
    assert "#den" not in text
    assert "a secret" not in text
    assert "among us" not in text
    (channels,) = [message for message in told if message["type"] == "CHANNELS"]
    assert {"name": "#club", "agents": 1, "verifiedOnly": True} in channels["list"]  # as LIST_CHANNELS has it
    assert not any(message["type"] == "JOINED" and message["channel"] == "#club" for message in told)


def test_a_large_hall_is_shown_as_far_as_there_is_room() -> None:
    world, gallery = opened(outbox_limit=64 * 1024, buffer_size=50, no_limits=True, rate_message=Rate(0, 1))
    agents = [world.agent(f"agent{number}", join="#general") for number in range(40)]
    for number in range(60):
        world.send(agents[0], "CREATE_CHANNEL", channel=f"#room{number}")
        world.advance(1)
        for _ in range(5):
            world.send(agents[0], "MSG", to=f"#room{number}", content="x" * 500)
    watcher = Watcher(world, gallery)
    told = watcher.read()
    assert sum(map(len, watcher.link.frames)) <= 16 * 1024
    for kind in ("CHANNELS", "AGENTS"):
        (listed,) = [message for message in told if message["type"] == kind]
        assert listed["truncated"]
    shown = [message["channel"] for message in told if message["type"] == "JOINED"]
    assert shown[0] == "#room59"
    assert len(shown) < 60


# -- what happens ----------------------------------------------------------------------------------


def test_an_onlooker_gets_the_same_bytes_as_members() -> None:
    world, gallery = opened()
    alice, bob = (world.agent(name, join="#general") for name in ("alice", "bob"))
    watcher = Watcher(world, gallery)
    world.say(alice, "#general", "hello")
    assert watcher.link.frames[-1] is bob.link.frames[-1]


def test_receipts_that_others_want_are_not_its_business() -> None:
    world, gallery = opened()
    alice = world.agent("alice", features=["receipts"], join="#general")
    world.agent("bob", features=["receipts"], join="#general")
    watcher = Watcher(world, gallery)
    watcher.read()
    world.send(alice, "MSG", to="#general", content="hello", receipt=True)
    (line,) = watcher.read()
    assert (line["content"], "receipt" in line) == ("hello", False)


def test_new_channels_are_shown_with_those_who_made_them() -> None:
    world, gallery = opened()
    alice = world.agent("alice", key=ALICE)
    watcher = Watcher(world, gallery)
    watcher.read()
    world.send(alice, "CREATE_CHANNEL", channel="#new")
    entered, arrival = watcher.read()
    assert (entered["type"], entered["channel"], entered["agents"]) == ("JOINED", "#new", [])
    assert (arrival["type"], arrival["channel"], arrival["agent"]) == ("AGENT_JOINED", "#new", alice.id)
    world.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.send(alice, "CREATE_CHANNEL", channel="#club", verified_only=True)
    world.say(alice, "#den", "a secret")
    world.send(alice, "TYPING", channel="#club")
    world.send(alice, "LEAVE", channel="#den")
    assert watcher.read() == []


def test_a_channel_that_makes_way_is_gone() -> None:
    world, gallery = opened(max_channels=4)
    alice = world.agent("alice")
    watcher = Watcher(world, gallery)
    world.send(alice, "CREATE_CHANNEL", channel="#one")
    world.send(alice, "LEAVE", channel="#one")
    watcher.read()
    world.send(alice, "CREATE_CHANNEL", channel="#two")
    assert [(told["type"], told["channel"]) for told in watcher.read()] == [
        ("LEFT", "#one"),
        ("JOINED", "#two"),
        ("AGENT_JOINED", "#two"),
    ]


def test_a_channel_on_demand_is_there_while_it_has_members() -> None:
    world, gallery = opened()
    world.hall.channels.create("#topic", world.hall.now(), on_demand=True)
    alice = world.agent("alice")
    watcher = Watcher(world, gallery)
    watcher.read()
    world.send(alice, "JOIN", channel="#topic")
    assert ("JOINED", "#topic") in [(told["type"], told["channel"]) for told in watcher.read()]
    world.send(alice, "LEAVE", channel="#topic")
    assert ("LEFT", "#topic") in [(told["type"], told["channel"]) for told in watcher.read()]


def test_presence_is_shown_of_those_in_public_channels_only() -> None:
    world, gallery = opened()
    alice, carol = world.agent("alice", join="#general"), world.agent("carol")
    world.send(carol, "CREATE_CHANNEL", channel="#den", invite_only=True)
    watcher = Watcher(world, gallery)
    watcher.read()
    for agent in (alice, carol, alice):
        world.send(agent, "SET_PRESENCE", status="busy")
    world.advance(1)
    changed = watcher.read()
    assert types(changed) == ["PRESENCE_CHANGED"] * 2
    assert {told["agent_id"] for told in changed} == {alice.id}


def test_the_floor_is_shown() -> None:
    world, gallery = opened()
    alice, bob = (world.agent(name, join="#general") for name in ("alice", "bob"))
    watcher = Watcher(world, gallery)
    msg_id = world.say(alice, "#general", "a question?")
    watcher.read()
    world.send(bob, "RESPONDING_TO", msg_id=msg_id, channel="#general", started_at=world.now_ms)
    world.send(bob, "RELEASE", msg_id=msg_id, channel="#general")
    assert types(watcher.read()) == ["RESPONDING_TO", "FLOOR_CLAIMED", "FLOOR_RELEASED"]


def test_a_new_message_of_the_day_is_shown() -> None:
    world, gallery = opened(admin_key=ADMIN_KEY)
    watcher = Watcher(world, gallery)
    watcher.read()
    world.send(world.agent("admin"), "ADMIN_MOTD", admin_key=ADMIN_KEY, motd="tea at five")
    assert [(told["type"], told["motd"]) for told in watcher.read()] == [("MOTD_UPDATE", "tea at five")]


def test_nobody_sees_an_onlooker() -> None:
    world, gallery = opened()
    alice = world.agent("alice", join="#general")
    watcher = Watcher(world, gallery)
    world.send(alice, "LIST_AGENTS", channel="#general")
    world.send(alice, "LIST_AGENTS")
    assert [len(told["list"]) for told in alice.read()] == [1, 1]
    watcher.leave()
    assert alice.read() == []
    assert len(world.hall.roster) == len(world.hall.sessions) == 1
    assert_consistent(world)


def test_without_onlookers_the_hall_shows_nothing() -> None:
    world, gallery = opened()
    first, second = Watcher(world, gallery), Watcher(world, gallery)
    shows = [world.hall.delivery.gallery]
    for watcher in (first, second, second):
        watcher.leave()
        shows.append(world.hall.delivery.gallery)
    assert shows == [gallery, gallery, None, None]


# -- what it may say -------------------------------------------------------------------------------


def test_it_may_say_ping_and_no_more() -> None:
    world, gallery = opened()
    watcher = Watcher(world, gallery)
    watcher.read()
    watcher.send(b'{"type":"PING"}')
    assert types(watcher.read()) == ["PONG"]
    for other in (b'{"type":"IDENTIFY","name":"eve"}', b"nonsense", b"[]", b"{}", b"\xff", b'{"type":1}'):
        watcher.send(other)
        (error,) = watcher.read()
        assert (error["type"], error["code"]) == ("ERROR", "INVALID_MSG")


def test_one_that_talks_too_much_has_to_leave() -> None:
    world, gallery = opened()
    watcher = Watcher(world, gallery)
    for _ in range(world.settings.rate_pre_auth.limit + 1):
        watcher.send(b'{"type":"PING"}')
    assert watcher.link.closed == (POLICY_VIOLATION, SLOWER)
    assert len(gallery) == 0
    assert not gallery.receive_control(watcher.onlooker, 0)
    assert world.log.find("watcher_flood") == [{"ip": "192.0.2.77"}]


def test_parts_of_frames_cost_their_address() -> None:
    world, gallery = opened(address_frames=Rate(4, 1))
    watcher = Watcher(world, gallery)
    for _ in range(40):
        gallery.receive_piece(watcher.onlooker, 1)
    assert watcher.link.closed == (POLICY_VIOLATION, SLOWER)


# -- how many --------------------------------------------------------------------------------------


def test_places_are_limited_for_all_and_for_each_address() -> None:
    world, gallery = opened(max_watchers=8)
    watchers = [Watcher(world, gallery, f"192.0.2.{number // 2}") for number in range(8)]
    assert len(gallery) == 8
    refused = Watcher(world, gallery, "198.51.100.1")
    assert refused.link.closed == (TRY_AGAIN_LATER, FULL)
    watchers[0].leave()
    assert Watcher(world, gallery, "192.0.2.1").link.closed == (TRY_AGAIN_LATER, FULL)  # it has two already
    assert Watcher(world, gallery, "192.0.2.0").link.closed is None
    assert gallery.refused == 2


def test_loopback_may_have_all_places() -> None:
    world, gallery = opened(max_watchers=4)
    watchers = [Watcher(world, gallery, "127.0.0.1", is_loopback=True) for _ in range(5)]
    assert [watcher.link.closed is None for watcher in watchers] == [True] * 4 + [False]


def test_an_address_that_comes_again_and_again_has_to_wait() -> None:
    world, gallery = opened(address_told=Rate(10, 1), address_bytes=Rate(0, 1))
    for number in range(8):
        world.agent(f"agent{number}")
    seen = []
    for _ in range(4):
        watcher = Watcher(world, gallery)
        seen.append(watcher.link.closed)
        if watcher.link.closed is None:
            watcher.leave()
    assert seen[0] is None
    assert seen[-1] == (TRY_AGAIN_LATER, BUSY)
    assert len(gallery) == 0


# -- those who read slowly -------------------------------------------------------------------------


def test_a_slow_one_misses_messages_and_is_told_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_module, "LOOK_AFTER", 1)
    world, gallery = opened()
    alice = world.agent("alice", join="#general")
    slow, quick = Watcher(world, gallery), Watcher(world, gallery)
    slow.read()
    quick.read()
    slow.link.watched = []
    slow.link.unread = world.settings.outbox_limit
    for number in range(3):
        world.say(alice, "#general", f"line {number}")
    assert slow.read() == []
    assert len(quick.read()) == 3
    slow.link.unread = 0
    (told,) = slow.link.watched
    told(True)
    gap, *snapshot = slow.read()
    assert (gap["type"], gap["missed"]) == ("GAP", 3)
    assert types(snapshot)[:3] == ["HALL", "CHANNELS", "AGENTS"]
    assert [line["content"] for line in snapshot if line["type"] == "MSG"] == ["line 0", "line 1", "line 2"]
    world.say(alice, "#general", "line 3")
    assert [line["content"] for line in slow.read()] == ["line 3"]
    assert gallery.gaps == 1


def test_one_that_never_reads_gets_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery_module, "LOOK_AFTER", 1)
    world, gallery = opened()
    alice = world.agent("alice", join="#general")
    slow = Watcher(world, gallery)
    slow.read()
    slow.link.watched = []
    slow.link.unread = world.settings.outbox_limit
    for _ in range(10):
        world.say(alice, "#general", "hello")
    slow.leave()
    assert len(slow.link.watched) == 1
    slow.link.watched[0](False)
    assert slow.read() == []


# -- where it is open ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, True),
        ({"page": False}, False),
        ({"page_public": False}, False),
        ({"allowlist": True}, False),
        ({"allowlist": True, "allowlist_strict": False}, True),
    ],
)
def test_strangers_see_nothing_where_anonymous_agents_may_not_come_in(
    chosen: dict[str, Any], expected: bool
) -> None:
    assert is_open(Settings(**chosen)) is expected


# -- all of it is what an anonymous agent could see ------------------------------------------------

CHANNELS = ("#general", "#agents", "#den", "#club", "#new")
steps = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            [
                "JOIN",
                "LEAVE",
                "MSG",
                "TYPING",
                "SET_PRESENCE",
                "SET_NICK",
                "CREATE",
                "CLAIM",
                "RELEASE",
                "GO",
                "DM",
            ]
        ),
        st.sampled_from(CHANNELS),
        st.booleans(),
    ),
    max_size=30,
)


def act(world: World, guest: Guest, what: str, channel: str, flag: bool) -> None:
    match what:
        case "JOIN" | "LEAVE" | "TYPING":
            world.send(guest, what, channel=channel)
        case "MSG":
            world.send(guest, "MSG", to=channel, content=f"said in {channel}")
        case "DM":
            world.send(guest, "MSG", to=world.guests[0].id, content="between us")
        case "SET_PRESENCE":
            world.send(guest, "SET_PRESENCE", status="busy" if flag else "online")
        case "SET_NICK":
            world.send(guest, "SET_NICK", nick=f"nick{world.now_ms % 1000}")
        case "CREATE":
            closed = {"#den": {"invite_only": True}, "#club": {"verified_only": True}}
            world.send(guest, "CREATE_CHANNEL", channel=channel, **closed.get(channel, {}))
        case "CLAIM":
            world.send(guest, "RESPONDING_TO", msg_id="m1", channel=channel, started_at=world.now_ms)
        case "RELEASE":
            world.send(guest, "RELEASE", msg_id="m1", channel=channel)


@given(steps)
@settings(max_examples=60, deadline=None)
def test_all_that_is_shown_reaches_an_anonymous_agent_in_all_public_channels(
    script: list[tuple[int, str, str, bool]],
) -> None:
    world, gallery = opened(no_limits=True, idle_prompts=False)
    spy = world.agent("spy", kind="human", join=("#general", "#agents", "#discovery"))
    keyed = world.agent("alice", key=ALICE)
    guests = [keyed, world.agent("bob"), world.agent("carol")]
    watcher = Watcher(world, gallery)
    watcher.read()
    spy.read()
    for index, what, channel, flag in script:
        if what == "GO":
            world.disconnect(guests[index])
            guests[index] = world.agent(f"later{index}")
        else:
            act(world, guests[index], what, channel, flag)
        world.advance(0.3)
        shown, heard = watcher.read(), spy.read()
        for told in shown:
            if told["type"] in ("JOINED", "LEFT"):  # of a channel that was just made, or has made way
                made = world.hall.channels.get(told["channel"])
                assert made is not None
                assert made.is_public
                world.send(spy, "JOIN", channel=told["channel"])
                heard += spy.read()
        members = {message["channel"]: message["agents"] for message in heard if message["type"] == "JOINED"}
        for told in shown:
            if told["type"] == "JOINED":
                continue
            if told["type"] == "AGENT_JOINED" and told["channel"] in members:
                assert told["agent"] in [entry["id"] for entry in members[told["channel"]]]
            elif told.get("agent") != spy.id:
                assert told in heard, f"only onlookers got {told}"
        for message in heard:  # and nothing of it is kept from them
            if message["type"] not in ("JOINED", "ERROR") and not message.get("to", "#").startswith("@"):
                assert message in shown or message.get("replay"), f"onlookers did not get {message}"
