"""The play ends with an error that says why when an agent, or the hall, is gone."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from moothall.demo.cast import Cast
from moothall.demo.pace import Pace
from moothall.demo.play import run
from moothall.demo.stage import Stage
from moothall.errors import DemoEnded
from moothall.known_halls import PATH_VARIABLE

pytestmark = pytest.mark.slow

Accident = Callable[[Stage, Cast], Awaitable[None]]


async def talker_leaves(stage: Stage, cast: Cast) -> None:
    await cast.talkers[1].agent.close()


async def trader_leaves(stage: Stage, cast: Cast) -> None:
    await cast.traders[0].mesh.close()


async def watcher_leaves(stage: Stage, cast: Cast) -> None:
    await cast.watcher.client.disconnect()


async def hall_closes(stage: Stage, cast: Cast) -> None:
    await stage.app.port.close("the machine is shut down")


@pytest.mark.parametrize(
    ("accident", "complaint"),
    [
        (talker_leaves, "^bruno has left the hall: it was closed"),
        (trader_leaves, "^dao has left the hall: it was closed"),
        (watcher_leaves, "^pulse lost its connection to the hall"),
        (hall_closes, " has left the hall: .*shut"),
    ],
)
async def test_an_agent_or_the_hall_is_gone(
    accident: Accident, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(tmp_path / "known.json"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    under_way: list[asyncio.Task[None]] = []

    def begun(stage: Stage, cast: Cast) -> None:
        async def happen() -> None:
            await accident(stage, cast)

        under_way.append(asyncio.create_task(happen()))

    with pytest.raises(DemoEnded, match=complaint):
        async with asyncio.timeout(60):
            await run(0, 0, Pace(0.02), lambda line: None, begun)
    await asyncio.gather(*under_way)
    assert os.listdir(tmp_path) == []  # noqa: PTH208  # it is empty or not, without a wait
