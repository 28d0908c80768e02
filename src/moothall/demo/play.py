"""The play: one round of scenes after another, until an agent or the hall is gone."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from typing import NoReturn, TypeVar

from moothall.demo import script
from moothall.demo.cast import Cast
from moothall.demo.court import CourtScene
from moothall.demo.experience import gain_experience
from moothall.demo.guests import Hosts
from moothall.demo.pace import Pace
from moothall.demo.scenes import Scenes, Tell
from moothall.demo.stage import Stage, opened
from moothall.errors import DemoEnded, MoothallError

Item = TypeVar("Item")


async def run(
    port: int | None,
    keep_port: int | None,
    pace: Pace,
    tell: Tell,
    begun: Callable[[Stage, Cast], None],
) -> NoReturn:
    """Open a hall on these ports and play in it, until the task is cancelled.

    `tell` gets a line about each event; `begun` is called when the agents are in the hall. Raises DemoEnded when
    an agent or the hall is gone, and SettingsError when a port cannot be used.
    """
    async with opened(port, keep_port, pace) as stage:
        cast = Cast(stage.url, stage.keep_port)
        for trader in cast.traders:
            await asyncio.to_thread(stage.issue_credits, trader.key.public.raw)
        await gain_experience(cast)
        async with cast.connected():
            begun(stage, cast)
            await perform(stage, cast, pace, tell)


async def perform(stage: Stage, cast: Cast, pace: Pace, tell: Tell) -> NoReturn:
    """Play with a connected cast. Raises DemoEnded when one of them is gone."""
    hosts = Hosts(cast, pace, stage.folder)
    hosts.attend()
    try:
        async with asyncio.TaskGroup() as group:
            for actor in cast.everyone:
                group.create_task(actor.watch())
            group.create_task(hosts.listen_on_keep())
            group.create_task(_rounds(stage, cast, pace, tell))
    except ExceptionGroup as errors:
        raise _reason(errors) from errors
    raise DemoEnded("the play is over")


async def _rounds(stage: Stage, cast: Cast, pace: Pace, tell: Tell) -> None:
    scenes = Scenes(cast, pace, stage.folder, tell)
    court = CourtScene(cast, pace, tell)
    for number in count():
        a, b, c = _turned(cast.talkers, number)
        x, y = _turned(cast.traders, number)
        await scenes.report_build(_one_of(script.BUILDS, number))
        await scenes.take_turns(a, b, c, _one_of(script.QUESTIONS, number))
        await scenes.work(a, b, _one_of(script.JOBS, number))
        await scenes.order(x, y, _one_of(script.ORDERS, number))
        await scenes.leave_open(b, c, _one_of(script.REMAINDERS, number))
        await court.play(a, b, c, _one_of(script.QUARRELS, number))
        await pace.beat(3)
        await scenes.work(b, c, _one_of(script.JOBS, number + 1))
        await scenes.work(c, a, _one_of(script.JOBS, number + 2))
        await pace.beat(3)


def _turned(actors: tuple[Item, ...], number: int) -> tuple[Item, ...]:
    """With another one first in each round."""
    start = number % len(actors)
    return (*actors[start:], *actors[:start])


def _one_of(variations: Sequence[Item], number: int) -> Item:
    return variations[number % len(variations)]


def _reason(errors: ExceptionGroup) -> Exception:
    """What ended the play. An agent that is gone explains the calls that failed with it."""
    gone, _ = errors.split(DemoEnded)
    first = _first(gone or errors)
    if isinstance(first, DemoEnded) or not isinstance(first, MoothallError | OSError):
        return first
    return DemoEnded(f"the play cannot go on: {first}")


def _first(error: Exception) -> Exception:
    return _first(error.exceptions[0]) if isinstance(error, ExceptionGroup) else error
