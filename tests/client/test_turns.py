"""Taking the floor and losing it, with a speaker whose hall is made up."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

from moothall.client import turns as module
from moothall.client.board import Change
from moothall.client.floor import Asked, FloorPolicy
from moothall.client.turns import Turns, current_turn
from moothall.errors import FloorLost, FloorTaken, ReplyTimeout
from tests.client.meeting import PATIENCE

AT_ONCE = FloorPolicy(min_delay=0, max_delay=0, settle=0)
NEVER = FloorPolicy(min_delay=3600, max_delay=3600)
QUESTION = Asked("@bob", "#general", "1-a", "who knows?", is_human=False)
ANSWER = Asked("@other", "#general", "1-b", "I know", is_human=False, in_reply_to="1-a")
NOW = 1_760_000_000.0
NOW_MS = NOW * 1000


class MadeUp:
    """The agent `me`; the hall grants its claims unless told otherwise."""

    def __init__(self) -> None:
        self.claims: list[tuple[str, str, float | None]] = []
        self.releases: list[tuple[str, str]] = []
        self.announces_release = True
        self.granted: asyncio.Future[bool] | bool | Exception = True
        self.tasks: set[asyncio.Task[object]] = set()

    def names(self) -> tuple[str, ...]:
        return ("me", "myself")

    async def claim(self, msg_id: str, channel: str, started_at: float | None = None) -> bool:
        self.claims.append((msg_id, channel, started_at))
        if isinstance(self.granted, Exception):
            raise self.granted
        return self.granted if isinstance(self.granted, bool) else await self.granted

    async def release(self, msg_id: str, channel: str) -> None:
        self.releases.append((msg_id, channel))

    def in_background(self, work: Coroutine[Any, Any, object]) -> "asyncio.Task[object]":
        task: asyncio.Task[object] = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task


@pytest.fixture
def speaker() -> MadeUp:
    return MadeUp()


@pytest.fixture
def turns(speaker: MadeUp) -> Turns:
    return Turns(speaker, clock=lambda: NOW, random=lambda: 0.0)


class Answer:
    """A handler that thinks until it is told to answer, or is cancelled."""

    def __init__(self, turns: Turns, policy: FloorPolicy = AT_ONCE, asked: Asked = QUESTION) -> None:
        self.turn = turns.take(asked, policy)
        self.started = asyncio.Event()
        self.thought = asyncio.Event()
        self.cancelled = False
        self.task = asyncio.create_task(self._answer())

    async def _answer(self) -> str:
        async with self.turn:
            self.started.set()
            try:
                await self.thought.wait()
            except asyncio.CancelledError:
                self.cancelled = True
                raise
            await self.turn.settle()
            self.turn.speak()
        return "answered"


async def step() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_earliest_claims_and_answers(turns: Turns, speaker: MadeUp) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    answer.thought.set()
    assert await answer.task == "answered"
    assert speaker.claims == [("1-a", "#general", NOW)]


async def test_who_hears_a_claim_while_waiting_holds_back(turns: Turns, speaker: MadeUp) -> None:
    answer = Answer(turns)
    turns.heard_claim("#general", "1-a", "@other", NOW_MS + 5)
    await step()
    assert not answer.started.is_set()
    turns.heard(ANSWER)
    with pytest.raises(FloorTaken, match="answered"):
        await answer.task
    assert not answer.started.is_set()
    assert speaker.claims == []


async def test_who_hears_an_answer_while_waiting_does_not_start(turns: Turns) -> None:
    answer = Answer(turns, NEVER)
    await step()
    turns.heard(ANSWER)
    with pytest.raises(FloorTaken, match="answered"):
        await answer.task


async def test_an_answer_from_before_the_agent_came_counts(turns: Turns) -> None:
    turns.heard_of_answer("#general", "1-a", "@other")
    with pytest.raises(FloorTaken, match="answered"):
        await Answer(turns).task


async def test_an_answer_given_while_the_agent_was_away_takes_the_floor(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.lost_sight()
    turns.heard_of_answer("#general", "1-a", QUESTION.sender)  # more of the question
    await step()
    assert not answer.cancelled
    turns.heard_of_answer("#general", "1-a", "@other")
    with pytest.raises(FloorLost, match="@other"):
        await answer.task
    assert answer.cancelled


async def test_an_answer_under_a_later_claim_that_came_first_ends_an_own_answer(turns: Turns) -> None:
    """The claim of the other agent is over by the time at which the own one reaches the hall."""
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_claim("#general", "1-a", "@other", NOW * 1000 + 1)
    await step()
    assert not answer.cancelled
    turns.heard(ANSWER)
    with pytest.raises(FloorLost, match="@other"):
        await answer.task
    assert answer.cancelled


async def test_an_answer_without_a_claim_does_not_end_an_own_answer(turns: Turns) -> None:
    """It may be a remark. An agent that was told to yield cannot take the floor away like this either."""
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard(ANSWER)
    answer.thought.set()
    assert await answer.task == "answered"


async def test_an_agent_that_says_nothing_of_what_it_answers_has_answered_its_claim(turns: Turns) -> None:
    answer = Answer(turns)
    turns.heard_claim("#general", "1-a", "@other", 1)
    turns.heard(ANSWER._replace(in_reply_to=None))
    with pytest.raises(FloorTaken, match="answered"):
        await answer.task


@pytest.mark.parametrize("end", ["released", "expired", "left", "connection lost"])
async def test_who_held_back_gets_its_turn_when_the_claim_ends(
    turns: Turns, speaker: MadeUp, end: str
) -> None:
    answer = Answer(turns)
    turns.heard_claim("#general", "1-a", "@other", 1)
    await step()
    assert not answer.started.is_set()
    match end:
        case "released" | "expired":
            turns.heard_release("#general", "1-a", "@other", is_expired=end == "expired")
        case "left":
            turns.heard_departure("#general", "@other")
        case "connection lost":
            turns.lost_sight()
    await answer.started.wait()
    answer.thought.set()
    assert await answer.task == "answered"
    assert len(speaker.claims) == 1


@pytest.mark.parametrize("announces", [False, True])
async def test_where_no_end_is_announced_a_claim_ends_after_its_time(
    turns: Turns, speaker: MadeUp, monkeypatch: pytest.MonkeyPatch, announces: bool
) -> None:
    monkeypatch.setattr(module, "UNANNOUNCED_TTL", 0)
    monkeypatch.setattr(module, "MAX_HELD_BACK", 0.05)
    speaker.announces_release = announces
    answer = Answer(turns)
    turns.heard_claim("#general", "1-a", "@other", 1)
    if announces:
        with pytest.raises(FloorTaken, match="@other has the floor for too long"):
            await answer.task
    else:
        answer.thought.set()
        assert await answer.task == "answered"


async def test_claims_and_releases_one_after_another_do_not_make_the_wait_start_over(turns: Turns) -> None:
    """Otherwise a few agents that only claim and release could silence the rest."""
    answer = Answer(turns, FloorPolicy(min_delay=0.05, max_delay=0.05, settle=0))
    async with asyncio.timeout(PATIENCE):
        for number in count():
            turns.heard_claim("#general", "1-a", f"@other{number}", 1)
            await asyncio.sleep(0)
            turns.heard_release("#general", "1-a", f"@other{number}", is_expired=False)
            await step()
            if answer.started.is_set():
                break
    answer.thought.set()
    assert await answer.task == "answered"


async def test_a_claim_heard_before_the_message_was_looked_at_counts(turns: Turns) -> None:
    turns.heard_claim("#general", "1-a", "@other", 1)
    answer = Answer(turns)
    await step()
    assert not answer.started.is_set()
    turns.heard(ANSWER)
    with pytest.raises(FloorTaken):
        await answer.task


# -- ending without an answer --------------------------------------------------------------------------


async def ended(turns: Turns, *, waits: bool, error: Exception | None = None) -> None:
    async with turns.take(QUESTION, AT_ONCE):
        if waits:
            await asyncio.sleep(0)
        if error is not None:
            raise error


async def test_a_block_without_an_answer_releases_the_claim(turns: Turns, speaker: MadeUp) -> None:
    await asyncio.create_task(ended(turns, waits=True))
    await step()
    assert len(speaker.claims) == 1
    assert speaker.releases == [("1-a", "#general")]


async def test_so_does_a_block_that_fails(turns: Turns, speaker: MadeUp) -> None:
    with pytest.raises(ZeroDivisionError):
        await asyncio.create_task(ended(turns, waits=True, error=ZeroDivisionError()))
    await step()
    assert speaker.releases == [("1-a", "#general")]


async def test_a_block_that_ends_at_once_has_claimed_nothing(turns: Turns, speaker: MadeUp) -> None:
    await asyncio.create_task(ended(turns, waits=False))
    await step()
    assert speaker.claims == []
    assert speaker.releases == []


async def test_an_answer_releases_nothing(turns: Turns, speaker: MadeUp) -> None:
    answer = Answer(turns)
    answer.thought.set()
    await answer.task
    await step()
    assert len(speaker.claims) == 1
    assert speaker.releases == []


async def test_a_release_comes_after_its_claim(turns: Turns, speaker: MadeUp) -> None:
    granted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    speaker.granted = granted
    await asyncio.create_task(ended(turns, waits=True))
    await step()
    assert speaker.releases == []
    granted.set_result(True)
    await step()
    assert speaker.releases == [("1-a", "#general")]


async def test_a_denied_claim_is_not_released(turns: Turns, speaker: MadeUp) -> None:
    speaker.granted = False
    with pytest.raises(FloorLost):
        await Answer(turns).task
    await step()
    assert speaker.releases == []


async def test_who_loses_by_a_relayed_claim_takes_its_own_back(turns: Turns, speaker: MadeUp) -> None:
    """On a person's message the hall decides nothing, and would wait for the loser's answer as well."""
    answer = Answer(turns, asked=QUESTION._replace(is_human=True))
    await answer.started.wait()
    turns.heard_claim("#general", "1-a", "@other", NOW_MS - 1)
    with pytest.raises(FloorLost):
        await answer.task
    await step()
    assert speaker.releases == [("1-a", "#general")]


async def test_claims_of_other_messages_do_not_matter(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_claim("#general", "1-b", "@other", 1)
    turns.heard_claim("#other", "1-a", "@other", 1)
    turns.heard_yield("#general", "1-b", "@other")
    answer.thought.set()
    assert await answer.task == "answered"


async def test_a_yield_cancels_the_handler(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_yield("#general", "1-a", "@other")
    with pytest.raises(FloorLost, match="@other"):
        await answer.task
    assert answer.cancelled


async def test_a_denied_claim_cancels_the_handler(turns: Turns, speaker: MadeUp) -> None:
    speaker.granted = False
    answer = Answer(turns)
    with pytest.raises(FloorLost):
        await answer.task
    assert answer.cancelled


@pytest.mark.parametrize(
    ("holder", "started_at", "wins"),
    [
        ("@other", NOW_MS - 1, True),
        ("@other", NOW_MS + 1, False),
        ("@aaa", NOW_MS, True),  # of the same moment the smaller id
        ("@zzz", NOW_MS, False),
        ("@me", NOW_MS - 1, False),  # oneself is no other
    ],
)
async def test_of_two_claims_the_earlier_wins(
    turns: Turns, holder: str, started_at: float, wins: bool
) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_claim("#general", "1-a", holder, started_at)
    await step()
    assert answer.cancelled is wins
    answer.thought.set()
    if wins:
        with pytest.raises(FloorLost):
            await answer.task
    else:
        assert await answer.task == "answered"


async def test_the_reference_telling_the_holder_to_yield_to_itself_is_not_heeded(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_yield("#general", "1-a", "@me")
    answer.thought.set()
    assert await answer.task == "answered"


async def test_a_claim_that_never_reaches_the_hall_does_not_silence_the_answer(
    turns: Turns, speaker: MadeUp
) -> None:
    speaker.granted = ReplyTimeout("no answer")
    answer = Answer(turns)
    await answer.started.wait()
    answer.thought.set()
    assert await answer.task == "answered"


async def test_an_answer_waits_until_its_claim_is_granted(turns: Turns, speaker: MadeUp) -> None:
    granted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    speaker.granted = granted
    answer = Answer(turns)
    await answer.started.wait()
    answer.thought.set()
    await step()
    assert not answer.task.done()
    granted.set_result(False)
    with pytest.raises(FloorLost):
        await answer.task


async def test_a_quick_answer_leaves_time_for_an_earlier_claim_to_arrive(turns: Turns) -> None:
    answer = Answer(turns, FloorPolicy(min_delay=0, max_delay=0, settle=3600))
    await answer.started.wait()
    answer.thought.set()
    await step()
    assert not answer.task.done()
    turns.heard_claim("#general", "1-a", "@other", NOW_MS - 1)
    with pytest.raises(FloorLost):
        await answer.task


async def test_who_has_answered_is_not_cancelled_any_more(turns: Turns) -> None:
    spoken = asyncio.Event()
    finished = asyncio.Event()

    async def answer_and_tidy_up() -> str:
        async with turns.take(QUESTION, AT_ONCE) as turn:
            turn.speak()
            spoken.set()
            await finished.wait()
        return "tidy"

    task = asyncio.create_task(answer_and_tidy_up())
    await spoken.wait()
    turns.heard_yield("#general", "1-a", "@other")
    await step()
    finished.set()
    assert await task == "tidy"


async def test_a_handler_that_ignores_its_cancellation_still_cannot_answer(turns: Turns) -> None:
    started = asyncio.Event()

    async def stubborn() -> None:
        async with turns.take(QUESTION, AT_ONCE) as turn:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                turn.speak()

    task = asyncio.create_task(stubborn())
    await started.wait()
    turns.heard_yield("#general", "1-a", "@other")
    with pytest.raises(FloorLost):
        await task


async def test_code_after_the_block_goes_on(turns: Turns) -> None:
    """The cancellation is for the block alone, whether it arrived inside or just too late."""
    started = asyncio.Event()

    async def sometimes(*, at_once: bool) -> str:
        try:
            async with turns.take(QUESTION, AT_ONCE) as turn:
                started.set()
                if at_once:
                    turn.lose("other")
                else:
                    await asyncio.Event().wait()
        except FloorLost:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "went on"
        return "answered"

    assert await asyncio.create_task(sometimes(at_once=True)) == "went on"
    started.clear()
    waiting = asyncio.create_task(sometimes(at_once=False))
    await started.wait()
    turns.heard_yield("#general", "1-a", "@other")
    assert await waiting == "went on"


async def test_cancelling_the_task_from_outside_is_not_mistaken_for_a_lost_floor(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    answer.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer.task


async def test_cancelled_from_outside_and_lost_at_once_is_cancelled(turns: Turns) -> None:
    answer = Answer(turns)
    await answer.started.wait()
    turns.heard_yield("#general", "1-a", "@other")
    answer.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answer.task


async def test_an_error_of_the_handlers_own_is_not_hidden(turns: Turns) -> None:
    async def broken() -> None:
        async with turns.take(QUESTION, AT_ONCE) as turn:
            turn.lose("other")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.create_task(broken())


async def test_a_yield_after_the_block_cancels_nobody(turns: Turns, speaker: MadeUp) -> None:
    granted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    speaker.granted = granted

    async def silent() -> str:
        async with turns.take(QUESTION, AT_ONCE):
            pass
        await step()
        granted.set_result(False)
        await step()
        return "alive"

    assert await asyncio.create_task(silent()) == "alive"


# -- messages that are not for all ---------------------------------------------------------------------


async def test_a_mention_is_answered_at_once_and_without_a_claim(turns: Turns, speaker: MadeUp) -> None:
    turns.heard_claim("#general", "1-a", "@other", 1)
    answer = Answer(turns, NEVER, QUESTION._replace(content="@myself what do you think?"))
    answer.thought.set()
    assert await answer.task == "answered"
    assert speaker.claims == []


async def test_a_person_sees_a_claim_also_where_none_is_needed(turns: Turns, speaker: MadeUp) -> None:
    asked = QUESTION._replace(content="@myself what do you think?", is_human=True)
    turns.heard_claim("#general", "1-a", "@other", 1)
    answer = Answer(turns, NEVER, asked)
    await answer.started.wait()
    turns.heard_claim("#general", "1-a", "@another", 1)
    turns.heard_yield("#general", "1-a", "@another")
    answer.thought.set()
    assert await answer.task == "answered"
    assert len(speaker.claims) == 1


async def test_all_answer_a_person_without_claims_if_told_so(turns: Turns, speaker: MadeUp) -> None:
    answer = Answer(turns, FloorPolicy(3600, 3600, answer_humans="all"), QUESTION._replace(is_human=True))
    answer.thought.set()
    assert await answer.task == "answered"
    assert speaker.claims == []


async def test_what_is_addressed_to_a_member_is_left_to_it(turns: Turns) -> None:
    turns.members.fill("#general", [("@q1", "qa1"), ("@me", "myself")])
    asked = QUESTION._replace(content="@qa1 number 1?")
    with pytest.raises(FloorTaken, match="addressed to @q1"):
        await Answer(turns, asked=asked).task
    turns.members.leave("#general", "@q1")
    answer = Answer(turns, asked=asked)
    answer.thought.set()
    assert await answer.task == "answered"


async def test_replies_to_others_are_left_alone_and_those_to_the_agent_are_not(turns: Turns) -> None:
    reply = QUESTION._replace(in_reply_to="0-z")
    with pytest.raises(FloorTaken, match="a reply to another agent"):
        await Answer(turns, asked=reply).task
    turns.wrote("0-z")
    answer = Answer(turns, NEVER, reply)
    answer.thought.set()
    assert await answer.task == "answered"


async def test_the_agent_goes_quiet_after_so_many_rounds_and_logs_that_once(
    turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    turns.wrote("0-z")
    policy = FloorPolicy(0, 0, settle=0, max_rounds=4)
    reply = QUESTION._replace(in_reply_to="0-z")
    answered = 0
    for _ in range(10):
        turns.heard(reply)
        try:
            async with turns.take(reply, policy):
                turns.said(ANSWER._replace(in_reply_to=reply.msg_id))
                answered += 1
        except FloorTaken:
            continue
    assert answered == 2  # each answer is a reply too
    assert caplog.text.count("stays quiet") == 1
    turns.heard(QUESTION)
    for _ in range(10):
        turns.heard(reply)
        with suppress(FloorTaken):
            async with turns.take(reply, policy):
                pass
    assert caplog.text.count("stays quiet") == 2


async def test_agents_that_mention_each_other_without_end_are_logged_once(
    turns: Turns, caplog: pytest.LogCaptureFixture
) -> None:
    mention = QUESTION._replace(in_reply_to="0-z", content="@myself, thank you")
    for _ in range(100):
        turns.heard(mention)
        with suppress(FloorTaken):
            async with turns.take(mention, AT_ONCE):
                pass
    assert caplog.text.count("stays quiet") == 1


async def test_what_others_claim_and_how_it_ends_is_told(turns: Turns) -> None:
    changes: list[Change] = []
    turns.changed = changes.append
    turns.heard_claim("#general", "1-a", "@other", 1)
    turns.heard_claim("#general", "1-a", "@other", 1, granted=True)
    turns.heard_claim("#general", "1-b", "@me", 1)  # its own
    turns.heard(ANSWER)
    key = ("#general", "1-a")
    assert changes == [Change(key, "other", "claimed"), Change(key, "other", "answered")]


async def test_the_running_code_knows_its_turn(turns: Turns) -> None:
    async with turns.take(QUESTION, AT_ONCE) as turn:
        assert current_turn("1-a") is turn
        assert current_turn("1-b") is None
        inherited = asyncio.create_task(_seen("1-a"))
        assert await inherited is turn
    assert current_turn("1-a") is None


async def _seen(msg_id: str) -> object:
    return current_turn(msg_id)
