"""Moderation: its rules, and what they do on the wire of halls that turn it on (agentchat wire 16.5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.moderation import (
    DEFAULT_RULES,
    Action,
    Escalation,
    LinkDetector,
    Moderation,
    Moderator,
    Opinion,
    Pipeline,
    Post,
    Rules,
    Ruling,
)
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


def post(
    content: str = "hello",
    channel: str | None = "#general",
    *,
    verified: bool = False,
    admin: bool = False,
    connected_at: float = 0.0,
) -> Post:
    return Post("abc", channel, content, verified, admin, connected_at)


class Always:
    """Has one opinion about everything, and counts how often it was asked."""

    fails_closed = False
    failures: tuple[type[Exception], ...] = ()

    def __init__(self, action: Action, name: str = "always") -> None:
        self.name = name
        self.asked = 0
        self._action = action

    def review(self, post: Post, now: float) -> Opinion:
        self.asked += 1
        return Opinion(self._action, f"{self.name} said so")


class OutOfOrder:
    failures: tuple[type[Exception], ...] = (LookupError,)

    def __init__(self, error: Exception, *, fails_closed: bool) -> None:
        self.name = "broken"
        self.fails_closed = fails_closed
        self._error = error

    def review(self, post: Post, now: float) -> Opinion:
        raise self._error


ACTIONS = st.sampled_from(Action)


@given(st.lists(ACTIONS, max_size=8), st.integers(0, 8), st.data())
def test_the_strictest_wins_in_any_order(actions: list[Action], split: int, data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(actions))
    pipeline = Pipeline(map(Always, shuffled[:split]), {"#general": map(Always, shuffled[split:])})
    assert pipeline.review(post(), now=0.0).action is max([Action.ALLOW, *actions])


def test_actions_are_ordered_from_allow_to_kick() -> None:
    assert [action.name.lower() for action in sorted(Action)] == [
        "allow",
        "warn",
        "throttle",
        "block",
        "timeout",
        "kick",
    ]


def test_the_ruling_says_whose_opinion_it_was() -> None:
    pipeline = Pipeline(
        [Always(Action.WARN, "mild"), Always(Action.BLOCK, "firm"), Always(Action.BLOCK, "late")]
    )
    assert pipeline.review(post(), now=0.0) == Ruling(Action.BLOCK, "firm said so", "firm")


def test_everybody_is_asked_even_after_a_strict_opinion() -> None:
    counting = Always(Action.ALLOW)
    Pipeline([Always(Action.KICK), counting]).review(post(), now=0.0)
    assert counting.asked == 1


def test_a_channel_has_its_own_moderators() -> None:
    pipeline = Pipeline([Always(Action.WARN)], {"#strict": [Always(Action.BLOCK)]})
    assert pipeline.review(post(channel="#strict"), now=0.0).action is Action.BLOCK
    assert pipeline.review(post(channel="#general"), now=0.0).action is Action.WARN
    assert pipeline.review(post(channel=None), now=0.0).action is Action.WARN


def test_admins_are_not_moderated() -> None:
    strict = Always(Action.KICK)
    assert Pipeline([strict]).review(post(admin=True), now=0.0) == Ruling(Action.ALLOW)
    assert strict.asked == 0


def test_a_moderator_that_fails_is_skipped() -> None:
    broken = OutOfOrder(KeyError("list of words"), fails_closed=False)
    assert Pipeline([broken]).review(post(), now=0.0) == Ruling(Action.ALLOW, failed=("broken",))
    ruling = Pipeline([broken, Always(Action.WARN)]).review(post(), now=0.0)
    assert ruling == Ruling(Action.WARN, "always said so", "always", ("broken",))


def test_a_moderator_that_fails_closed_blocks() -> None:
    broken = OutOfOrder(KeyError("list of words"), fails_closed=True)
    ruling = Pipeline([Always(Action.WARN), broken]).review(post(), now=0.0)
    assert (ruling.action, ruling.moderator, ruling.failed) == (Action.BLOCK, "broken", ("broken",))
    assert Pipeline([broken, Always(Action.KICK)]).review(post(), now=0.0).action is Action.KICK


def test_a_bug_in_a_moderator_is_not_hidden() -> None:
    pipeline = Pipeline([OutOfOrder(ZeroDivisionError(), fails_closed=False)])
    with pytest.raises(ZeroDivisionError):
        pipeline.review(post(), now=0.0)


def violations(escalation: Escalation, count: int, start: float = 0.0, agent_id: str = "abc") -> list[Action]:
    return [escalation.violation(agent_id, start + number / 10) for number in range(count)]


def test_patience_runs_out_as_the_rules_say() -> None:
    assert violations(Escalation(), 10) == (
        [Action.ALLOW] * 2 + [Action.WARN] * 3 + [Action.THROTTLE] * 4 + [Action.TIMEOUT]
    )


def test_the_rules_are_the_stated_defaults() -> None:
    assert DEFAULT_RULES._asdict() == {
        "window": 60,
        "warn_after": 3,
        "throttle_after": 6,
        "spacing": 5,
        "timeout_after": 10,
        "timeout": 60,
        "kick_after": 3,
        "timeouts_remembered": 3600,
        "decay": 300,
    }


def test_violations_far_apart_do_not_add_up() -> None:
    escalation = Escalation()
    assert {escalation.violation("abc", 30.0 * number) for number in range(50)} == {Action.ALLOW}


def test_the_third_timeout_within_an_hour_is_a_kick() -> None:
    escalation = Escalation()
    last = [violations(escalation, 10, start)[-1] for start in (0.0, 1000.0, 2000.0)]
    assert last == [Action.TIMEOUT, Action.TIMEOUT, Action.KICK]


def test_old_timeouts_are_forgotten() -> None:
    escalation = Escalation()
    last = [violations(escalation, 10, start)[-1] for start in (0.0, 1000.0, 3700.0)]
    assert last == [Action.TIMEOUT] * 3


def test_a_timed_out_agent_is_silent_for_a_minute_and_slow_afterwards() -> None:
    escalation = Escalation()
    violations(escalation, 10)
    assert escalation.admit("abc", 60.8) is Action.TIMEOUT
    assert escalation.admit("abc", 60.9) is Action.ALLOW
    assert escalation.admit("abc", 65.8) is Action.THROTTLE
    assert escalation.admit("abc", 65.9) is Action.ALLOW


def test_violations_during_a_timeout_do_not_make_it_longer() -> None:
    escalation = Escalation()
    violations(escalation, 10)
    assert {escalation.violation("abc", 30.0) for _ in range(30)} == {Action.TIMEOUT}
    assert escalation.admit("abc", 60.9) is Action.ALLOW


def test_a_throttled_agent_posts_every_five_seconds() -> None:
    escalation = Escalation()
    violations(escalation, 6)
    admitted = [now for now in range(1, 23) if escalation.admit("abc", float(now)) is Action.ALLOW]
    assert admitted == [6, 11, 16, 21]


def test_one_level_decays_per_five_minutes() -> None:
    escalation = Escalation()
    violations(escalation, 10)
    assert [escalation.level("abc", 0.9 + quiet) for quiet in (0, 299, 300, 599, 600, 899, 900)] == [
        3,
        3,
        2,
        2,
        1,
        1,
        0,
    ]


def test_agents_nobody_complained_about_are_free() -> None:
    escalation = Escalation()
    assert escalation.admit("abc", 0.0) is Action.ALLOW
    assert escalation.level("abc", 0.0) == 0
    assert len(escalation) == 0


def test_agents_are_judged_apart() -> None:
    escalation = Escalation()
    violations(escalation, 10, agent_id="loud")
    assert escalation.violation("quiet", 1.0) is Action.ALLOW
    assert escalation.admit("quiet", 1.0) is Action.ALLOW


def test_only_recent_offenders_are_remembered() -> None:
    escalation = Escalation()
    for number in range(1000):
        escalation.violation(f"agent{number}", float(number))
    assert len(escalation) == 60  # one violation matters for a minute


# Eighths of a second add up without rounding.
SPELLS = st.one_of(st.integers(0, 24), st.integers(0, 4000)).map(lambda eighths: eighths / 8)
SHORT_FUSE = Rules(
    window=50,
    warn_after=1,
    throttle_after=2,
    timeout_after=3,
    timeout=20,
    kick_after=2,
    timeouts_remembered=400,
)


@pytest.mark.parametrize("rules", [DEFAULT_RULES, SHORT_FUSE], ids=["default rules", "short fuse"])
@given(spells=st.lists(st.tuples(st.booleans(), SPELLS), max_size=80))
def test_levels_stay_in_range_and_decay_to_nothing(rules: Rules, spells: list[tuple[bool, float]]) -> None:
    escalation = Escalation(rules)
    now = 0.0
    for violates, spell in spells:
        now += spell
        before = escalation.level("abc", now)
        if violates:
            action = escalation.violation("abc", now)
            assert escalation.level("abc", now) >= before
            assert action is not Action.BLOCK
        else:
            assert escalation.admit("abc", now) in (Action.ALLOW, Action.THROTTLE, Action.TIMEOUT)
            assert escalation.level("abc", now) == before
        assert 0 <= escalation.level("abc", now) <= 3
    for level in (2, 1, 0):
        now += rules.decay
        assert 0 <= escalation.level("abc", now) <= level
    escalation.violation("xyz", now + rules.timeouts_remembered)
    assert len(escalation) == 1


@given(st.lists(SPELLS, max_size=10))
def test_a_stricter_measure_never_comes_from_fewer_violations(spells: list[float]) -> None:
    all_of_them, every_other = Escalation(), Escalation()
    now = 0.0
    for number, spell in enumerate(spells):  # ten at most: the first timeout starts the count again
        now += spell
        action = all_of_them.violation("abc", now)
        if number % 2:
            assert every_other.violation("abc", now) <= action


LINKS = ["http://example.org", "see HTTPS://example.org/x", "(www.example.org)", "a\nhttps://1.2.3.4"]


@pytest.mark.parametrize("content", LINKS)
def test_links_of_newcomers_get_a_warning(content: str) -> None:
    moderator: Moderator = LinkDetector()
    assert moderator.review(post(content, connected_at=100.0), now=399.9).action is Action.WARN


@pytest.mark.parametrize("content", LINKS)
def test_links_of_others_do_not(content: str) -> None:
    detector = LinkDetector()
    assert detector.review(post(content, connected_at=100.0), now=400.0).action is Action.ALLOW
    assert detector.review(post(content, connected_at=100.0, verified=True), now=100.0).action is Action.ALLOW


@pytest.mark.parametrize(
    "content", ["", "hello", "http:// nothing", "awww.so cute", "www. is short", "example.org"]
)
def test_text_without_links_is_fine(content: str) -> None:
    assert LinkDetector().review(post(content), now=0.0).action is Action.ALLOW


def test_the_link_detector_is_a_plug_in() -> None:
    pipeline = Pipeline(in_channel={"#general": [LinkDetector()]})
    assert pipeline.review(post("http://example.org"), now=0.0).moderator == "links"
    assert pipeline.review(post("http://example.org", "#links"), now=0.0).action is Action.ALLOW


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
    world.hall.moderation = Moderation(Pipeline([Censor(action)]), Escalation(rules or Rules()))
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
    world.hall.moderation = Moderation(Pipeline(), Escalation(rules))
    alice, bob = world.agent(join="#general"), world.agent(join="#general")
    world.hush()
    flood(world, alice, 1)
    world.advance(2)
    flood(world, alice, 1)
    assert_closed(alice, 1000, "Kicked by moderation")
    assert bob.read()[-1]["type"] == "AGENT_LEFT"
    assert_consistent(world)
