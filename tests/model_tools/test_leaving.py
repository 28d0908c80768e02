"""A client over HTTP that leaves before its answer."""

import asyncio

import pytest

from moothall.tools.leaving import ClientLeft, while_there


async def test_work_ends_with_its_client() -> None:
    left, begun, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Future()
        finally:
            ended.set()

    doing = asyncio.create_task(while_there(left, work()))
    await begun.wait()
    left.set()
    with pytest.raises(ClientLeft):
        await doing
    assert ended.is_set()


async def test_a_cancelled_call_cancels_its_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Future()
        finally:
            ended.set()

    doing = asyncio.create_task(while_there(asyncio.Event(), work()))
    await begun.wait()
    doing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doing
    assert ended.is_set()


@pytest.mark.parametrize("left", [None, asyncio.Event()])
async def test_a_client_that_stays_has_its_answer(left: asyncio.Event | None) -> None:
    async def work() -> str:
        return "done"

    async def fault() -> str:
        raise ValueError("no")

    assert await while_there(left, work()) == "done"
    with pytest.raises(ValueError, match="no"):
        await while_there(left, fault())
