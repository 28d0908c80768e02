"""Coming and going (seed 000, join channels, disconnect, channel errors; agentchat wire 9)."""

from typing import Any

import pytest

from moothall.hall import membership
from moothall.hall.membership import MAX_INVITED
from moothall.identity import PrivateKey
from tests.identity.vectors import ALICE, BOB
from tests.support.world import (
    ABSENT,
    Guest,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)


def members(world: World, channel: str) -> list[str]:
    return [member.address for member in world.hall.channels.find(channel).members.values()]


def listed(world: World, guest: Guest) -> list[str]:
    world.send(guest, "LIST_CHANNELS")
    return [entry["name"] for entry in assert_sent(guest, "CHANNELS")["list"]]


# -- seed 001, channels --------------------------------------------------------------------------------


def test_three_channels_exist_at_start() -> None:
    world = World()
    assert listed(world, world.connect()) == ["#general", "#agents", "#discovery"]


def test_nobody_is_in_a_channel_before_it_joins() -> None:
    """Seed 000 wants an explicit JOIN (agentchat wire 20, row 14)."""
    world = World()
    guest = world.agent()
    assert world.hall.roster.agents[guest.id[1:]].channels == {}


# -- seed 000, join channels ---------------------------------------------------------------------------


def test_join_channels_step_1_needs_an_identity() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "JOIN", channel="#general")
    assert_refused(guest, "AUTH_REQUIRED")


def test_join_channels_step_2_the_channel_must_exist() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "JOIN", channel="#nowhere")
    assert_refused(guest, "CHANNEL_NOT_FOUND")
    assert_open(guest)


def test_join_channels_step_2_names_are_case_sensitive() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "JOIN", channel="#General")
    assert_refused(guest, "CHANNEL_NOT_FOUND")


