"""The API of a node as an ASGI application: its routes, errors as JSON, and which pages and names it answers."""

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from moothall.asgi import App, Receive, Scope, Send
from moothall.errors import NodeRefused
from moothall.node import Node
from moothall.node_api.answers import Limits, guard, refusal
from moothall.node_api.auth import Keys, Level
from moothall.node_api.hosted_routes import HostedRoutes
from moothall.node_api.metrics import MetricsRoute
from moothall.node_api.routes import Routes
from moothall.node_api.sockets import Sockets
from moothall.wire.origins import is_known_host, is_loopback

DEFAULT_ORIGINS: Final = ("http://127.0.0.1", "http://localhost")  # as the reference
METHODS: Final = ("GET", "POST", "PATCH", "DELETE")


def build(
    node: Node, sockets: Sockets, *, seed: bytes, keys: Keys, origins: Collection[str], limits: Limits
) -> App:
    """The API of a node that runs. `origins` are those whose pages may ask, next to the default ones."""
    allowed = (*DEFAULT_ORIGINS, *origins)
    metrics = Route("/metrics", guard(MetricsRoute(node, sockets), keys, Level.READ), methods=["GET"])
    app = Starlette(
        routes=[
            *Routes(node, seed, keys, limits).all(),
            *HostedRoutes(node, keys).all(),
            metrics,
            *sockets.all(),
        ],
        middleware=[
            Middleware(CORSMiddleware, allow_origins=allowed, allow_methods=METHODS, allow_headers=("*",))
        ],
        exception_handlers={NodeRefused: _refused, HTTPException: _no_route, Exception: _failed},
    )
    app.router.redirect_slashes = False  # as the reference: another path is not found
    hosts = {name for origin in origins if (name := urlsplit(origin).hostname)}
    return _known_hosts_only(app, hosts)


def _known_hosts_only(app: App, hosts: Collection[str]) -> App:
    """On loopback, answer only under loopback names and those of allowed origins.

    A page whose name was made to point here sends that name as Host (DNS rebinding).
    """

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_known(scope, hosts):
            text = "This Host is not known here. Use a loopback name, or allow its origin with --api-cors-origins"
            await refusal(421, text)(scope, receive, send)
            return
        await app(scope, receive, send)

    return handle


def _is_known(scope: Scope, hosts: Collection[str]) -> bool:
    arrived_at: str = scope["server"][0]
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), None)
    return not is_loopback(arrived_at) or is_known_host(host, {*hosts, arrived_at})


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, NodeRefused)  # noqa: S101  # what it is registered for
    return refusal(error.status, str(error))


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # what it is registered for
    answer = refusal(error.status_code, error.detail.lower())
    answer.headers.update(error.headers or {})
    return answer


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(500, "the node failed; its log says why")
