"""Plain requests, and what their heads say of the caller: address, origin, the name by which it knows the hall."""

from functools import partial
from typing import TYPE_CHECKING

from moothall.wire.http import BadRequest, Request, Response
from moothall.wire.http_routes import Asked
from moothall.wire.origins import is_known_host, is_loopback, may_connect

if TYPE_CHECKING:
    from moothall.gateways.connection import Connection
    from moothall.gateways.port import Port
    from moothall.gateways.transport import Transport


class TooManyRequests(BadRequest):
    def __init__(self) -> None:
        super().__init__(429, "Too many requests from this address; wait a moment")


def answer(port: "Port", connection: "Connection", request: Request, *, may_stay: bool) -> None:
    """Answer now, or let the route answer later. `may_stay`: another request may follow on this connection."""
    transport, came_from = connection.transport, connection.ip
    head_only = request.method == "HEAD"
    peer = peer_of(port, came_from, request)
    asked = Asked(
        request,
        peer,
        partial(connection.respond, head_only=head_only),
        is_foreign_page=is_foreign_page(port, transport, request),
    )
    connection.ip = peer  # which has to read what it asked for
    try:
        response = port.serve(asked, knows_host=knows_host(port, transport, came_from, request))
    except Exception:  # noqa: BLE001  # a bug of ours: the caller is told, the others go on
        port.bug("a request could not be answered")
        response = Response(500, b"Internal error\n")
    if response is None:
        port.answering(connection)
        return
    connection.respond(response, head_only=head_only, may_stay=may_stay)
    if may_stay and response.keep_alive:
        connection.ip = came_from  # a proxy brings others too


def peer_of(port: "Port", ip: str, request: Request) -> str:
    """The address of the caller, also if `ip` is that of a trusted proxy."""
    forwarded = request.headers.get("x-forwarded-for")
    return ip if forwarded is None else port.peer_behind(ip, forwarded)


def is_foreign_page(port: "Port", transport: "Transport", request: Request) -> bool:
    """True for a page of another origin, unless the operator lists it."""
    origin = request.headers.get("origin")
    if origin is None:
        return False  # a program
    return not may_connect(
        origin,
        request.headers.get("host", ""),
        secure=port.secure,
        on_loopback=_is_on_loopback(transport),
        allowed=port.allowed_origins,
    )


def knows_host(port: "Port", transport: "Transport", ip: str, request: Request) -> bool:
    """False for a page whose own name was made to point at loopback (DNS rebinding)."""
    return (
        not _is_on_loopback(transport)
        or port.is_trusted_proxy(ip)
        or is_known_host(request.headers.get("host"), port.allowed_hosts)
    )


def _is_on_loopback(transport: "Transport") -> bool:
    address: str = transport.get_extra_info("sockname")[0]
    return is_loopback(address)
