"""A person in front of the terminal client, key by key, and a real hall behind it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from io import StringIO
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from textual.pilot import Pilot

from moothall import Agent, Backoff, PrivateKey
from moothall.app import App as Hall
from moothall.settings import Settings
from moothall.tui.app import ChatApp
from moothall.tui.history import History
from moothall.tui.widgets import Entry, Plain

PATIENCE: Final = 15.0
ALICE = PrivateKey(bytes(range(32)))
# Long enough to say something meanwhile. If the machine is too slow for it, it is simply heard live.
SOON = Backoff(first=0.3, longest=0.3, jitter=0.0)


def drawn_screen(app: ChatApp) -> list[str]:
    """The rows of the terminal as they are now, overlays included."""
    width, height = app.size
    console = Console(width=width, height=height, file=StringIO(), color_system=None, legacy_windows=False)
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    with console.capture() as capture:
        console.print(update)
    return [row.rstrip() for row in capture.get().splitlines()]


class Silent:
    def info(self, event: str, **facts: object) -> None: ...

    def warning(self, event: str, **facts: object) -> None: ...


class Clock:
    """Stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Desk:
    """A person in front of a terminal, and the other end of the hall."""

    def __init__(self, url: str, app: ChatApp, pilot: Pilot[Any], bob: Agent, clock: Clock) -> None:
        self.url = url
        self.app = app
        self.pilot = pilot
        self.bob = bob
        self.clock = clock

    @property
    def history(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen_stack[0].query_one(History).lines]

    def shown(self, part: str) -> str:
        return str(self.app.screen_stack[0].query_one(f"#{part}", Plain).content)

    @property
    def rooms(self) -> list[str]:
        return [line.rstrip() for line in self.shown("rooms").splitlines()]

    @property
    def entry(self) -> Entry:
        return self.app.query_one(Entry)

    def sees(self, text: str) -> bool:
        return any(text in line for line in self.history)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await self.pilot.pause()

    async def type(self, text: str) -> None:
        """All at once, then Enter."""
        self.entry.insert(text)
        await self.pilot.press("enter")
        await self.pilot.pause()

    async def write(self, text: str) -> None:
        """Letter by letter."""
        names = {" ": "space", "/": "slash", "#": "number_sign", "@": "at"}
        await self.pilot.press(*(names.get(letter, letter) for letter in text))

    async def until_seen(self, text: str) -> None:
        await self.until(lambda: self.sees(text))


@asynccontextmanager
async def hall(folder: Path, **settings: Any) -> AsyncIterator[Hall]:
    options = {"port": 0, "keep_port": 0, "data_dir": folder, "no_limits": True, **settings}
    async with Hall(Settings(**options), Silent()) as opened:
        yield opened


@asynccontextmanager
async def desk(
    url: str,
    *channels: str,
    size: tuple[int, int] = (80, 24),
    bob_url: str | None = None,
    before: str | None = None,
    key: PrivateKey | None = None,
) -> AsyncIterator[Desk]:
    bob = Agent("bob", channels=["#general", "#agents"])
    ada = Agent("ada", identity=key, human=True, backoff=SOON)
    clock = Clock()
    app = ChatApp(ada, channels or ("#general",), clock)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bob.connected(bob_url or url))
        if before is not None:
            await bob.send("#general", before)
        await stack.enter_async_context(ada.connected(url))
        pilot = await stack.enter_async_context(app.run_test(size=size))
        here = Desk(url, app, pilot, bob, clock)
        await here.until(lambda: here.shown("members"))
        yield here
