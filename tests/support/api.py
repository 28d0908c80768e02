"""The HTTP API of a made-up world: requests in, answers out, without a socket."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from moothall.gateways.api.serving import PREFIX, Api
from moothall.hall.api_routes import Row
from moothall.hall.outside import Store
from moothall.wire.http import Request, Response
from moothall.wire.http_routes import Asked, RouteTable
from tests.support.world import Guest, PromptStore, World


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any  # from JSON; None if there is none

    @property
    def code(self) -> str:
        code: str = self.body["error"]["code"]
        return code

    @property
    def message(self) -> str:
        message: str = self.body["error"]["message"]
        return message


class ApiOf:
    def __init__(self, world: World, rows: Iterable[Row], store: Store[Any] | None = None) -> None:
        self.api = Api(world.hall, PromptStore(world.books) if store is None else store, rows)
        self.table = RouteTable(self.api.routes())

    def get(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        ip: str = "192.0.2.9",
        is_foreign_page: bool = False,
    ) -> Reply:
        """The answer, which must be there at once."""
        (reply,) = self.ask(path, headers, method=method, ip=ip, is_foreign_page=is_foreign_page)
        return reply

    def ask(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        method: str = "GET",
        ip: str = "192.0.2.9",
        is_foreign_page: bool = False,
    ) -> list[Reply]:
        """Where the answer will be."""
        target, _, query = (PREFIX + path).partition("?")
        found = self.table.find(target)
        assert found is not None, f"{target} does not lead to the API"
        replies: list[Reply] = []
        asked = Asked(
            Request(method, target, query, dict(headers or {})),
            ip,
            lambda response: replies.append(_reply(response)),
            found.parts,
            is_foreign_page,
        )
        response = found.route.answer(asked)
        if response is not None:
            replies.append(_reply(response))
        return replies


def _reply(response: Response) -> Reply:
    return Reply(
        response.status, dict(response.headers), json.loads(response.body) if response.body else None
    )


def bearer(world: World, guest: Guest) -> dict[str, str]:
    """The header of an agent with a proven key."""
    world.send(guest, "API_TOKEN", ref="token")
    token = next(message for message in guest.unread if message["type"] == "API_TOKEN")
    guest.read()
    return {"authorization": f"Bearer {token['token']}"}
