"""A real browser for tests of the page: Debian's Chromium, headless. Tests are not run where there is none.

A page that breaks its content security policy, logs an error, throws one, or asks another host for anything fails
the test that opened it.
"""

import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    async_playwright,
    expect,
)

from tests.support.server import HallProcess

PATIENCE: Final = 30_000  # milliseconds for what takes some on a machine with nothing else to do

expect.set_options(timeout=PATIENCE)

# A name of a stranger that leads to this machine, for the browser of the tests
REBOUND: Final = "rebound.example"

# Violations of the policy are events of the document; they are collected in the page, before its own scripts run.
_COLLECT_VIOLATIONS: Final = """
globalThis.violations = [];
const note = ({ violatedDirective, blockedURI }) => violations.push(`${violatedDirective} ${blockedURI}`);
addEventListener("securitypolicyviolation", note);
"""
# What Chromium itself writes when the hall is away.
_NO_CONNECTION: Final = re.compile(r"WebSocket connection to|net::ERR_|Failed to load resource")


def chromium() -> str:
    """The path of the program. Skips the test if there is none."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("not run: chromium is not installed")
    return found


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    program = chromium()
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program,
            args=[
                *as_root,
                "--disable-gpu",
                "--disable-dev-shm-usage",
                f"--host-resolver-rules=MAP {REBOUND} 127.0.0.1",
            ],
        )
        try:
            yield browser
        finally:
            await browser.close()


def _over_state(expression: str) -> str:
    return f"async () => {{ const {{ state }} = await import('/page/store.js'); return {expression}; }}"


class Visitor:
    """A person with a browser of their own: storage, keys, and the page of one hall."""

    def __init__(self, context: BrowserContext, page: Page, hall: HallProcess) -> None:
        self.context = context
        self.page = page
        self._hall = hall
        self.complaints: list[str] = []
        self._forgiven: re.Pattern[str] | None = None
        self._own = re.compile(rf"(http|ws)://127\.0\.0\.1:{hall.port}/|blob:|data:")
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("request", lambda request: self._check_host(request.url))
        page.on("websocket", lambda socket: self._check_host(socket.url))

    async def go(self, place: str = "") -> None:
        """Open a view, such as `#/agents`."""
        await self.page.goto(f"http://127.0.0.1:{self._hall.port}/{place}")

    def forgive_lost_connections(self) -> None:
        """For tests in which the hall is away, or closed: the browser itself logs that."""
        self._forgiven = _NO_CONNECTION

    async def join(self, name: str) -> None:
        await self.page.get_by_label("Your name").fill(name)
        await self.page.get_by_role("button", name="Join", exact=True).click()
        await self.entry.wait_for()

    async def say(self, text: str) -> None:
        await self.entry.fill(text)
        await self.page.get_by_role("button", name="Send", exact=True).click()

    @property
    def entry(self) -> Locator:
        return self.page.get_by_role("textbox", name="Message", exact=True)

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log")

    def message(self, text: str) -> Locator:
        """The messages on the screen that have this text."""
        return self.log.get_by_role("article").filter(has=self.page.locator(".body", has_text=text))

    async def state(self, expression: str) -> Any:
        """What an expression over `state`, the state of the page, is worth."""
        return await self.page.evaluate(_over_state(expression))

    async def until(self, expression: str) -> None:
        """Wait until such an expression is true."""
        await self.page.wait_for_function(_over_state(expression))

    async def jump_to(self, room: str, text: str) -> None:
        """Bring a message to the screen, as the search does."""
        await self.page.evaluate(
            """async ([room, text]) => {
              const { state } = await import("/page/store.js");
              const { key } = state.rooms.get(room).messages.find(({ content }) => content.startsWith(text));
              state.jump = { room, key };
              dispatchEvent(new CustomEvent("jump"));
              await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
            }""",
            [room, text],
        )

    async def leave(self) -> None:
        """Raises AssertionError if the page did anything that it must not do."""
        violations = await self.page.evaluate("globalThis.violations ?? []")
        await self.context.close()
        assert violations == []
        forgiven = self._forgiven
        assert [each for each in self.complaints if forgiven is None or not forgiven.search(each)] == []

    def _check_host(self, url: str) -> None:
        if not self._own.match(url):
            self.complaints.append(f"asked {url}")

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


async def visit(browser: Browser, hall: HallProcess, **options: Any) -> Visitor:
    """`options` are those of a context of the browser: viewport, color_scheme and the like."""
    context = await browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    await context.add_init_script(_COLLECT_VIOLATIONS)
    return Visitor(context, await context.new_page(), hall)