@pytest.mark.parametrize("key", [None, BOB], ids=["ephemeral", "keyed"])
def test_join_channels_step_2_invite_only_needs_an_invitation(key: PrivateKey | None) -> None:
    world = World()
    owner, guest = world.agent(), world.agent(key=key)
    world.send(owner, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.send(guest, "JOIN", channel="#den")
    assert_refused(guest, "NOT_INVITED")
    world.send(owner, "INVITE", channel="#den", agent=guest.id)
    assert_sent(guest, "MSG")
    world.send(guest, "JOIN", channel="#den")
    assert_sent(guest, "JOINED", channel="#den")
    assert members(world, "#den") == [owner.id, guest.id]


def test_join_channels_step_2_verified_only_needs_a_proven_key() -> None:
    world = World(verified_channels=("#ops",))
    anonymous, keyed = world.agent(), world.agent(key=ALICE)
    world.send(anonymous, "JOIN", channel="#ops")
    assert_refused(anonymous, "AUTH_REQUIRED")
    world.send(keyed, "JOIN", channel="#ops")
    assert_sent(keyed, "JOINED", channel="#ops")


def test_join_channels_step_3_membership_is_known_on_both_sides() -> None:
    world = World()
    guest = world.agent(join=["#general", "#agents"])
    assert list(world.hall.roster.agents[guest.id[1:]].channels) == ["#general", "#agents"]
    assert members(world, "#general") == members(world, "#agents") == [guest.id]
    assert_consistent(world)


def test_join_channels_step_4_the_buffer_is_replayed_before_joined() -> None:
    """Also seed 000, buffering and replay, steps 3 and 4: marked, and with the original fields."""
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    bob = world.agent("bob", join="#general")
    alice.read()
    for content in ("one", "two"):
        world.say(alice, "#general", content)
    heard = bob.read()
    assert [message["content"] for message in heard] == ["one", "two"]
    world.advance(60)
    late = world.agent()
    world.send(late, "JOIN", channel="#general")
    replayed = [assert_sent(late, "MSG") for _ in range(2)]
    assert replayed == [{**message, "replay": True} for message in heard]
    assert_sent(late, "JOINED")
    assert_silent(late)


def test_join_channels_step_5_joined_lists_who_is_there() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    human = world.agent("carl", kind="human")
    world.send(human, "JOIN", channel="#general")
    joined = assert_sent(human, "JOINED", channel="#general")
    assert joined["agents"] == [
        {"id": alice.id, "name": "alice", "verified": True},
        {"id": human.id, "name": "carl", "verified": False, "kind": "human"},
    ]


def test_join_channels_step_6_the_others_hear_of_it_and_the_newcomer_does_not() -> None:
    world = World()
    there = [world.agent(join="#general") for _ in range(3)]
    elsewhere = world.agent(join="#agents")
    world.hush()
    newcomer = world.agent("alice", key=ALICE)
    world.send(newcomer, "JOIN", channel="#general")
    for guest in there:
        assert_sent(guest, "AGENT_JOINED", channel="#general", agent=newcomer.id, name="alice", verified=True)
    assert_sent(newcomer, "JOINED")
    assert_silent(newcomer, elsewhere, *there)


def test_joining_again_fetches_the_history_and_tells_nobody() -> None:
    """Agentchat wire 9.2."""
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    alice.read()
    world.say(alice, "#general", "hello")
    bob.read()
    world.send(bob, "JOIN", channel="#general")
    assert_sent(bob, "MSG", content="hello", replay=True)
    assert_sent(bob, "JOINED", channel="#general")
    assert_silent(alice, bob)
    assert members(world, "#general") == [alice.id, bob.id]


def test_who_made_an_invite_only_channel_may_leave_it_and_come_back() -> None:
    world = World()
    owner = world.agent()
    world.send(owner, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.send(owner, "LEAVE", channel="#den")
    world.send(owner, "JOIN", channel="#den")
    assert [message["type"] for message in owner.read()] == ["JOINED", "LEFT", "JOINED"]


# -- leave ---------------------------------------------------------------------------------------------


def test_leave_tells_the_sender_and_those_who_stay() -> None:
    world = World()
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    alice.read()
    world.send(bob, "LEAVE", channel="#general")
    assert_sent(bob, "LEFT", channel="#general")
    assert_sent(alice, "AGENT_LEFT", channel="#general", agent=bob.id, name="bob")
    assert_silent(alice, bob)
    assert members(world, "#general") == [alice.id]
    assert_consistent(world)


def test_leave_by_a_non_member_answers_left_and_tells_nobody() -> None:
    """What we do better: the reference tells the members of somebody who never was there."""
    world = World()
    alice, bob = world.agent(join="#general"), world.agent()
    world.send(bob, "LEAVE", channel="#general")
    assert_sent(bob, "LEFT", channel="#general")
    assert_silent(alice, bob)


def test_leave_of_an_unknown_channel_is_silent() -> None:
    """Agentchat wire 5.2."""
    world = World()
    guest = world.agent()
    world.send(guest, "LEAVE", channel="#nowhere")
    assert_silent(guest)


# -- create and invite ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, ALICE], ids=["ephemeral", "keyed"])
def test_any_agent_creates_a_channel_and_is_in_it(key: PrivateKey | None) -> None:
    """Agentchat wire 20, row 23: the seeds let everybody."""
    world = World()
    other = world.agent()
    guest = world.agent("maker", key=key)
    world.send(guest, "CREATE_CHANNEL", channel="#new")
    entry = {"id": guest.id, "name": "maker", "verified": key is not None}
    assert_sent(guest, "JOINED", channel="#new", agents=[entry])
    assert_silent(guest, other)
    assert members(world, "#new") == [guest.id]
    assert listed(world, other)[-1] == "#new"


def test_a_channel_is_created_once() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "CREATE_CHANNEL", channel="#general")
    assert_refused(guest, "CHANNEL_EXISTS")
    assert members(world, "#general") == []


def test_invite_only_channels_are_not_listed_and_verified_only_ones_say_so() -> None:
    world = World()
    maker = world.agent(key=ALICE)
    world.send(maker, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.send(maker, "CREATE_CHANNEL", channel="#club", verified_only=True)
    maker.read()
    world.send(maker, "LIST_CHANNELS")
    entries = assert_sent(maker, "CHANNELS")["list"]
    assert entries[-1] == {"name": "#club", "agents": 1, "verifiedOnly": True}
    assert entries[0] == {"name": "#general", "agents": 0}
    assert "#den" not in [entry["name"] for entry in entries]


def test_only_the_verified_make_channels_for_the_verified() -> None:
    world = World()
    guest = world.agent()
    world.send(guest, "CREATE_CHANNEL", channel="#club", verified_only=True)
    assert_refused(guest, "AUTH_REQUIRED")
    assert world.hall.channels.get("#club") is None


def test_a_hall_has_so_many_channels() -> None:
    world = World(max_channels=4)
    guest = world.agent()
    world.send(guest, "CREATE_CHANNEL", channel="#fourth")
    assert_sent(guest, "JOINED")
    world.send(guest, "CREATE_CHANNEL", channel="#fifth")
    assert_refused(guest, "INVALID_MSG")
    world.send(guest, "CREATE_CHANNEL", channel="#general")
    assert_refused(guest, "CHANNEL_EXISTS")


def created(world: World, guest: Guest, *names: str) -> None:
    for name in names:
        world.advance(6)
        world.send(guest, "CREATE_CHANNEL", channel=name)
        assert_sent(guest, "JOINED", channel=name)


def left(world: World, guest: Guest, *names: str) -> None:
    for name in names:
        world.send(guest, "LEAVE", channel=name)
    guest.read()


def names(world: World) -> list[str]:
    return [channel.name for channel in world.hall.channels if channel.made_by is not None]


def test_in_a_full_hall_new_channels_replace_empty_ones_that_have_no_history() -> None:
    world = World(max_channels=6)
    guest = world.agent()
    created(world, guest, "#talked")
    world.say(guest, "#talked", "hello")
    world.advance(5)
    created(world, guest, "#quiet", "#kept")  # later than the other, and still the first to go
    left(world, guest, "#talked", "#quiet")
    created(world, guest, "#fourth")
    assert names(world) == ["#talked", "#kept", "#fourth"]
    created(world, guest, "#fifth")
    assert names(world) == ["#kept", "#fourth", "#fifth"]
    world.send(guest, "CREATE_CHANNEL", channel="#sixth")
    assert_refused(guest, "INVALID_MSG", "Channel limit reached (6). Join an existing channel")
    assert world.hall.channels.get("#general") is not None  # the hall's own stay, empty or not
    assert_consistent(world)


def test_in_a_full_hall_who_made_most_channels_loses_one_first() -> None:
    world = World(max_channels=7)
    resident, crowd = world.agent(ip="192.0.2.1"), world.agent(ip="192.0.2.2")
    created(world, resident, "#home")
    left(world, resident, "#home")
    created(world, crowd, "#spam1", "#spam2", "#spam3")
    left(world, crowd, "#spam1", "#spam2", "#spam3")
    created(world, crowd, "#spam4", "#spam5")
    assert names(world) == ["#home", "#spam3", "#spam4", "#spam5"]
    created(world, resident, "#garden")
    assert names(world) == ["#home", "#spam4", "#spam5", "#garden"]


def test_one_address_has_its_share_of_the_channels() -> None:
    world = World(max_channels_per_ip=2)
    first = world.agent(ip="2001:db8::1")
    created(world, first, "#one", "#two")
    again = world.agent(ip="2001:db8::2")  # somebody else of the same network, or the same once more
    world.send(again, "CREATE_CHANNEL", channel="#three")
    assert_refused(again, "INVALID_MSG", "Your address has made 2 channels")
    world.send(again, "CREATE_CHANNEL", channel="#two")
    assert_refused(again, "CHANNEL_EXISTS")
    created(world, world.agent(ip="192.0.2.1"), "#elsewhere")
    left(world, first, "#one")
    created(world, again, "#three")
    assert names(world) == ["#two", "#elsewhere", "#three"]


@pytest.mark.parametrize("off", [{"max_channels_per_ip": 0}, {"max_channels_per_ip": 1, "no_limits": True}])
def test_the_share_can_be_turned_off(off: dict[str, Any]) -> None:
    world = World(**off)
    created(world, world.agent(), "#one", "#two")


def test_loopback_has_more_than_its_share() -> None:
    world = World(max_channels_per_ip=1)
    guest = world.connect("127.0.0.1", is_loopback=True)
    world.identify(guest)
    guest.read()
    created(world, guest, "#one", "#two")


def test_an_agent_is_in_so_many_channels_at_once() -> None:
    world = World(max_joined=2)
    guest = world.agent(join=("#general", "#agents"))
    for command in ("JOIN", "CREATE_CHANNEL"):
        channel = "#discovery" if command == "JOIN" else "#mine"
        world.send(guest, command, channel=channel)
        assert_refused(guest, "INVALID_MSG", "in 2 channels")
    assert world.hall.channels.get("#mine") is None
    world.send(guest, "JOIN", channel="#agents")  # for its history
    assert_sent(guest, "JOINED")
    left(world, guest, "#agents")
    world.send(guest, "JOIN", channel="#discovery")
    assert_sent(guest, "JOINED")


@pytest.mark.parametrize("off", [{"max_joined": 0}, {"max_joined": 1, "no_limits": True}])
def test_the_number_of_channels_one_is_in_can_be_unlimited(off: dict[str, Any]) -> None:
    World(**off).agent(join=("#general", "#agents", "#discovery"))


def test_the_reference_puts_agents_into_all_public_channels_however_many() -> None:
    world = World("agentchat-0.36", max_joined=1)
    assert len(world.hall.roster.agents[world.agent().id[1:]].channels) > 1


def test_invite_only_channels_can_be_turned_off() -> None:
    world = World(private_channels=False)
    guest = world.agent()
    world.send(guest, "CREATE_CHANNEL", channel="#den", invite_only=True)
    assert_refused(guest, "INVALID_MSG", "disabled")
    world.send(guest, "INVITE", channel="#general", agent="@x")
    assert_refused(guest, "INVALID_MSG", "disabled")
    world.send(guest, "CREATE_CHANNEL", channel="#open")
    assert_sent(guest, "JOINED")


def test_an_invitation_reaches_the_guest_as_a_message_and_is_silent_to_the_host() -> None:
    world = World()
    host, guest = world.agent("host", key=ALICE), world.agent("guest")
    world.send(host, "CREATE_CHANNEL", channel="#den", invite_only=True)
    host.read()
    world.send(host, "INVITE", channel="#den", agent=guest.id)
    told = assert_sent(guest, "MSG", from_=host.id, from_name="host", to=guest.id, verified=True)
    assert "#den" in told["content"]
    assert told["msg_id"]
    assert_silent(host, guest)


def test_an_invitation_waits_for_an_agent_that_is_offline() -> None:
    world = World()
    host = world.agent()
    world.send(host, "CREATE_CHANNEL", channel="#den", invite_only=True)
    host.read()
    world.send(host, "INVITE", channel="#den", agent=f"@{BOB.public.agent_id()}")
    assert_silent(host)
    bob = world.agent(key=BOB)
    world.send(bob, "JOIN", channel="#den")
    assert_sent(bob, "JOINED")


def test_only_members_invite_and_only_to_what_exists() -> None:
    world = World()
    host, outsider = world.agent(), world.agent()
    world.send(host, "CREATE_CHANNEL", channel="#den", invite_only=True)
    world.send(outsider, "INVITE", channel="#den", agent=outsider.id)
    assert_refused(outsider, "NOT_INVITED")
    world.send(outsider, "INVITE", channel="#nowhere", agent=outsider.id)
    assert_refused(outsider, "CHANNEL_NOT_FOUND")
    world.send(outsider, "JOIN", channel="#den")
    assert_refused(outsider, "NOT_INVITED")


def test_an_invite_list_is_bounded() -> None:
    world = World()
    host = world.agent()
    world.send(host, "CREATE_CHANNEL", channel="#den", invite_only=True)
    invited = world.hall.channels.find("#den").invited
    invited.update(f"guest{number}" for number in range(MAX_INVITED - 1 - len(invited)))
    world.send(host, "INVITE", channel="#den", agent="@one")
    host.read()
    world.send(host, "INVITE", channel="#den", agent="@two")
    assert_refused(host, "INVALID_MSG", "full")
    world.send(host, "INVITE", channel="#den", agent="@one")
    assert_silent(host)


# -- lists ---------------------------------------------------------------------------------------------


def test_channels_are_listed_to_anybody_with_their_size() -> None:
    world = World()
    world.agent(join="#agents")
    stranger = world.connect()
    world.send(stranger, "LIST_CHANNELS")
    channels = assert_sent(stranger, "CHANNELS")["list"]
    assert channels == [
        {"name": "#general", "agents": 0},
        {"name": "#agents", "agents": 1},
        {"name": "#discovery", "agents": 0},
    ]


def test_the_agents_of_a_public_channel_are_listed_to_anyone_identified() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE, join="#general")
    world.send(alice, "SET_PRESENCE", status="busy", status_text="thinking")
    outsider = world.agent()
    world.send(outsider, "LIST_AGENTS", channel="#general")
    entry = {
        "id": alice.id,
        "name": "alice",
        "presence": "busy",
        "status_text": "thinking",
        "verified": True,
    }
    assert_sent(outsider, "AGENTS", channel="#general", list=[entry])
    world.send(outsider, "LIST_AGENTS", channel="#agents")
    assert_sent(outsider, "AGENTS", channel="#agents", list=[])
    world.send(outsider, "LIST_AGENTS", channel="#nowhere")
    assert_refused(outsider, "CHANNEL_NOT_FOUND")
    stranger = world.connect()
    world.send(stranger, "LIST_AGENTS", channel="#general")
    assert_refused(stranger, "AUTH_REQUIRED")


def test_the_agents_of_the_whole_hall_are_listed_without_their_channels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    alice, loner = world.agent("alice", key=ALICE), world.agent("loner")
    world.send(alice, "CREATE_CHANNEL", channel="#den", invite_only=True)
    alice.read()
    world.send(loner, "LIST_AGENTS")
    listed = assert_sent(loner, "AGENTS")
    assert listed.keys() == {"type", "ts", "list"}
    assert [(entry["id"], entry["name"]) for entry in listed["list"]] == [
        (alice.id, "alice"),
        (loner.id, "loner"),
    ]
    assert "#den" not in str(listed)
    world.send(loner, "LIST_AGENTS", agents=[alice.id, "@00000000", alice.id])
    assert [entry["id"] for entry in assert_sent(loner, "AGENTS")["list"]] == [alice.id]
    world.send(loner, "LIST_AGENTS", agents=["@00000000"] * 101)
    assert_refused(loner, "INVALID_MSG")
    stranger = world.connect()
    world.send(stranger, "LIST_AGENTS")
    assert_refused(stranger, "AUTH_REQUIRED")
    monkeypatch.setattr(membership, "MAX_AGENTS_LISTED", 1)
    world.send(loner, "LIST_AGENTS")
    cut = assert_sent(loner, "AGENTS", truncated=True)
    assert [entry["id"] for entry in cut["list"]] == [alice.id]


def test_the_agents_of_an_invite_only_channel_are_listed_to_its_members_only() -> None:
    world = World()
    owner, outsider = world.agent(), world.agent()
    world.send(owner, "CREATE_CHANNEL", channel="#den", invite_only=True)
    owner.read()
    world.send(outsider, "LIST_AGENTS", channel="#den")
    assert_refused(outsider, "NOT_INVITED")
    world.send(owner, "LIST_AGENTS", channel="#den")
    assert [entry["id"] for entry in assert_sent(owner, "AGENTS")["list"]] == [owner.id]


# -- seed 000, disconnect ------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["the network or the agent", "a kick", "a flood"])
def test_disconnect_steps_1_to_5_cleanup_is_the_same_whatever_the_reason(how: str) -> None:
    """Also seed 000, disconnection: clean and dirty."""
    world = World(flood_closes=True)
    alice = world.agent("alice", key=ALICE, join=["#general", "#agents"])
    both = world.agent(join=["#general", "#agents"], ip="192.0.2.2")
    one = world.agent(join="#agents", ip="192.0.2.2")
    elsewhere = world.agent(join="#discovery", ip="192.0.2.2")
    world.hush()
    if how == "a kick":
        world.hall.close(alice.session, 1000, "Kicked by admin")
        assert_closed(alice, 1000, "Kicked by admin")
    elif how == "a flood":
        world.advance(10)
        for _ in range(61):
            world.send(alice, "PING")
        assert_closed(alice, 1008, "Rate limit exceeded")
    else:
        world.disconnect(alice)
    for channel in ("#general", "#agents"):
        assert_sent(both, "AGENT_LEFT", channel=channel, agent=alice.id, name=ABSENT)
        assert alice.id not in members(world, channel)
    assert_sent(one, "AGENT_LEFT", channel="#agents", agent=alice.id)
    assert_silent(both, one, elsewhere)
    assert "b8de75d1" not in world.hall.roster.agents
    assert world.books.bound["b8de75d1"] == ALICE.public.raw
    assert list(world.hall.door.connections) == ["192.0.2.2"]
    assert world.hall.door.connections["192.0.2.2"] == 3
    assert_consistent(world)


def test_disconnect_happens_once() -> None:
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    alice.read()
    world.disconnect(bob)
    world.hall.disconnect(bob.session)
    assert_sent(alice, "AGENT_LEFT")
    assert_silent(alice)
    assert_consistent(world)


def test_what_a_closed_session_still_sends_is_ignored() -> None:
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hall.close(bob.session, 1000, "Enough")
    alice.read()
    world.send(bob, "MSG", to="#general", content="one more thing")
    assert_silent(alice)


def test_disconnection_of_a_stranger_forgets_its_challenge_and_its_deadline() -> None:
    world = World()
    guest = world.connect()
    world.send(guest, "IDENTIFY", name="alice", pubkey=ALICE.public.pem)
    world.disconnect(guest)
    assert world.hall.waiting == {}
    assert_consistent(world)
    world.advance(600)
    assert guest.link.closed == (1006, "")


def test_a_bug_of_ours_closes_only_its_own_session() -> None:
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    alice.read()
    world.hall.fail(bob.session)
    assert_closed(bob, 1011, "Internal error")
    assert_sent(alice, "AGENT_LEFT", agent=bob.id)
    assert_open(alice)
    assert_consistent(world)
