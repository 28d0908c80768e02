"""The page in a real browser: how smooth a busy channel is, and how soon a visitor sees something.

    python -m benchmarks.page [--messages N] [--rate N] [--seconds N]

A channel gets 10,000 messages, and then 200 a second. Meanwhile the page notes the time of each frame of the
screen, at the end of the list and while the reader scrolls. The exit code is 0 whatever the numbers are: a
machine with company cannot fail a build. A missed bound is printed as MUST MISSED.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Final

from playwright.async_api import Browser, Page

from moothall import Agent
from tests.support.browser import running_browser
from tests.support.server import HallProcess, running_hall

LONGEST_FRAME: Final = 32.0  # milliseconds
SHARE: Final = 0.95  # of frames that have to be shorter
FIRST_PAINT: Final = 200.0  # milliseconds
VISITS: Final = 5
PATIENCE: Final = 120_000  # milliseconds

NOTE_FRAMES: Final = """
() => {
  globalThis.frames = [];
  let last = performance.now();
  const note = (now) => {
    frames.push(now - last);
    last = now;
    requestAnimationFrame(note);
  };
  requestAnimationFrame(note);
}
"""
SCROLL: Final = """
() => {
  const log = document.querySelector('[role="log"]');
  let direction = -1;
  globalThis.scrolling = setInterval(() => {
    log.scrollTop += direction * 400;
    if (log.scrollTop < 1000 || log.scrollTop + log.clientHeight > log.scrollHeight - 1000) direction = -direction;
  }, 50);
  log.scrollTop = log.scrollHeight / 2;
}
"""
COUNT: Final = """
async (wanted) => {
  const { state } = await import("/page/store.js");
  return (state.rooms.get("#general")?.messages.length ?? 0) >= wanted;
}
"""
WORDS: Final = (
    "the quick **brown** fox jumps over `the lazy dog`, and https://example.org/page is where it went"
)


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument(
        "--messages", type=int, default=10_000, help="in the channel before it is measured (10,000)"
    )
    parser.add_argument("--rate", type=int, default=200, help="messages a second (200)")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of each measured window (10)")
    options = parser.parse_args()
    load = f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} processors"
    with tempfile.TemporaryDirectory() as folder, running_hall(Path(folder), "--no-limits") as hall:
        async with running_browser() as browser:
            painted = await first_paint(browser, hall)
            print(f"first paint: {painted:.0f} ms{bound(painted <= FIRST_PAINT)} ({load})", flush=True)
            await smoothness(browser, hall, options.messages, options.rate, options.seconds)


async def first_paint(browser: Browser, hall: HallProcess) -> float:
    """The median over some visits with an empty cache, in milliseconds."""
    found: list[float] = []
    for _ in range(VISITS):
        page = await browser.new_page()
        await page.goto(f"http://127.0.0.1:{hall.port}/")
        await page.get_by_role("button", name="Join").wait_for()
        found.append(
            await page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        )
        await page.close()
    return median(found)


async def smoothness(browser: Browser, hall: HallProcess, messages: int, rate: int, seconds: float) -> None:
    page = await browser.new_page(viewport={"width": 1400, "height": 900})
    await page.goto(f"http://127.0.0.1:{hall.port}/#/channels/general")
    await page.get_by_text("You are watching").wait_for()
    async with speaker(hall) as agent:
        for number in range(messages):
            await agent.send("#general", f"{number} {WORDS}")
        await page.wait_for_function(COUNT, arg=messages, timeout=PATIENCE)
        await page.evaluate(NOTE_FRAMES)
        talking = asyncio.create_task(talk(agent, rate))
        try:
            report("at the end of the list", await frames(page, seconds))
            await page.evaluate(SCROLL)
            report("while the reader scrolls", await frames(page, seconds))
        finally:
            talking.cancel()
    await page.close()


@asynccontextmanager
async def speaker(hall: HallProcess) -> AsyncIterator[Agent]:
    async with Agent("speaker").connected(hall.url) as agent:
        await agent.join("#general")
        yield agent


async def talk(agent: Agent, rate: int) -> None:
    clock = asyncio.get_running_loop().time
    began, number = clock(), 0
    while True:
        await agent.send("#general", f"live {number} {WORDS}")
        number += 1
        await asyncio.sleep(max(0.0, began + number / rate - clock()))


async def frames(page: Page, seconds: float) -> list[float]:
    """How long each frame of the screen took, in milliseconds, over some seconds."""
    await page.evaluate("frames.length = 0")
    await asyncio.sleep(seconds)
    found: list[float] = await page.evaluate("frames.slice()")
    return sorted(found)


def report(what: str, took: list[float]) -> None:
    share = sum(frame < LONGEST_FRAME for frame in took) / len(took)
    print(
        f"{what}: {len(took)} frames, {100 * share:.1f} % under {LONGEST_FRAME:g} ms{bound(share >= SHARE)};"
        f" median {median(took):.1f} ms, longest {took[-1]:.0f} ms",
        flush=True,
    )


def bound(is_kept: bool) -> str:
    return "" if is_kept else " MUST MISSED"


if __name__ == "__main__":
    asyncio.run(main())
