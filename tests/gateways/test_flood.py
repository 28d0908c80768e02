"""Floods over a real socket: every frame counts, the hall stops reading, and nothing unread is lost."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from moothall.app import App
from moothall.gateways.port import LONG_AT_ONCE
from moothall.settings import Settings
from moothall.settings.limits import Rate
from moothall.wire.websocket import BINARY, CONTINUATION, PING, POLICY_VIOLATION, PONG, TEXT
from tests.support.sockets import Peer, chopped, frame, head, on_uvloop, text, turn

LIMIT: Final = Rate(20, 0.5)
REFUSALS: Final = 20  # as many as the limit allows frames

FLOODS: Final = {
    "pings": frame(PING, b"x"),
    "unasked pongs": frame(PONG),
    "empty fragments": frame(CONTINUATION, b"", final=False),
    "junk": text("x"),
    "binary junk": frame(BINARY, b"\xff"),
    "unknown types": text('{"type":"NONSENSE"}'),
}


@asynccontextmanager
async def hall(folder: Path, **changed: Any) -> AsyncIterator[App]:
    limits = {"rate_post_auth": LIMIT, "ping_interval": 0.0, **changed}
    settings = Settings(port=0, keep=False, data_dir=folder / "data", **limits)
    async with App(settings, structlog.get_logger()) as app:
        yield app


async def identified(app: App) -> Peer:
    peer = await Peer.upgraded(app.port)
    await peer.say(text('{"type":"IDENTIFY","name":"flooder"}'))
    assert (await answer(peer))["type"] == "WELCOME"
    return peer


async def answer(peer: Peer) -> dict[str, Any]:
    """The next text frame; pongs are passed over."""
    while True:
        received = await peer.read_frame()
        assert received is not None
        if received.opcode == TEXT:
            message: dict[str, Any] = json.loads(received.payload)
            return message


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS.keys())
@on_uvloop
async def test_a_flood_stops_the_reading_and_what_follows_it_is_answered(
    tmp_path: Path, flood: bytes
) -> None:
    async with hall(tmp_path) as app, await identified(app) as peer:
        if flood == FLOODS["empty fragments"]:
            await peer.say(frame(BINARY, b"", final=False))
        await peer.say(flood * 60)
        if flood == FLOODS["empty fragments"]:
            await peer.say(frame(CONTINUATION, b""))
        await peer.say(text('{"type":"PING","ref":"the end"}'))
        while (await answer(peer)).get("ref") != "the end":
            pass
        assert app.hall.tally.throttled >= 1


@on_uvloop
async def test_every_message_of_a_flood_is_answered_in_order(tmp_path: Path) -> None:
    async with hall(tmp_path) as app, await identified(app) as peer:
        sent = [f'{{"type":"PING","ref":"{number}"}}' for number in range(100)]
        await peer.say(b"".join(map(text, sent)))
        answers = [await answer(peer) for _ in sent]
        assert [each["ref"] for each in answers] == [str(number) for number in range(100)]
        kinds = [each.get("code", each["type"]) for each in answers]
        assert kinds[: LIMIT.limit + REFUSALS] == ["PONG"] * LIMIT.limit + ["RATE_LIMITED"] * REFUSALS
        assert kinds[LIMIT.limit + REFUSALS] == "PONG"


@on_uvloop
async def test_half_a_frame_stops_the_reading_and_the_whole_is_answered(tmp_path: Path) -> None:
    """The bytes are charged as they arrive: many connections with one large frame each are read in turns."""
    limits = {"loopback_factor": 1, "address_bytes": Rate(60_000, 0.2)}
    async with hall(tmp_path, **limits) as app, await identified(app) as peer:
        whole = text('{"type":"PING","ref":"the end","x":"' + "x" * 200_000 + '"}')
        await peer.say(whole[:100_000])
        while not app.hall.tally.throttled:
            await turn()
        await peer.say(whole[100_000:])
        assert (await answer(peer))["ref"] == "the end"


@on_uvloop
async def test_a_request_a_byte_at_a_time_is_charged_to_its_address(tmp_path: Path) -> None:
    limits = {"loopback_factor": 1, "address_frames": Rate(20, 60)}
    async with hall(tmp_path, **limits) as app, await Peer.connect(app.port) as peer:
        for byte in chopped(b"GET / HTTP/1.1\r\nHost: " + b"x" * 500, 1):
            await peer.say(byte)
            await turn()
            if app.hall.tally.security["address_over_budget"]:
                break
        assert "429" in await peer.read_head()


@on_uvloop
async def test_a_paused_connection_is_not_dropped_for_its_silence(tmp_path: Path) -> None:
    limits = {"rate_post_auth": Rate(20, 2), "ping_interval": 0.05, "ping_timeout": 0.05}
    async with hall(tmp_path, **limits) as app, await identified(app) as peer:
        await peer.say(text('{"type":"PING"}') * 40, text('{"type":"PING","ref":"the end"}'))
        while (await answer(peer)).get("ref") != "the end":
            pass
        assert app.hall.tally.throttled == 1


@on_uvloop
async def test_a_stranger_that_floods_is_closed_and_its_other_frames_are_not_parsed(tmp_path: Path) -> None:
    async with hall(tmp_path) as app, await Peer.upgraded(app.port) as peer:
        await peer.say(frame(PING) * 20_000)
        frames = await peer.read_frames_until_close()
        assert frames[-1].close_code == 1008
        assert len(frames) == 11
        assert app.hall.tally.throttled == 0


@on_uvloop
async def test_a_held_session_that_is_closed_can_still_say_goodbye(tmp_path: Path) -> None:
    async with hall(tmp_path, rate_post_auth=Rate(60, 10)) as app, await identified(app) as peer:
        await peer.say(text('{"type":"PING"}') * 200)
        for _ in range(120):
            await answer(peer)
        (session,) = app.hall.sessions
        assert session.held is not None
        app.hall.close(session, 1000, "Go")
        frames = await peer.read_frames_until_close()
        assert frames[-1].close_code == 1000


@on_uvloop
async def test_a_hall_that_closes_does_not_handle_what_it_left_unread(tmp_path: Path) -> None:
    async with hall(tmp_path, rate_post_auth=Rate(60, 10)) as app:
        peer = await identified(app)
        await peer.say(text('{"type":"PING"}') * 200)
        for _ in range(120):
            await answer(peer)
    async with peer:
        frames = await peer.read_frames_until_close()
    assert [each.close_code for each in frames] == [1001]


async def get(app: App, *headers: str) -> bytes:
    """The status of an answer from /health; empty if there is none."""
    _, port = app.port.address
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    lines = ("GET /health HTTP/1.1", "Host: 127.0.0.1", *headers, "", "")
    try:
        writer.write("\r\n".join(lines).encode())
        return (await reader.read())[9:12]
    except ConnectionError:
        return b""
    finally:
        writer.close()


@on_uvloop
async def test_an_address_that_opens_connections_too_fast_is_not_even_read(tmp_path: Path) -> None:
    async with hall(tmp_path, address_frames=Rate(105, 600), loopback_factor=1) as app:
        assert [await get(app) for _ in range(3)] == [b"200", b"", b""]


@on_uvloop
async def test_behind_a_trusted_proxy_each_client_pays_for_itself(tmp_path: Path) -> None:
    budget = {"address_frames": Rate(203, 600), "trusted_proxies": ("127.0.0.1",)}
    async with hall(tmp_path, **budget) as app:
        one, other = "X-Forwarded-For: 203.0.113.7", "X-Forwarded-For: 203.0.113.8"
        assert [await get(app, one) for _ in range(3)] == [b"200", b"200", b"429"]
        assert await get(app, other) == b"200"
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
        key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
        assert await get(app, one, *upgrade, key) == b"429"


@on_uvloop
async def test_long_messages_that_wait_for_their_budget_count_for_their_address(tmp_path: Path) -> None:
    """Each of hundreds of connections could leave one of many megabytes in the hall's memory."""
    size = 600_000
    limits = {
        "address_told": Rate(2, 600),
        "max_content": size,
        "max_frame": 6 * size + 100_000,
        "outbox_limit": 16 * size,
        "trusted_proxies": ("127.0.0.1",),
    }
    async with hall(tmp_path, **limits) as app:
        held = LONG_AT_ONCE * app.settings.max_frame // size
        peers = [await visitor(app, "203.0.113.7") for _ in range(held + 3)]
        neighbour = await visitor(app, "203.0.113.8")
        sent = text(json.dumps({"type": "MSG", "to": "@nobody", "content": "x" * size}))
        await peers[0].say(sent)
        assert (await answer(peers[0]))["code"] == "AGENT_NOT_FOUND"
        for peer in peers[1:]:
            await peer.say(sent)
        # Which of them are closed depends on whose bytes arrive last.
        endings = [asyncio.ensure_future(peer.read_frames_until_close()) for peer in peers[1:]]
        done, waiting = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
        for ending in waiting:
            ending.cancel()
        assert len(done) < len(peers) - held + 1
        for ending in done:
            (*_, end) = ending.result()
            assert end.close_code == POLICY_VIOLATION
            assert end.payload[2:].startswith(b"Too many long messages")
        await neighbour.say(sent)
        assert (await answer(neighbour))["code"] == "AGENT_NOT_FOUND"
        for peer in (*peers, neighbour):
            peer.close()


async def visitor(app: App, ip: str) -> Peer:
    """An agent of this address."""
    peer = await Peer.connect(app.port)
    await peer.say(head({"X-Forwarded-For": ip}))
    assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
    await peer.say(text('{"type":"IDENTIFY","name":"visitor"}'))
    assert (await answer(peer))["type"] == "WELCOME"
    return peer
