"""The hall and its channels in the API: what an agent of the same kind would see over the WebSocket."""

from typing import Any

import pytest

from moothall.hall.api_channels import ROUTES
from tests.identity.vectors import ALICE, BOB
from tests.support.api import ApiOf, bearer
from tests.support.world import World


def names(reply: Any) -> list[str]:
    return [channel["name"] for channel in reply.body["items"]]


def test_the_hall_says_what_it_is() -> None:
    world = World(server_name="town", motd="be kind")
    world.agent("alice", key=ALICE)
    world.agent("visitor")
    shown = ApiOf(world, ROUTES).get("hall").body
    assert (shown["name"], shown["motd"], shown["key"]) == ("town", "be kind", world.hall.public_key)
    assert shown["counts"] == {"agents": 2, "verified": 1, "channels": 3}
    assert shown["started_at"] == world.now_ms


def test_invite_only_channels_are_shown_to_their_members() -> None:
    world = World()
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    world.send(alice, "CREATE_CHANNEL", channel="#secret", invite_only=True)
    api = ApiOf(world, ROUTES)
    assert "#secret" in names(api.get("channels", bearer(world, alice)))
    for headers in ({}, bearer(world, bob)):
        assert "#secret" not in names(api.get("channels", headers))
        for what in ("messages", "agents"):
            reply = api.get(f"channels/secret/{what}", headers)
            missing = api.get(f"channels/missing/{what}", headers)
            assert reply.status == 404
            assert reply == missing
    assert api.get("channels/secret/agents", bearer(world, alice)).body["items"][0]["id"] == alice.id


def test_a_member_that_is_gone_sees_the_channel_no_more() -> None:
    world = World()
    alice = world.agent("alice", key=ALICE)
    world.send(alice, "CREATE_CHANNEL", channel="#secret", invite_only=True)
    token = bearer(world, alice)
    world.disconnect(alice)
    assert ApiOf(world, ROUTES).get("channels/secret/messages", token).status == 404


def test_verified_only_channels_are_listed_and_not_read_by_strangers() -> None:
    world = World(verified_channels=("#ours",))
    alice = world.agent("alice", key=ALICE, join="#ours")
    api = ApiOf(world, ROUTES)
    assert "#ours" in names(api.get("channels"))
    for what in ("messages", "agents"):
        assert api.get(f"channels/ours/{what}").status == 401
        assert api.get(f"channels/ours/{what}", bearer(world, alice)).status == 200


@pytest.mark.parametrize("name", ["general", "%23general"])
def test_messages_come_newest_first_a_page_at_a_time(name: str) -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    for number in range(5):
        world.say(alice, "#general", f"line {number}")
    api = ApiOf(world, ROUTES)
    seen, path = [], f"channels/{name}/messages?limit=2"
    while True:
        page = api.get(path).body
        seen += [message["content"] for message in page["items"]]
        if page["next"] is None:
            break
        path = f"channels/{name}/messages?limit=2&after={page['next']}"
    assert seen == [f"line {number}" for number in range(4, -1, -1)]


def test_after_a_message_that_was_forgotten_there_is_nothing() -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    world.say(alice, "#general", "hello")
    page = ApiOf(world, ROUTES).get("channels/general/messages?after=1-gone").body
    assert page == {"next": None, "items": []}


def test_text_that_utf8_cannot_hold_is_shown() -> None:
    world = World()
    alice = world.agent("alice", join="#general")
    world.send_raw(alice, rb'{"type":"MSG","to":"#general","content":"half \ud83d"}')
    (message,) = ApiOf(world, ROUTES).get("channels/general/messages").body["items"]
    assert message["content"] == "half \ud83d"


def test_lists_go_on_where_they_ended() -> None:
    world = World()
    agents = [world.agent(f"agent{number}", join="#general") for number in range(5)]
    api = ApiOf(world, ROUTES)
    for path, of, wanted in (
        ("channels", "name", sorted(channel.name for channel in world.hall.channels)),
        ("channels/general/agents", "id", sorted(agent.id for agent in agents)),
    ):
        seen: list[str] = []
        query = "?limit=2"
        while True:
            page = api.get(path + query).body
            seen += [item[of] for item in page["items"]]
            if page["next"] is None:
                break
            query = f"?limit=2&after={page['next'].replace('#', '%23')}"
        assert seen == wanted
