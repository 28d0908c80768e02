"""How often and how long."""

import asyncio
from collections.abc import Callable

import pytest
from starlette.requests import Request
from starlette.responses import Response

from moothall.errors import NodeRefused
from moothall.node_api import answers
from moothall.node_api.answers import Limits, body_of, guard
from moothall.node_api.auth import Keys, Level
from moothall.node_api.bodies import SharedBody
from tests.support.node_process import NodeProcess

KEYS = Keys("a-master-secret")


def request(*, receive: Callable[[], object] | None = None) -> Request:
    headers = [(b"authorization", b"Bearer a-master-secret"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    return Request(scope, receive)  # type: ignore[arg-type]


@pytest.mark.parametrize(("kind", "limit"), [("send", 120), ("sign", 60)])
def test_so_many_in_a_minute(kind: str, limit: int) -> None:
    now = 1000.0
    limits = Limits(lambda: now)
    admit: Callable[[], None] = getattr(limits, kind)
    for _ in range(limit):
        admit()
    with pytest.raises(NodeRefused) as refused:
        admit()
    assert refused.value.status == 429
    assert str(refused.value) == f"rate limit exceeded: this takes {limit} requests in 60 s; try again later"
    now += 60
    admit()


def test_all_routes_that_send_share_a_limit(alice: NodeProcess) -> None:
    statuses = []
    for number in range(123):
        path = ("/envelopes/send", "/negotiate/propose", "/topics/x/broadcast")[number % 3]
        answer = alice.ask("POST", path, {})
        statuses.append(answer.status_code)
    assert statuses == [422] * 120 + [429] * 3
    assert answer.json()["error"].startswith("rate limit exceeded: ")
    assert alice.ask("POST", "/envelopes/send", {}, key="wrong-key").status_code == 401
    assert alice.ask("POST", "/identity/sign", {"bytes_hex": "00"}).status_code == 200


def test_requests_without_the_key_are_not_counted() -> None:
    counted: list[bool] = []
    handler = guard(_never, Keys("another-secret"), Level.MASTER, lambda: counted.append(True))
    with pytest.raises(NodeRefused, match="unauthorized"):
        asyncio.run(handler(request()))  # type: ignore[arg-type]
    assert counted == []


async def test_a_handler_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "HANDLING_TIME", 0.01)
    with pytest.raises(NodeRefused) as refused:
        await guard(_never, KEYS, Level.MASTER)(request())
    assert refused.value.status == 503


async def test_a_body_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moothall.asgi.REQUEST_TIME", 0.01)

    async def receive() -> object:
        return await asyncio.Future()

    with pytest.raises(NodeRefused) as refused:
        await body_of(request(receive=receive), SharedBody)
    assert refused.value.status == 408


async def _never(_: Request) -> Response:
    return await asyncio.Future()
