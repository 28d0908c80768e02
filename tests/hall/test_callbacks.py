"""Callbacks: the markers, the queue, and from a marker in a message to the reminder (agentchat wire 9.5)."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moothall.hall.callbacks import MAX_PENDING, Callback, CallbackQueue, Pending, extract
from moothall.wire.agentchat.jstext import trim
from tests.support.world import (
    ABSENT,
    DEADLINES,
    NOON,
    Guest,
    World,
    assert_consistent,
    assert_refused,
    assert_sent,
    assert_silent,
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text()
)["callback_markers"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["content"][:40])
def test_markers_are_read_as_in_the_vectors(vector: dict[str, Any]) -> None:
    found = extract(vector["content"], vector["agent_id"])
    assert found.clean == vector["clean"]
    assert [callback._asdict() for callback in found.callbacks] == [
        {"delay": wanted["delay_s"], "target": wanted["target"], "payload": wanted["payload"]}
        for wanted in vector["callbacks"]
    ]


def test_a_message_of_nothing_but_markers_is_not_routed() -> None:
    assert extract(" @@cb:5s@@wake up ", "abc").routed is None


def test_what_is_left_of_a_message_is_routed() -> None:
    assert extract("back soon @@cb:5s@@wake up", "abc").routed == "back soon"


def test_the_original_is_routed_when_no_marker_was_acceptable() -> None:
    content = f" @@cb:1s@@{'x' * 501}"
    assert extract(content, "abc").routed is content
    assert extract(f"hi {content}", "abc").routed == "hi"


def test_one_acceptable_marker_is_enough_to_route_nothing() -> None:
    found = extract(f"@@cb:1s@@{'x' * 501}@@cb:2s@@short", "abc")
    assert found.routed is None
    assert found.callbacks == (Callback(2.0, "@abc", "short"),)


@pytest.mark.parametrize(
    "content", ["", "  plain  ", "mail me@@home", " @@cb:600@@ no s ", "@@cb:\u0663s@@x", "@@CB:3s@@x"]
)
def test_content_without_a_marker_is_left_as_it_is(content: str) -> None:
    found = extract(content, "abc")
    assert found.clean is content
    assert found.routed is content
    assert found.callbacks == ()


def test_payloads_are_measured_in_code_units_after_trimming() -> None:
    assert extract("@@cb:1s@@" + "😀" * 250 + " " * 9, "abc").callbacks
    assert not extract("@@cb:1s@@" + "😀" * 250 + "x", "abc").callbacks


def test_limits_can_be_given() -> None:
    assert extract("@@cb:9s@@12345", "abc", max_delay=3, max_payload=5).callbacks == (
        Callback(3, "@abc", "12345"),
    )
    assert extract("@@cb:9s@@123456", "abc", max_payload=5).callbacks == ()


def test_an_absurdly_long_delay_is_the_longest_one() -> None:
    assert extract(f"@@cb:{'9' * 4000}s@@x", "abc").callbacks == (Callback(3600.0, "@abc", "x"),)


def test_a_broken_marker_ends_a_payload_and_stays() -> None:
    found = extract("a @@cb:1s@@one @@cb:oops@@ two", "abc")
    assert found.clean == "a @@cb:oops@@ two"
    assert found.callbacks == (Callback(1.0, "@abc", "one"),)


# The same rules, said once more as one expression.
AS_EXPRESSION = re.compile(
    r"@@cb:([0-9]+(?:\.[0-9]+)?)s(#[a-zA-Z0-9_-]{1,31})?@@(.*?)(?=@@cb:|\Z)", re.DOTALL
)
CONTENTS = st.lists(
    st.one_of(
        st.sampled_from(
            ("@@cb:", "@@", "@", "5s", "1.5s", "s", "#ops", "#", "@@cb:3s@@", "@@cb:2s#a-b@@", " ", "\n")
        ),
        st.text(max_size=4),
    ),
    max_size=14,
).map("".join)


@given(CONTENTS)
@example("@@cb:5s@@cb:3s@@x")
@example("@@@cb:5s@@@@cb:1s@@")
def test_markers_are_what_the_expression_matches(content: str) -> None:
    found = extract(content, "abc")
    matches = list(AS_EXPRESSION.finditer(content))
    assert found.callbacks == tuple(
        Callback(min(float(match[1]), 3600), match[2] or "@abc", trim(match[3])) for match in matches
    )
    assert found.clean == (trim(AS_EXPRESSION.sub("", content)) if matches else content)


def asked(delay: float, payload: str = "") -> Callback:
    return Callback(delay, "@abc", payload)


def test_callbacks_fire_in_order_of_time_and_then_of_asking() -> None:
    queue = CallbackQueue()
    for number, delay in enumerate((3.0, 1.0, 3.0, 2.0)):
        assert queue.add("abc", asked(delay, f"{delay}"), f"cb_0_{number}", now=100.0)
    assert queue.next_due() == 101.0
    assert queue.due(now=100.9) == []
    assert queue.due(now=101.0) == [Pending(101.0, "cb_0_1", "abc", "@abc", "1.0")]
    assert [pending.callback_id for pending in queue.due(now=200.0)] == ["cb_0_3", "cb_0_0", "cb_0_2"]
    assert queue.next_due() is None


def test_fifty_may_be_pending_per_agent() -> None:
    queue = CallbackQueue()
    room = [queue.add("greedy", asked(60.0), f"cb_0_{number}", now=0.0) for number in range(60)]
    assert room == [True] * MAX_PENDING + [False] * 10
    assert queue.add("modest", asked(60.0), "cb_0_m", now=0.0)
    assert len(queue.due(now=60.0)) == 51
    assert queue.add("greedy", asked(60.0), "cb_0_n", now=60.0)


def test_an_agent_that_left_is_not_called_even_if_it_comes_back() -> None:
    queue = CallbackQueue()
    queue.add("abc", asked(1.0, "old"), "cb_0_1", now=0.0)
    queue.add("xyz", asked(5.0, "other"), "cb_0_2", now=0.0)
    queue.drop("abc")
    assert queue.next_due() == 5.0
    queue.add("abc", asked(2.0, "new"), "cb_0_3", now=0.0)
    assert [pending.payload for pending in queue.due(now=9.0)] == ["new", "other"]


def test_agents_that_come_and_go_leave_nothing_behind() -> None:
    queue = CallbackQueue()
    queue.add("stays", asked(3600.0), "cb_0_s", now=0.0)
    for visit in range(200):
        for number in range(MAX_PENDING):
            queue.add(f"guest{visit}", asked(3600.0), f"cb_{visit}_{number}", now=0.0)
        queue.drop(f"guest{visit}")
    assert len(queue) == 1
    assert len(queue._heap) <= 2 * MAX_PENDING
    assert list(queue._serials) == ["stays"]


AGENTS = st.sampled_from("abc")


class QueueAgainstPlainList(RuleBasedStateMachine):
    """A list, sorted when needed, does the same as the heap, only more slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = CallbackQueue(max_pending=3)
        self.pending: list[Pending] = []
        self.now = 0.0
        self.count = 0

    @rule(agent_id=AGENTS, delay=st.integers(0, 9))
    def add(self, agent_id: str, delay: int) -> None:
        self.count += 1
        callback_id = f"cb_0_{self.count}"
        room = sum(pending.agent_id == agent_id for pending in self.pending) < 3
        assert self.queue.add(agent_id, Callback(delay, "#ops", "x"), callback_id, self.now) is room
        if room:
            self.pending.append(Pending(self.now + delay, callback_id, agent_id, "#ops", "x"))

    @rule(agent_id=AGENTS)
    def drop(self, agent_id: str) -> None:
        self.queue.drop(agent_id)
        self.pending = [pending for pending in self.pending if pending.agent_id != agent_id]

    @rule(seconds=st.integers(0, 6))
    def fire(self, seconds: int) -> None:
        self.now += seconds
        due = [pending for pending in self.pending if pending.due <= self.now]
        self.pending = [pending for pending in self.pending if pending.due > self.now]
        assert self.queue.due(self.now) == sorted(due, key=lambda pending: pending.due)

    @invariant()
    def agrees(self) -> None:
        assert len(self.queue) == len(self.pending)
        assert self.queue.next_due() == min((pending.due for pending in self.pending), default=None)


