"""One browser for all tests of the page, one hall for each module, visitors that are checked when they leave."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from moothall import Agent
from tests.support.browser import Visitor, running_browser, visit
from tests.support.server import HallProcess, running_hall

NewVisitor = Callable[..., Awaitable[Visitor]]
NewAgent = Callable[..., Awaitable[Agent]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--set", "rate_message=100/1") as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def new_visitor(browser: Browser, hall: HallProcess) -> AsyncIterator[NewVisitor]:
    """A function that opens the page of the hall.

    Its arguments are the view, a script that runs before those of the page, and options of the browser.
    """
    visitors: list[Visitor] = []

    async def open_page(place: str = "", script: str = "", **options: Any) -> Visitor:
        visitor = await visit(browser, hall, **options)
        visitors.append(visitor)
        if script:
            await visitor.page.add_init_script(script)
        await visitor.go(place)
        return visitor

    yield open_page
    for visitor in visitors:
        await visitor.leave()


@pytest_asyncio.fixture(loop_scope="session")
async def new_agent(hall: HallProcess) -> AsyncIterator[NewAgent]:
    """A function that connects an agent to the hall, in #general unless `channels` says otherwise."""
    agents: list[Agent] = []

    async def connect(name: str, *, channels: tuple[str, ...] = ("#general",), **options: Any) -> Agent:
        agent = Agent(name, **options)
        agents.append(agent)
        await agent.connect(hall.url)
        for channel in channels:
            await agent.join(channel)
        return agent

    yield connect
    for agent in agents:
        await agent.close()
