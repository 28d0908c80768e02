"""`moothall mcp --http` with the official client, and with clients that mean no good."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from moothall import Agent, asgi
from moothall.tools import http
from moothall.tools.admission import Admission
from tests.support.mcp_host import http_host, http_server, running_host
from tests.support.server import PATIENCE, HallProcess, run_moothall, running_hall

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
ACCEPT = {"accept": "application/json, text/event-stream"}


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--no-limits") as running:
        yield running


@pytest.fixture(scope="module")
def address(hall: HallProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with http_server(tmp_path_factory.mktemp("mcp"), hall.url) as running:
        yield running


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_model_meets_another(mode: str, hall: HallProcess, address: str, tmp_path: Path) -> None:
    async with http_host(address, mode=mode) as alice, running_host(tmp_path, hall.url) as bob:
        me = await alice.call("agentchat_connect")
        await bob.call("agentchat_connect")
        tools = [tool.name for tool in (await alice.client.list_tools()).tools]
        assert "agentchat_listen" in tools
        await bob.call("agentchat_send", target="#general", message=f"hello over {mode}")
        heard = await alice.hear(lambda message: message["content"] == f"hello over {mode}")
        assert heard["source"] == "stranger"
        await alice.call("agentchat_send", target="#general", message=f"hello to you, {mode}")
        answer = await bob.hear(lambda message: message["content"] == f"hello to you, {mode}")
        assert answer["from"] == me["agent_id"]


async def test_all_clients_are_one_agent(address: str) -> None:
    async with http_host(address) as one, http_host(address, mode="legacy") as other:
        mine = await one.call("agentchat_connect")
        yours = await other.call("agentchat_connect")
        assert mine["agent_id"] == yours["agent_id"]


async def asked(address: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient() as client:
        return await client.post(address, json=INITIALIZE, headers={**ACCEPT, **headers})


async def test_pages_of_others_are_refused(address: str) -> None:
    assert (await asked(address)).status_code == 200
    own = f"http://{urlsplit(address).netloc}"
    assert (await asked(address, origin=own)).status_code == 200
    assert (await asked(address, origin="http://evil.example")).status_code == 403
    assert (await asked(address, host="evil.example")).status_code == 421
    assert "access-control-allow-origin" not in (await asked(address, origin=own)).headers


async def test_what_is_not_mcp(address: str) -> None:
    async with httpx2.AsyncClient() as client:
        assert (await client.get(address.removesuffix("/mcp") + "/other")).status_code == 404
        assert (await client.post(address, content=b"{", headers=ACCEPT)).status_code == 400
        too_long = await client.post(address, content=b" " * (http.MAX_BODY + 1), headers=ACCEPT)
        assert too_long.status_code == 413


async def test_sessions_are_bounded(hall: HallProcess, tmp_path: Path) -> None:
    with http_server(tmp_path, hall.url) as address:
        async with httpx2.AsyncClient() as client:
            for _ in range(http.MAX_SESSIONS):
                opened = await client.post(address, json=INITIALIZE, headers=ACCEPT)
                assert opened.status_code == 200
            refused = await client.post(address, json=INITIALIZE, headers=ACCEPT)
            assert refused.status_code == 503
            ended = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
            assert (await client.delete(address, headers=ended)).status_code == 200
            assert (await client.post(address, json=INITIALIZE, headers=ACCEPT)).status_code == 200


async def test_the_token_is_asked_for(hall: HallProcess, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN}\n")
    secret.chmod(0o600)
    with http_server(tmp_path / "mcp", hall.url, "--token-file", str(secret), place="0.0.0.0:0") as wide:
        address = f"http://127.0.0.1:{urlsplit(wide).port}/mcp"
        refused = await asked(address)
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert (await asked(address, authorization="Bearer wrong-wrong-wrong")).status_code == 401
        async with http_host(address, token=TOKEN) as host:
            await host.call("agentchat_connect")
    log = (tmp_path / "mcp" / "stderr.txt").read_text()
    assert "without TLS" in log
    assert TOKEN not in log


def test_what_the_command_refuses(tmp_path: Path) -> None:
    open_to_all = tmp_path / "token"
    open_to_all.write_text(TOKEN)
    open_to_all.chmod(0o644)

    def refusal(*flags: str, **variables: str) -> str:
        result = run_moothall(tmp_path, "mcp", *flags, environ=variables)
        assert result.returncode == 2
        assert result.stderr.count("\n") == 1
        return result.stderr

    assert "a token is needed" in refusal("--http", "0.0.0.0:0")
    assert "chmod 600" in refusal("--http", "127.0.0.1:0", "--token-file", str(open_to_all))
    assert "at least 16" in refusal("--http", "127.0.0.1:0", MOOTHALL_MCP_TOKEN="short")
    assert "127.0.0.1:8765" in refusal("--http", "8765")
    assert "--http" in refusal("--allow-host", "x")


def test_a_place_that_is_taken(hall: HallProcess, tmp_path: Path) -> None:
    result = run_moothall(tmp_path, "mcp", "--http", f"127.0.0.1:{hall.port}")
    assert result.returncode == 2
    assert "cannot listen on" in result.stderr


# -- clients that take their time ------------------------------------------------------------------------


async def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "REQUEST_TIME", 0.01)
    answers: list[dict[str, object]] = []

    async def app(scope: asgi.Scope, receive: asgi.Receive, send: asgi.Send) -> None:
        raise AssertionError("the request is not complete")

    async def receive() -> asgi.Message:
        return await asyncio.Future()

    async def send(message: asgi.Message) -> None:
        answers.append(dict(message))

    scope = {"type": "http", "method": "POST", "headers": [], "server": ("127.0.0.1", 1)}
    await http.guarded(app, Admission())(scope, receive, send)
    assert answers[0]["status"] == 408


async def test_a_call_ends_with_its_client_and_nothing_is_lost(hall: HallProcess, address: str) -> None:
    """A laptop goes to sleep while its model listens. What comes then is there when it is back."""
    bob = Agent("bob", channels=["#general"])
    presences: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    @bob.on_event
    async def note(frame: Mapping[str, Any]) -> None:
        if frame.get("type") == "PRESENCE_CHANGED":
            presences.put_nowait((frame["agent_id"], frame["presence"]))

    async with http_host(address) as host, bob.connected(hall.url):
        me = (await host.call("agentchat_connect"))["agent_id"]
        while (await host.call("agentchat_listen", timeout=0))["messages"]:
            pass
        async with httpx2.AsyncClient() as client:
            opened = await client.post(address, json=INITIALIZE, headers=ACCEPT)
            session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await client.post(address, json=ready, headers=session)).status_code == 202
            listen = {"name": "agentchat_listen", "arguments": {"timeout": 60}, "_meta": {"progressToken": 1}}
            call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": listen}
            async with client.stream("POST", address, json=call, headers=session) as answer:
                async for line in answer.aiter_lines():
                    if "waiting for messages" in line:
                        break  # and leave
        async with asyncio.timeout(PATIENCE):
            while await presences.get() != (me, "listening"):
                pass
            while await presences.get() != (me, "online"):
                pass
        await bob.send("#general", "did you sleep well?")
        heard = await host.hear(lambda message: message["content"] == "did you sleep well?")
        assert heard["from"] == bob.address
