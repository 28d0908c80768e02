"""Units of work that a coroutine waits for."""

import asyncio

import pytest

from moothall.errors import NodeRefused
from moothall.node.units import Done, Failed, awaited
from moothall.store.units import StoreFailed


async def test_the_result_and_the_failure() -> None:
    def succeed(done: Done[int], failed: Failed) -> None:
        done(7)
        failed(ValueError("too late"))
        done(8)

    def fail(done: Done[int], failed: Failed) -> None:
        failed(ValueError("no"))
        done(7)

    assert await awaited(succeed) == 7
    with pytest.raises(ValueError, match="no"):
        await awaited(fail)


@pytest.mark.parametrize("is_closed", [True, False])
async def test_a_store_that_failed(is_closed: bool) -> None:
    def start(done: Done[int], failed: Failed) -> None:
        if is_closed:
            raise StoreFailed("it is closed")
        failed(StoreFailed("the disk is full"))

    with pytest.raises(NodeRefused, match="Try again later") as refused:
        await awaited(start)
    assert refused.value.status == 503


async def test_what_was_started_goes_on_without_its_caller() -> None:
    callbacks: list[Done[int]] = []

    def start(done: Done[int], failed: Failed) -> None:
        callbacks.append(done)

    task = asyncio.create_task(awaited(start))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    callbacks[0](7)  # nothing is raised into the store
