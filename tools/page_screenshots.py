"""Takes the pictures of the page in docs/images: `make screenshots`.

`moothall demo` runs as a process of its own, a person joins in a headless Chromium, and each picture is taken once
the play has come to its scene. Times, ids and arbiters change with every run.
"""

import asyncio
import base64
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

from playwright.async_api import Browser, Page

from moothall.demo.script import QUARRELS, QUESTIONS
from tests.support.browser import running_browser

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
PROGRAM: Final = str(Path(sys.executable).with_name("moothall"))
PACE: Final = "0.6"
QUALITY: Final = 82  # of WebP: text stays sharp, and all pictures together have less than 400 KB
DESKTOP: Final = (1180, 740)
PHONE: Final = (390, 740)
SETTLED: Final = 1500  # milliseconds for a view to read what it shows
PATIENCE: Final = 300.0  # seconds for the play to come to a scene

NAMES: Final = ("page", "page-agents", "page-court", "page-deals", "page-mesh", "page-phone")

Scheme = Literal["light", "dark"]


class Play:
    """The running demo: its address, and what it has told so far."""

    def __init__(self, output: asyncio.StreamReader) -> None:
        self._output = output
        self.address = ""

    async def until(self, pattern: str) -> re.Match[str]:
        """The next line that has it."""
        async with asyncio.timeout(PATIENCE):
            while line := await self._output.readline():
                if found := re.search(pattern, line.decode()):
                    return found
        raise RuntimeError(f"the demo ended without {pattern!r}")


@asynccontextmanager
async def running_demo() -> AsyncIterator[Play]:
    process = await asyncio.create_subprocess_exec(
        *(PROGRAM, "demo", "--no-browser", "--port", "0", "--keep-port", "0", "--pace", PACE),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None  # noqa: S101  # it is a pipe
    try:
        play = Play(process.stdout)
        play.address = (await play.until(r"http://\S+"))[0]
        yield play
    finally:
        process.terminate()
        await process.wait()


async def main(folder: Path) -> None:
    async with running_browser() as browser, running_demo() as play:
        light = await visit(browser, play, "light", DESKTOP)
        dark = await visit(browser, play, "dark", DESKTOP)
        phone = await visit(browser, play, "light", PHONE)
        await join(light, "zoe")
        await go(dark, "#/mesh")
        await play.until("verdict in")
        await dark.get_by_role("link").filter(has_text="credits").first.click()
        await go(light, "#/agents")
        await take(light, folder, "page-agents")
        await go(light, "#/deals")
        await light.get_by_text(QUARRELS[0].task).first.click()
        await light.wait_for_timeout(SETTLED)
        await take(light, folder, "page-deals")
        await take(dark, folder, "page-mesh")
        await go(light, "#/court")
        await light.get_by_role("link").filter(has_text=QUARRELS[0].reason).first.click()
        await light.get_by_role("button", name="Verify", exact=True).click()
        await light.get_by_role("group", name="Board of cases").evaluate("(board) => board.scrollTo(9999, 0)")
        await light.wait_for_timeout(SETTLED)
        await take(light, folder, "page-court")
        await go(light, "#/channels/general")
        await play.until("completed the deal")
        await play.until("completed the deal")
        await ask(light, "Hello! Can I make a deal with one of you, too?")
        await light.get_by_text(QUESTIONS[1].asked).wait_for()
        await light.get_by_text("is responding").last.wait_for()
        await light.get_by_text("yielded").last.wait_for()
        await light.wait_for_timeout(SETTLED / 2)
        await take(light, folder, "page")
        await take(phone, folder, "page-phone")


async def visit(browser: Browser, play: Play, scheme: Scheme, size: tuple[int, int]) -> Page:
    width, height = size
    context = await browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": height}, reduced_motion="reduce"
    )
    page = await context.new_page()
    page.set_default_timeout(PATIENCE * 1000)
    await page.goto(play.address)
    await page.get_by_role("log").get_by_role("article").first.wait_for()
    return page


async def go(page: Page, place: str) -> None:
    await page.evaluate("(hash) => { location.hash = hash; }", place)
    await page.wait_for_timeout(SETTLED)


async def join(page: Page, name: str) -> None:
    await page.get_by_label("Your name").fill(name)
    await page.get_by_role("button", name="Join", exact=True).click()
    await page.get_by_role("button", name="No copy").click()
    await page.get_by_role("textbox", name="Message", exact=True).wait_for()


async def ask(page: Page, question: str) -> None:
    """Ask, and wait for the answer."""
    await page.get_by_role("textbox", name="Message", exact=True).fill(question)
    await page.get_by_role("button", name="Send", exact=True).click()
    await page.get_by_text("zoe: Deals, then Propose").wait_for()


async def take(page: Page, folder: Path, name: str) -> None:
    """A picture of what the browser shows, as WebP, for which Playwright has no call."""
    session = await page.context.new_cdp_session(page)
    picture = await session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
    (folder / f"{name}.webp").write_bytes(base64.b64decode(picture["data"]))
    await session.detach()


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    asyncio.run(main(IMAGES))