TestQueueAgainstPlainList = QueueAgainstPlainList.TestCase


def pair(world: World) -> tuple[Guest, Guest]:
    alice, bob = world.agent("alice", join="#general"), world.agent("bob", join="#general")
    world.hush()
    return alice, bob


def test_a_marker_reminds_its_author_and_nobody_else() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="back soon @@cb:5s@@look again")
    assert_sent(bob, "MSG", content="back soon")
    world.advance(4.9)
    assert_silent(alice)
    world.advance(0.1)
    fired = assert_sent(
        alice,
        "MSG",
        from_="@server",
        from_name="server",
        to=alice.id,
        content="@@cb-fire@@look again",
        cb_origin=alice.id,
        msg_id=ABSENT,
        verified=ABSENT,
    )
    assert re.fullmatch(r"cb_[0-9]+_[0-9a-z]{1,6}", fired["cb_id"])
    assert fired["ts"] == (NOON + 5) * 1000
    assert_silent(alice, bob)


def test_a_marker_may_name_a_channel() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to=bob.id, content="@@cb:1.5s#general@@time for the report")
    world.advance(1.5)
    assert_sent(alice, "MSG", to="#general", content="@@cb-fire@@time for the report")
    assert_silent(alice, bob)


def test_a_message_of_nothing_but_markers_is_not_routed_and_uses_the_rate_slot() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:5s@@look again")
    assert_silent(alice, bob)
    assert len(world.hall.channels.find("#general").buffer) == 0
    world.send(alice, "MSG", to="#general", content="hello")
    assert_refused(alice, "RATE_LIMITED")


