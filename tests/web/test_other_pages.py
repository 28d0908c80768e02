"""Pages of strangers in the same browser: they get nothing from the hall, and cannot show its page in a frame."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest
from playwright.async_api import Browser, Page

from tests.support.browser import REBOUND
from tests.support.server import HallProcess

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.slow]

# What a script gets at an address: "refused", or what it should not get.
_ATTACKS: Final = """async (host) => {
  const refused = () => "refused";
  const read = async (path, options) => {
    const answer = await fetch(`http://${host}${path}`, options);
    return answer.ok ? answer.text() : "refused";
  };
  const connect = (path) => new Promise((resolve) => {
    const socket = new WebSocket(`ws://${host}${path}`);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
  const admin = { headers: { "X-Admin-Key": "guess" } };
  return {
    page: await read("/").catch(refused),
    module: await import(`http://${host}/page/store.js`).then(() => "loaded", refused),
    api: await read("/api/v1/hall").catch(refused),
    admin: await read("/api/v1/bans", admin).catch(refused),
    metrics: await read("/metrics").catch(refused),
    watch: await connect("/watch"),
    line: await connect("/"),
    mesh: await connect("/mesh"),
  };
}"""


@asynccontextmanager
async def stranger(browser: Browser, body: str) -> AsyncIterator[Page]:
    """A page of another origin."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):  # browsers open connections that they may need
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n")
            writer.write(body.encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    context = await browser.new_context()
    try:
        page = await context.new_page()
        await page.goto(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        yield page
    finally:
        await context.close()
        server.close()
        await server.wait_closed()


async def test_a_page_of_another_origin_gets_nothing(browser: Browser, hall: HallProcess) -> None:
    async with stranger(browser, "<p>hello") as page:
        got = await page.evaluate(_ATTACKS, f"127.0.0.1:{hall.port}")
    assert set(got.values()) == {"refused"}, got


async def test_a_name_that_was_made_to_point_here_gets_nothing(browser: Browser, hall: HallProcess) -> None:
    context = await browser.new_context()
    try:
        page = await context.new_page()
        shown = await page.goto(f"http://{REBOUND}:{hall.port}/")
        assert shown is not None
        assert shown.status == 403
        got = await page.evaluate(_ATTACKS, f"{REBOUND}:{hall.port}")
    finally:
        await context.close()
    assert set(got.values()) == {"refused"}, got


@pytest.mark.parametrize("path", ["/", "/page/icon.svg", "/api/v1/hall"])
async def test_nothing_of_the_hall_is_shown_in_a_frame(
    browser: Browser, hall: HallProcess, path: str
) -> None:
    async with stranger(browser, f'<iframe src="http://127.0.0.1:{hall.port}{path}"></iframe>') as page:
        frame = page.frames[1]
        await frame.wait_for_load_state()
        assert frame.url.startswith("chrome-error:")
