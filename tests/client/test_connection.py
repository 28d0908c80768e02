"""Coming in, and everything that can go wrong at the door."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from moothall import Agent, ConnectionFailed, PrivateKey, ReplyTimeout, UnexpectedReply, UnknownRefusal
from moothall.client.connection import was_too_fast
from moothall.errors import Banned, ConnectionLost, UsageError, VerificationFailed
from tests.client.conftest import OpenHall
from tests.gateways.test_tls import write_certificate, write_key

ALICE = PrivateKey(bytes(range(32)))


@asynccontextmanager
async def scripted(script: Callable[[ServerConnection], Coroutine[Any, Any, None]]) -> AsyncIterator[str]:
    """A server that does only this with whoever connects."""
    async with serve(script, "127.0.0.1", 0, compression=None) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def plain(answer: Answer) -> AsyncIterator[str]:
    """A port where something else lives."""
    lines: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.add(asyncio.current_task())  # type: ignore[arg-type]  # a coroutine runs in a task
        await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    await asyncio.wait(lines)


async def say(socket: ServerConnection, **frame: Any) -> None:
    await socket.send(json.dumps({"ts": 1, **frame}))


async def test_nobody_listens(unused_tcp_port: int) -> None:
    with pytest.raises(ConnectionFailed) as failed:
        await Agent().connect(f"ws://127.0.0.1:{unused_tcp_port}")
    assert f"127.0.0.1 port {unused_tcp_port}" in str(failed.value)
    assert "(connection refused)" in str(failed.value)
    assert f"moothall serve --port {unused_tcp_port}" in str(failed.value)


@pytest.mark.parametrize("address", ["ftp://127.0.0.1", "ws://", "ws://host:port", "ws://[::1", "two words"])
async def test_what_is_no_address_is_said_to_be_none(address: str) -> None:
    with pytest.raises(UsageError, match=r"ws://127.0.0.1:6667"):
        await Agent(url=address).connect()


@pytest.mark.parametrize("scheme", ["", "ws://", "http://"])
async def test_an_address_needs_no_scheme(url: str, scheme: str) -> None:
    async with Agent(url=url.replace("ws://", scheme)) as agent:
        assert agent.is_connected


async def test_half_of_a_login_is_not_shown() -> None:
    with pytest.raises(ConnectionFailed, match="needs a password") as failed:
        await Agent().connect("ws://secret@127.0.0.1:6667")
    assert "secret" not in str(failed.value)


async def test_a_web_server_is_no_hall() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    async with plain(answer) as url:
        with pytest.raises(ConnectionFailed, match="HTTP 404"):
            await Agent().connect(url)


async def test_a_server_that_speaks_something_else_is_no_hall() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await reader.read()

    async with plain(greet) as url:
        with pytest.raises(ConnectionFailed, match=r"is it a hall\?.*wss://"):
            await Agent().connect(url)


async def test_a_server_without_tls() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with plain(answer) as url:
        with pytest.raises(ConnectionFailed, match="does not speak TLS: try ws://"):
            await Agent().connect(url.replace("ws:", "wss:"))


async def test_a_certificate_that_nobody_knows(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_certificate(cert, write_key(key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)

    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with serve(silent, "127.0.0.1", 0, ssl=context) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        with pytest.raises(ConnectionFailed, match=r"not trusted \(self-signed certificate\).*SSL_CERT_FILE"):
            await Agent().connect(f"wss://127.0.0.1:{port}")


async def test_a_port_that_never_answers() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with plain(silent) as url:
        with pytest.raises(ConnectionFailed, match=r"did not answer.*is it a hall"):
            await Agent(timeout=0.05).connect(url)


async def test_a_websocket_that_never_welcomes() -> None:
    async def silent(socket: ServerConnection) -> None:
        await socket.wait_closed()

    async with scripted(silent) as url:
        with pytest.raises(ReplyTimeout, match="is it a hall"):
            await Agent(timeout=0.05).connect(url)


async def test_a_server_that_only_chats_is_not_waited_for_without_end() -> None:
    async def chatty(socket: ServerConnection) -> None:
        with suppress(ConnectionClosed):
            while True:
                await say(socket, type="MOTD_UPDATE", motd="soon")
                await asyncio.sleep(0)

    async with scripted(chatty) as url:
        with pytest.raises(ReplyTimeout, match="is it a hall"):
            async with asyncio.timeout(5):
                await Agent(timeout=0.1).connect(url)


async def test_a_hall_that_goes_silent_after_its_challenge_is_not_waited_for_longer() -> None:
    async def stuck(socket: ServerConnection) -> None:
        ref = json.loads(await socket.recv())["ref"]
        await say(socket, type="CHALLENGE", challenge_id="c", nonce="n", expires_at=1, ref=ref)
        await socket.wait_closed()

    async with scripted(stuck) as url:
        with pytest.raises(ReplyTimeout, match=r"within 0\.1 s"):
            async with asyncio.timeout(5):
                await Agent(timeout=0.1, identity=ALICE).connect(url)


async def test_a_person_has_time_for_a_captcha(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    clock = loop.time

    async def think(question: str) -> str:
        monkeypatch.setattr(loop, "time", lambda: clock() + 1.5)  # so long it takes
        return "blue"

    async def ask(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, type="CAPTCHA_CHALLENGE", captcha_id="c", question="what colour?", expires_at=1)
        assert json.loads(await socket.recv())["answer"] == "blue"
        await say(socket, type="WELCOME", agent_id="@x", name="agent", server="odd", disclaimer="")
        await socket.wait_closed()

    async with scripted(ask) as url, Agent(timeout=1, on_captcha=think).connected(url) as agent:
        assert agent.id == "x"


async def test_a_door_that_is_shut_in_the_face() -> None:
    async def shut(socket: ServerConnection) -> None:
        await socket.close(1008, "Too many connections from this IP")

    async with scripted(shut) as url:
        with pytest.raises(ConnectionFailed, match="Too many connections"):
            await Agent().connect(url)


async def test_words_before_the_welcome_do_not_confuse() -> None:
    async def chatty(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send("this is no JSON")
        await say(socket, type="MOTD_UPDATE", motd="early")
        await say(socket, type="NOVELTY")
        await say(socket, type="WELCOME", agent_id="@x", name="agent", server="odd", disclaimer="")
        await socket.wait_closed()

    async with scripted(chatty) as url, Agent().connected(url) as agent:
        assert (agent.id, agent.server) == ("x", "odd")


async def test_a_welcome_that_cannot_be_read() -> None:
    async def strange(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, type="WELCOME")
        await socket.wait_closed()

    async with scripted(strange) as url:
        with pytest.raises(UnexpectedReply):
            await Agent().connect(url)


async def test_a_challenge_for_a_key_that_was_not_shown() -> None:
    async def strange(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, type="CHALLENGE", challenge_id="c", nonce="n", expires_at=1)
        await socket.wait_closed()

    async with scripted(strange) as url:
        with pytest.raises(UnexpectedReply):
            await Agent().connect(url)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("VERIFICATION_FAILED", VerificationFailed),
        ("BANNED", Banned),
        ("SERVER_DECOMMISSIONED", UnknownRefusal),
    ],
)
async def test_refused_at_the_door(code: str, error: type[Exception]) -> None:
    async def refuse(socket: ServerConnection) -> None:
        await socket.recv()
        await say(socket, type="ERROR", code=code, message="no entry")
        await socket.close(1000)

    async with scripted(refuse) as url:
        with pytest.raises(error, match="no entry"):
            await Agent(identity=ALICE).connect(url)


@pytest.mark.parametrize("frame", [{}, {"code": 7, "message": []}])
async def test_a_refusal_in_a_form_of_its_own(frame: dict[str, object]) -> None:
    async def refuse(socket: ServerConnection) -> None:
        await socket.recv()
        await socket.send(json.dumps({"type": "ERROR", **frame}))
        await socket.wait_closed()

    async with scripted(refuse) as url:
        with pytest.raises(UnknownRefusal, match="no reason"):
            await Agent().connect(url)


async def test_an_address_with_a_password_is_not_shown() -> None:
    async def shut(socket: ServerConnection) -> None:
        await socket.close(1001)

    async with scripted(shut) as url:
        with pytest.raises(ConnectionFailed) as failed:
            await Agent().connect(url.replace("ws://", "ws://user:hunter2@"))
    assert "hunter2" not in str(failed.value)


async def test_a_connection_that_ends_fails_what_is_under_way() -> None:
    async def leave(socket: ServerConnection) -> None:
        await socket.recv()
        await say(
            socket, type="WELCOME", agent_id="@x", name="agent", server="odd", disclaimer="", ref="hello"
        )
        await socket.recv()
        await socket.close(1001, "lunch")

    async with scripted(leave) as url, Agent(reconnect=False).connected(url) as agent:
        with pytest.raises(ConnectionLost, match="1001 lunch") as lost:
            await agent.ping()
        assert (lost.value.code, lost.value.reason) == (1001, "lunch")
        with pytest.raises(ConnectionLost):
            await agent.wait_closed()


async def test_a_hall_that_closes_for_too_many_frames_is_recognised(open_hall: OpenHall) -> None:
    async with open_hall(no_limits=False, flood_closes=True) as app:
        agent = Agent(reconnect=False)
        await agent.connect(app.url)
        results = await asyncio.gather(*(agent.ping() for _ in range(100)), return_exceptions=True)
        losses = [result for result in results if isinstance(result, ConnectionLost)]
        assert losses
        assert all(was_too_fast(loss) for loss in losses)
        await agent.close()


async def test_a_hall_that_complains_is_asked_more_slowly(open_hall: OpenHall) -> None:
    async with open_hall(no_limits=False) as app, Agent().connected(app.url) as agent:
        results = await asyncio.gather(*(agent.ping() for _ in range(70)), return_exceptions=True)
        assert any(isinstance(result, Exception) for result in results)
        connection = await agent._connection()
        assert connection._pace is not None
