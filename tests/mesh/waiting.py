"""What tests of agents of the mesh wait for."""

import asyncio
from collections.abc import Callable

from moothall.mesh import Conversation
from tests.client.meeting import PATIENCE


def state(conversation: Conversation) -> str:
    """As text, so that a type checker does not believe that it stays the same."""
    return conversation.state


async def true_soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # nothing tells when it is
            await asyncio.sleep(0.001)