@pytest.mark.parametrize("to", ["#nowhere", "#agents", "@server", "@nobody"])
def test_markers_are_heeded_before_anybody_asks_where_the_message_goes(to: str) -> None:
    """A message of markers alone is not routed, so there is nothing to refuse (agentchat wire 9.3, 9.5)."""
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to=to, content="@@cb:1s@@x")
    assert_silent(alice)
    world.advance(1)
    assert_sent(alice, "MSG", content="@@cb-fire@@x")


@pytest.mark.parametrize(("to", "code"), [("#nowhere", "CHANNEL_NOT_FOUND"), ("@nobody", "AGENT_NOT_FOUND")])
@pytest.mark.parametrize("content", ["and @@cb:1s@@x", "@@cb:1s", f"@@cb:1s@@{'x' * 501}"])
def test_what_markers_leave_of_a_message_has_to_go_somewhere(to: str, code: str, content: str) -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to=to, content=content)
    assert_refused(alice, code)


def test_the_original_is_routed_when_its_only_payload_was_too_long() -> None:
    world = World()
    alice, bob = pair(world)
    content = f"@@cb:1s@@{'x' * 501}"
    world.send(alice, "MSG", to="#general", content=content)
    assert_sent(bob, "MSG", content=content)
    world.advance(10)
    assert_silent(alice)


def test_callbacks_fire_in_the_order_of_their_time() -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:3s@@third@@cb:1s@@first@@cb:2s@@second")
    world.advance(10)
    fired = [(message["ts"] - NOON * 1000, message["content"]) for message in alice.read()]
    assert fired == [
        (1000, "@@cb-fire@@first"),
        (2000, "@@cb-fire@@second"),
        (3000, "@@cb-fire@@third"),
    ]


def test_a_channel_one_has_left_or_that_never_was_gets_no_callback() -> None:
    world = World()
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s#general@@a@@cb:1s#nowhere@@b@@cb:2s@@c")
    world.send(alice, "LEAVE", channel="#general")
    alice.read()
    world.advance(10)
    assert_sent(alice, "MSG", content="@@cb-fire@@c")
    assert_silent(alice)


def test_an_agent_that_is_gone_gets_no_callback_not_even_when_it_comes_back() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:5s@@x")
    world.disconnect(alice)
    bob.read()
    assert len(world.hall.callbacks) == 0
    world.advance(10)
    assert_silent(bob)
    assert_consistent(world)


def test_fifty_callbacks_per_agent_and_further_ones_are_dropped_in_silence() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@x" * 60)
    world.send(bob, "MSG", to="#general", content="@@cb:1s@@x")
    assert_silent(alice, bob)
    assert len(world.hall.callbacks) == 51
    world.advance(1)
    assert len(alice.read()) == 50
    assert len(bob.read()) == 1
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@x")
    world.advance(1)
    assert len(alice.read()) == 1


@pytest.mark.parametrize("longest", [2, 3600])
def test_a_delay_is_capped(longest: float) -> None:
    world = World(idle_prompts=False, callback_max_delay=longest)
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:99999s@@x")
    world.advance(longest - 0.1)
    assert_silent(alice)
    world.advance(0.1)
    assert_sent(alice, "MSG", content="@@cb-fire@@x")


def test_the_limits_are_settings() -> None:
    world = World(callback_max_pending=1, callback_max_payload=3)
    alice, _ = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:1s@@long@@cb:1s@@abc@@cb:1s@@xyz")
    world.advance(1)
    assert_sent(alice, "MSG", content="@@cb-fire@@abc")
    assert_silent(alice)


def test_other_token_markers_pass_untouched() -> None:
    world = World()
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@joy:0.6@@ @@sleep:5s@@ @@wake@@")
    assert_sent(bob, "MSG", content="@@joy:0.6@@ @@sleep:5s@@ @@wake@@")


def test_agents_who_come_and_go_leave_nothing_behind() -> None:
    """However many callbacks were asked for, the agenda holds one appointment for the next of them."""
    world = World(no_limits=True)
    for _ in range(100):
        guest = world.agent()
        world.send(guest, "MSG", to=guest.id, content="@@cb:3600s@@x" * 50)
        world.send(guest, "MSG", to=guest.id, content="@@cb:1800s@@x" * 50)
        world.disconnect(guest)
        assert_consistent(world)
    assert len(world.hall.callbacks) == 0
    assert len(world.hall.agenda) <= DEADLINES + 3  # it, the idle watch and the line of strangers


def test_an_earlier_callback_asked_for_later_fires_first() -> None:
    world = World(no_limits=True)
    alice, bob = pair(world)
    world.send(alice, "MSG", to="#general", content="@@cb:10s@@late")
    world.send(bob, "MSG", to="#general", content="@@cb:1s@@early")
    world.advance(1)
    assert_sent(bob, "MSG", content="@@cb-fire@@early")
    assert_silent(alice)
    world.advance(9)
    assert_sent(alice, "MSG", content="@@cb-fire@@late")
