"""Units of work of the store, as something to wait for."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from moothall.errors import NodeRefused
from moothall.hall.outside import Store
from moothall.node.desk import Books
from moothall.store.units import StoreFailed

Result = TypeVar("Result")


async def done(store: Store[Books], work: Callable[[Books], Result]) -> Result:
    """What the unit returns, after its commit. Raises what it raises; NodeRefused (503) if the store failed."""
    future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

    def finished(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def failed(error: BaseException) -> None:
        if not future.done():
            future.set_exception(error)

    try:
        store.submit(work, finished, failed)
        return await future
    except StoreFailed as error:
        raise NodeRefused(503, f"The node could not save this: {error}. Try again later.") from None
