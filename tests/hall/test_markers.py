import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moothall.hall.markers import MAX_PENDING, Callback, CallbackQueue, Pending, extract
from moothall.wire.agentchat.jstext import trim

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
