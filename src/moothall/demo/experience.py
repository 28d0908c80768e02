"""How the agents become arbiters: by deals, as all agents do (a rating of 1200 and ten transactions)."""

import asyncio
from contextlib import AsyncExitStack
from itertools import cycle
from typing import Final

from moothall.client import Agent
from moothall.demo.cast import Cast
from moothall.demo.script import APPRENTICESHIP

ROUNDS: Final = 5  # in each, every agent offers one deal and is offered one


async def gain_experience(cast: Cast) -> None:
    """Each agent that may judge completes ten deals.

    The agents are not connected yet. They meet on the agentchat wire for it.
    """
    async with AsyncExitStack() as stack:
        agents = [
            await stack.enter_async_context(Agent(name, identity=key).connected(cast.url))
            for name, key in cast.judges
        ]
        others = [*agents[1:], agents[0]]
        tasks = cycle(APPRENTICESHIP)
        for _ in range(ROUNDS):
            await asyncio.gather(*map(_deal, agents, others, tasks))


async def _deal(one: Agent, other: Agent, task: str) -> None:
    deal = await one.propose(other.address, task)
    await other.accept(deal.id)
    await one.complete(deal.id)
