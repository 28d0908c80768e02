"""Taking the floor and losing it, with a speaker whose hall is made up."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from moothall.client.floor import Asked, FloorPolicy
from moothall.client.turns import Turns, current_turn
from moothall.errors import FloorLost, FloorTaken, ReplyTimeout

AT_ONCE = FloorPolicy(min_delay=0, max_delay=0, settle=0)
NEVER = FloorPolicy(min_delay=3600, max_delay=3600)
QUESTION = Asked("@bob", "#general", "1-a", "who knows?", is_human=False)
NOW = 1_760_000_000.0
NOW_MS = NOW * 1000


class MadeUp:
    """The agent `me`; the hall grants its claims unless told otherwise."""

    def __init__(self) -> None:
        self.claims: list[tuple[str, str, float | None]] = []
        self.granted: asyncio.Future[bool] | bool | Exception = True
        self.tasks: set[asyncio.Task[object]] = set()

    def names(self) -> tuple[str, str]:
        return ("me", "myself")

    async def claim(self, msg_id: str, channel: str, started_at: float | None = None) -> bool:
        self.claims.append((msg_id, channel, started_at))
        if isinstance(self.granted, Exception):
            raise self.granted
        return self.granted if isinstance(self.granted, bool) else await self.granted

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


async def test_who_hears_a_claim_while_waiting_does_not_start(turns: Turns, speaker: MadeUp) -> None:
    answer = Answer(turns, NEVER)
    await step()
    turns.heard_claim("#general", "1-a", "@other", NOW_MS + 5)
    with pytest.raises(FloorTaken, match="@other"):
        await answer.task
    assert not answer.started.is_set()
    assert speaker.claims == []


async def test_who_hears_an_answer_while_waiting_does_not_start(turns: Turns) -> None:
    answer = Answer(turns, NEVER)
    await step()
    turns.heard_answer("#general", "1-a")
    with pytest.raises(FloorTaken, match="answered"):
        await answer.task


async def test_a_claim_heard_before_the_message_was_looked_at_counts(turns: Turns) -> None:
    turns.heard_claim("#general", "1-a", "@other", 1)
    with pytest.raises(FloorTaken):
        await Answer(turns, NEVER).task


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


async def test_exempt_messages_are_answered_at_once_and_without_a_claim(
    turns: Turns, speaker: MadeUp
) -> None:
    turns.heard_claim("#general", "1-a", "@other", 1)
    answer = Answer(turns, NEVER, QUESTION._replace(content="@myself what do you think?"))
    answer.thought.set()
    assert await answer.task == "answered"
    assert speaker.claims == []


async def test_the_running_code_knows_its_turn(turns: Turns) -> None:
    async with turns.take(QUESTION, AT_ONCE) as turn:
        assert current_turn("1-a") is turn
        assert current_turn("1-b") is None
        inherited = asyncio.create_task(_seen("1-a"))
        assert await inherited is turn
    assert current_turn("1-a") is None


async def _seen(msg_id: str) -> object:
    return current_turn(msg_id)
