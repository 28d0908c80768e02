"""Takes the pictures of `moothall chat` in docs/images: `make screenshots`.

A hall is opened, agents talk in it, and the terminal client is driven key by key, as in the tests. Each picture is
the screen as a terminal would show it, written as SVG. The times and ids in them change with every run.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from textual.widgets import OptionList

from moothall import Agent, PrivateKey
from moothall.known_halls import PATH_VARIABLE
from moothall.tui.browser import Browser
from moothall.tui.overlays import Help
from moothall.tui.panel import Panel
from moothall.tui.signature import Signature
from tests.tui.desk import Desk, desk, hall

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
SIZE: Final = (100, 28)
NAMES: Final = ("chat", "chat-help", "chat-channels", "chat-deals", "chat-sign", "chat-narrow")

AGENTS: Final = ("reviewer", "builder", "translator")

# A picture must not fetch anything when it is looked at.
_FONT_FACE: Final = re.compile(r"@font-face\s*\{.*?\}\s*", re.DOTALL)


async def main(folder: Path) -> None:
    async with visit() as (here, agents):
        await talk(here, agents)
        take(here, folder, "chat")
        await here.pilot.press("f1")
        await here.until(lambda: isinstance(here.app.screen, Help))
        await here.pilot.pause()
        take(here, folder, "chat-help")
        await here.pilot.press("escape", "f2")
        await here.until(lambda: isinstance(here.app.screen, Browser) and _listed(here))
        await here.until(lambda: "builder" in here.app.export_screenshot())
        take(here, folder, "chat-channels")
        await here.pilot.press("escape")
        await deal(here, agents)
        await here.pilot.press("f3")
        await here.until(lambda: isinstance(here.app.screen, Panel) and _listed(here) == 2)
        await here.pilot.pause()
        take(here, folder, "chat-deals")
        await here.pilot.press("a")
        await here.until(lambda: isinstance(here.app.screen, Signature))
        await here.write("10")
        await here.pilot.pause()
        take(here, folder, "chat-sign")
        await here.pilot.press("escape", "escape")
        await here.pilot.resize_terminal(40, 20)
        await here.pilot.pause()
        take(here, folder, "chat-narrow")


@asynccontextmanager
async def visit() -> AsyncIterator[tuple[Desk, dict[str, Agent]]]:
    """Ada in front of the terminal, and three agents with keys of their own."""
    async with AsyncExitStack() as stack:
        data = Path(stack.enter_context(TemporaryDirectory()))
        os.environ[PATH_VARIABLE] = str(data / "known-halls.json")
        opened = await stack.enter_async_context(hall(data))
        agents = {name: Agent(name, identity=_key(name), channels=["#general"]) for name in AGENTS}
        for agent in agents.values():
            await stack.enter_async_context(agent.connected(opened.url))
        await agents["reviewer"].create_channel("#builds")
        for name in ("builder", "translator"):
            await agents[name].join("#builds")
        await agents["translator"].set_presence("busy", "in court")
        here = await stack.enter_async_context(
            desk(opened.url, "#general", "#builds", size=SIZE, key=_key("ada"))
        )
        await here.until(lambda: len(here.rooms) == 2)
        yield here, agents


async def talk(here: Desk, agents: dict[str, Agent]) -> None:
    await agents["builder"].send("#general", "main is green again: 7,270 tests in 4 minutes.")
    remarks = "I looked at 42. Two remarks:\n1. the index is off by one\n2. no test for an empty list"
    await agents["reviewer"].send("#general", remarks)
    await here.until_seen("empty list")
    await here.type("thanks @reviewer, I will fix both")
    await here.until_seen("fix both")
    await here.pilot.press("alt+2")
    await here.until(lambda: here.shown("title").startswith("#builds"))
    notes = "The release notes in 日本語 and Deutsch are done. ご確認ください。"
    await agents["translator"].send("#general", notes)
    question = await agents["reviewer"].send("#general", "@ada, shall I merge when the tests pass?")
    await here.until(lambda: any(row.startswith("!1") for row in here.rooms))
    await here.pilot.press("alt+1")
    await here.until_seen("shall I merge")
    await agents["builder"].send("#builds", "build 1,024 started")
    await here.until(lambda: any(row.startswith("•2") for row in here.rooms))
    if question is not None:
        await agents["builder"].claim(question, "#general")
    await here.until(lambda: "builder is answering" in here.shown("activity"))
    await here.write("yes, please")


async def deal(here: Desk, agents: dict[str, Agent]) -> None:
    me = here.app.agent.address
    done = await agents["builder"].propose(me, "Pay for the build machine", amount=12, currency="EUR")
    await here.app.agent.accept(done.id)
    await agents["reviewer"].propose(
        me, "Review pull request 43", amount=5, currency="EUR", stake=25, capability="review"
    )
    await here.until(lambda: "1 waiting for you" in here.shown("status"))


def take(here: Desk, folder: Path, name: str) -> None:
    picture = here.app.export_screenshot(title="moothall chat", simplify=True)
    (folder / f"{name}.svg").write_text(_FONT_FACE.sub("", picture), encoding="utf-8")


def _key(name: str) -> PrivateKey:
    return PrivateKey(name.encode().ljust(32, b"."))


def _listed(here: Desk) -> int:
    return here.app.screen.query_one(OptionList).option_count


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    asyncio.run(main(IMAGES))
