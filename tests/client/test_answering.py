"""Which agent answers which message (docs/take-turns.md, the table)."""

from collections.abc import Collection
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.client import answering
from moothall.client.answering import MENTIONED_FACTOR, Part, Rounds, Run, judge
from moothall.client.floor import Asked, FloorPolicy

ME = ("1a2b3c4d", "echo", "old-name")
QUESTION = Asked("@bob", "#general", "1-a", "who knows Python?", is_human=False)
ONE, ALL = FloorPolicy(answer_humans="one"), FloorPolicy(answer_humans="all")


def part(
    asked: Asked,
    policy: FloorPolicy = ONE,
    run: Run | None = None,
    *,
    to_me: bool = False,
    addressed: Collection[str] = (),
) -> Part:
    return judge(asked, ME, policy, run or Run(), is_reply_to_me=to_me, addressed=addressed).part


def test_an_agents_question_to_all_is_answered_in_turn() -> None:
    assert part(QUESTION, ONE) is Part.IN_TURN
    assert part(QUESTION, ALL) is Part.IN_TURN


def test_a_person_gets_one_answer_or_all() -> None:
    person = QUESTION._replace(is_human=True)
    assert part(person, FloorPolicy()) is Part.IN_TURN
    assert part(person, ALL) is Part.AT_ONCE


@pytest.mark.parametrize(
    "change",
    [
        {"channel": None},  # a direct message
        {"msg_id": None},  # nothing to claim
        {"sender": "@server"},
        {"content": "@echo are you there?"},
        {"content": "what about you, @1a2b3c4d"},
        {"content": "@old-name, are you still called that?"},
    ],
)
def test_what_is_answered_at_once(change: dict[str, Any]) -> None:
    for policy in (ONE, ALL):
        assert part(QUESTION._replace(**change), policy) is Part.AT_ONCE


@pytest.mark.parametrize("is_human", [False, True])
def test_a_mention_of_others_addresses_them_alone(is_human: bool) -> None:
    asked = QUESTION._replace(content="@qa1 number 1?", is_human=is_human)
    for policy in (ONE, ALL):
        assert part(asked, policy, addressed={"@q1"}) is Part.SILENT
        assert part(asked, policy, to_me=True, addressed={"@q1"}) is Part.SILENT
    assert part(asked) is Part.IN_TURN  # it is not there
    assert part(asked._replace(content="@qa1 @echo?"), addressed={"@q1"}) is Part.AT_ONCE


@pytest.mark.parametrize("is_human", [False, True])
def test_a_reply_is_for_the_agent_that_it_replies_to(is_human: bool) -> None:
    reply = QUESTION._replace(in_reply_to="0-z", is_human=is_human)
    assert part(reply) is Part.SILENT
    assert part(reply, ALL) is Part.SILENT
    assert part(reply, to_me=True) is Part.AT_ONCE
    assert part(reply._replace(content="@echo?")) is Part.AT_ONCE


def test_a_line_from_the_server_mentions_none() -> None:
    """It is answered by those that asked for such lines, mentioned or not."""
    line = QUESTION._replace(
        sender="@server", msg_id=None, content="@1a2b3c4d, @other - What are you working on?"
    )
    assert part(line, addressed={"@other"}) is Part.AT_ONCE
    rounds = Rounds()
    rounds.hear("#general", QUESTION._replace(in_reply_to="0-z"), ME)
    rounds.hear("#general", line, ME)
    assert rounds.of("#general") == Run(1, 1)


# -- enough of each other -------------------------------------------------------------------------------------


def heard(*messages: Asked) -> Run:
    rounds = Rounds()
    for message in messages:
        rounds.hear("#general", message, ME)
    return rounds.of("#general")


REPLY = QUESTION._replace(in_reply_to="0-z")


@pytest.mark.parametrize("max_rounds", [0, 1, 6])
def test_after_so_many_replies_the_agent_is_quiet(max_rounds: int) -> None:
    policy = FloorPolicy(max_rounds=max_rounds)
    for replies in range(1, 10):
        judged = judge(
            REPLY, ME, policy, heard(*[REPLY] * replies), is_reply_to_me=True, addressed=frozenset()
        )
        assert judged.is_enough is (replies >= max_rounds)
        assert judged.part is (Part.SILENT if judged.is_enough else Part.AT_ONCE)


@pytest.mark.parametrize(
    "reset",
    [
        REPLY._replace(is_human=True),
        QUESTION._replace(is_human=True),
        QUESTION,
        REPLY._replace(content="@echo, go on"),
    ],
)
def test_a_person_a_mention_or_a_new_message_resets_the_count(reset: Asked) -> None:
    run = heard(*[REPLY] * 10, reset)
    assert run.in_row == 0
    assert part(REPLY, run=heard(*[REPLY] * 10, reset, REPLY), to_me=True) is Part.AT_ONCE


def test_channels_are_counted_apart() -> None:
    rounds = Rounds()
    for _ in range(10):
        rounds.hear("#general", REPLY, ME)
    assert rounds.of("#other") == Run()


def test_a_person_is_answered_whatever_the_count() -> None:
    run = heard(*[REPLY] * 100)
    assert part(QUESTION._replace(is_human=True), run=run) is Part.IN_TURN
    assert part(REPLY._replace(is_human=True), run=run, to_me=True) is Part.AT_ONCE


def test_agents_that_always_mention_each_other_stop_too() -> None:
    mention = REPLY._replace(content="@echo, thank you")
    answered = 0
    rounds = Rounds()
    for _ in range(200):
        rounds.hear("#general", mention, ME)
        answered += part(mention, run=rounds.of("#general"), to_me=True) is Part.AT_ONCE
    assert answered == MENTIONED_FACTOR * ONE.max_rounds
    rounds.hear("#general", QUESTION, ME)
    assert part(mention, run=rounds.of("#general"), to_me=True) is Part.AT_ONCE


@given(st.lists(st.integers(0, 20)))
def test_the_count_is_bounded_in_memory(channels: list[int]) -> None:
    rounds = Rounds()
    remembered, answering.REMEMBERED = answering.REMEMBERED, 5  # type: ignore[misc]
    try:
        for number in channels:
            rounds.hear(f"#{number}", REPLY, ME)
            assert rounds.of(f"#{number}").in_all >= 1
        assert sum(rounds.of(f"#{number}").in_all > 0 for number in range(21)) <= 5
    finally:
        answering.REMEMBERED = remembered  # type: ignore[misc]
