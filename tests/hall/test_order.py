"""Moderation on the wire, for halls that turn it on (agentchat wire 16.5); the rules: test_moderation.py."""

from moothall.hall.moderation import Action, Escalation, Opinion, Pipeline, Post, Rules
from moothall.hall.order import Order
from tests.identity.vectors import ALICE
from tests.support.world import (
    Guest,
    World,
    assert_closed,
    assert_consistent,
    assert_open,
    assert_refused,
    assert_sent,
    assert_silent,
)

LINK = "see https://example.test/"


class Censor:
    """Objects to one word, always in the same way."""

    name = "censor"
    fails_closed = False
    failures: tuple[type[Exception], ...] = ()

    def __init__(self, action: Action) -> None:
        self._action = action

    def review(self, post: Post, now: float) -> Opinion:
        return Opinion(self._action if "darn" in post.content else Action.ALLOW, "mind your words")


def censored(action: Action, rules: Rules | None = None) -> tuple[World, Guest, Guest]:
    world = World(no_limits=True)
    world.hall.order = Order(Pipeline([Censor(action)]), Escalation(rules or Rules()))
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    return world, alice, bob


def flood(world: World, guest: Guest, times: int) -> None:
    """So many messages within one second: all but the first are offences."""
    world.advance(1)
    for _ in range(times + 1):
        world.send(guest, "MSG", to="#general", content="hello")


def test_it_is_off_by_default() -> None:
    world = World()
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "MSG", to="#general", content=LINK)
    assert_sent(bob, "MSG", content=LINK)
    flood(world, alice, 30)
    assert {message["type"] for message in alice.read()} == {"ERROR"}
    assert_open(alice)


def test_links_from_new_unverified_agents_get_a_warning_and_pass() -> None:
    world = World(moderation=True)
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    world.send(alice, "MSG", to="#general", content=LINK)
    warning = assert_sent(alice, "MSG", from_="@server", to=alice.id)
    assert warning["content"].startswith("Warning: ")
    assert_sent(bob, "MSG", content=LINK)
    assert world.log.find("moderated") == [
        {"ip": "192.0.2.1", "agent": alice.id[1:], "action": "WARN", "moderator": "links"}
    ]


def test_links_from_the_verified_and_from_old_acquaintances_are_fine() -> None:
    world = World(moderation=True, idle_prompts=False)
    keyed = world.agent(key=ALICE, join="#general")
    old = world.agent(join="#general")
    world.hush()
    world.send(keyed, "MSG", to="#general", content=LINK)
    assert_sent(old, "MSG", content=LINK)
    world.advance(300)
    world.send(old, "MSG", to="#general", content=LINK)
    assert_sent(keyed, "MSG", content=LINK)
    assert_silent(keyed, old)


def test_running_into_limits_leads_to_warnings_throttling_timeout() -> None:
    world = World(moderation=True)
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    flood(world, alice, 3)
    for _ in range(2):
        assert_refused(alice, "RATE_LIMITED")
    assert "slow down" in assert_sent(alice, "MSG", from_="@server")["content"]
    assert_refused(alice, "RATE_LIMITED")
    flood(world, alice, 3)
    assert "throttled" in alice.read()[-2]["content"]
    bob.read()
    world.advance(1)
    world.send(alice, "MSG", to="#general", content="hello?")
    assert_refused(alice, "NOT_ALLOWED", "throttled")
    world.advance(5)
    world.send(alice, "MSG", to="#general", content="better")
    assert_sent(bob, "MSG", content="better")
    for _ in range(4):
        world.send(alice, "MSG", to="#general", content="hello?")
    alice.read()
    world.advance(6)
    world.send(alice, "MSG", to="#general", content="hello?")
    assert_refused(alice, "NOT_ALLOWED", "timed out")
    world.advance(60)
    world.send(alice, "MSG", to="#general", content="sorry")
    assert_sent(bob, "MSG", content="sorry")
    assert_silent(bob)


def test_a_blocked_message_goes_nowhere() -> None:
    world, alice, bob = censored(Action.BLOCK)
    world.send(alice, "MSG", to="#general", content="darn")
    assert_refused(alice, "NOT_ALLOWED", "mind your words")
    assert_silent(bob)
    assert len(world.hall.channels.find("#general").buffer) == 0
    world.send(alice, "MSG", to="#general", content="hello")
    assert_sent(bob, "MSG", content="hello")


def test_direct_messages_are_reviewed_too() -> None:
    world, alice, bob = censored(Action.BLOCK)
    world.send(alice, "MSG", to=bob.id, content="darn")
    assert_refused(alice, "NOT_ALLOWED")
    assert_silent(bob)


def test_a_kick_closes_and_the_message_goes_nowhere() -> None:
    world, alice, bob = censored(Action.KICK)
    world.send(alice, "MSG", to="#general", content="darn")
    assert_sent(alice, "KICKED", reason="mind your words")
    assert_closed(alice, 1000, "Kicked by moderation")
    assert_sent(bob, "AGENT_LEFT", agent=alice.id)
    assert_silent(bob)
    assert world.log.find("kicked_by_moderation") == [{"ip": "192.0.2.1", "agent": alice.id[1:]}]
    assert_consistent(world)


def test_the_offence_that_was_one_too_many_is_not_heard_by_anybody() -> None:
    """A warning lets a message pass; the kick that the same message leads to does not."""
    rules = Rules(warn_after=1, throttle_after=1, spacing=0, timeout_after=1, timeout=1, kick_after=2)
    world, alice, bob = censored(Action.WARN, rules)
    world.send(alice, "MSG", to="#general", content="darn")
    assert_sent(bob, "MSG", content="darn")
    world.advance(2)
    world.send(alice, "MSG", to="#general", content="darn again")
    assert_closed(alice, 1000, "Kicked by moderation")
    assert_sent(bob, "AGENT_LEFT", agent=alice.id)
    assert_silent(bob)
    assert [message["content"] for message in world.buffered("#general")] == ["darn"]
    assert_consistent(world)


def test_floods_of_frames_are_offences_too() -> None:
    world = World(moderation=True)
    alice = world.agent()
    for _ in range(63):
        world.send(alice, "PING")
    assert world.log.find("escalated") == [{"ip": "192.0.2.1", "agent": alice.id[1:], "action": "WARN"}]


def test_the_worst_offender_is_kicked_for_its_floods() -> None:
    rules = Rules(warn_after=1, throttle_after=1, timeout_after=1, timeout=1, kick_after=2)
    world = World()
    world.hall.order = Order(Pipeline(), Escalation(rules))
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    flood(world, alice, 1)
    world.advance(2)
    flood(world, alice, 1)
    assert_closed(alice, 1000, "Kicked by moderation")
    assert bob.read()[-1]["type"] == "AGENT_LEFT"
    assert_consistent(world)
