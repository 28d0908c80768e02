"""From the store's threads to the loop and back, one turn at a time."""

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from queue import SimpleQueue

import pytest

from moothall.store.units import (
    ANSWER_SECONDS,
    ANSWERS_PER_TURN,
    STEP_BACK,
    Answer,
    Answers,
    LoopFirst,
    step_back,
)


async def turns_of(told: list[int], wanted: int) -> list[int]:
    """How many answers each turn of the loop told, until all of them were told."""
    turns: list[int] = []
    while len(told) < wanted:
        before = len(told)
        await asyncio.sleep(0)
        if len(told) > before:
            turns.append(len(told) - before)
    return turns


async def test_what_was_committed_together_is_answered_a_little_at_a_time_and_in_order() -> None:
    told: list[int] = []
    # Each look at the clock finds that the time of an answer has passed.
    answers = Answers(now=count(step=ANSWER_SECONDS).__next__)
    answers.send([Answer(told.append, number) for number in range(9)])
    answers.send([Answer(told.append, number) for number in range(9, 12)])
    async with asyncio.timeout(60):
        turns = await turns_of(told, 12)
    assert max(turns) == ANSWERS_PER_TURN
    assert told == list(range(12))


async def test_short_answers_share_a_turn_of_the_loop() -> None:
    told: list[int] = []
    answers = Answers(now=count(step=ANSWER_SECONDS / 8).__next__)
    answers.send([Answer(told.append, number) for number in range(100)])
    async with asyncio.timeout(60):
        turns = await turns_of(told, 100)
    assert 5 <= max(turns) <= 12
    assert told == list(range(100))


async def test_an_answer_that_fails_does_not_hold_up_the_next() -> None:
    told: list[int] = []
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context["exception"]))
    answers = Answers()
    answers.send([Answer(lambda what: 1 // what, 0), Answer(told.append, 1)])
    for _ in range(10):
        await asyncio.sleep(0)
    assert told == [1]
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


async def test_a_thread_waits_for_the_loop_and_goes_on_after_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: SimpleQueue[Callable[[], object]] = SimpleQueue()
    went_on = threading.Event()
    turns = LoopFirst()
    monkeypatch.setattr(
        asyncio.get_running_loop(), "call_soon_threadsafe", lambda do, *args: asked.put(partial(do, *args))
    )

    def work() -> None:
        turns.wait()
        went_on.set()

    thread = threading.Thread(target=work)
    thread.start()
    have_a_turn = asked.get(timeout=60)
    assert not went_on.is_set()
    have_a_turn()
    assert went_on.wait(60)
    thread.join()


async def test_a_thread_does_not_wait_for_a_loop_that_waits_for_it() -> None:
    turns = LoopFirst()

    def work() -> None:
        for _ in range(100):
            turns.wait()

    thread = threading.Thread(target=work)
    thread.start()
    turns.end()
    thread.join(60)  # the loop stands still here
    assert not thread.is_alive()


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no niceness of their own")
def test_only_the_thread_that_steps_back_does() -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    seen: list[int] = []

    def work() -> None:
        step_back()
        seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [min(before + STEP_BACK, 19)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
