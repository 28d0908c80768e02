"""The little HTTP that shares the hall's port: request heads, plain responses, the WebSocket upgrade.

Pure text in, text out. A request head is read whole (at most `MAX_HEAD` bytes); bodies are not: everything
served here is a GET.
"""

import re
from binascii import b2a_base64
from collections.abc import Collection, Mapping
from functools import lru_cache
from hashlib import sha1
from typing import Final, NamedTuple

MAX_HEAD: Final = 16 * 1024
MAX_HEADERS: Final = 100
ANY: Final = "*"  # in a list of subprotocols

_ACCEPT_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
_SWITCHING: Final = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
)
_KEY: Final = r"[A-Za-z0-9+/]{22}=="  # 16 bytes in base64
_is_websocket_key: Final = re.compile(_KEY).fullmatch
_find_key_line: Final = re.compile(rf"\r\nSec-WebSocket-Key: ({_KEY})(?=\r\n|\Z)".encode()).search
_SOME_KEY_LINE: Final = b"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
_MAX_REMEMBERED: Final = 1024  # bytes of a handshake's head that is worth remembering
_is_token: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+").fullmatch
# Load balancers and proxies ask for /health in HTTP/1.0; a WebSocket handshake needs 1.1 (RFC 6455, 4.2.1).
_VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0")
# What a 426 has to carry (RFC 9110, 15.5.22; RFC 6455, 4.4).
_UPGRADE_TO_THIS: Final = (
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
)
_REASONS: Final = {
    200: "OK",
    204: "No Content",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    426: "Upgrade Required",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_WITHOUT_BODY: Final = frozenset((204, 304))


class Response(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()
    keep_alive: bool = False  # the connection may stay open for the next request

    def encode(self, *, head_only: bool = False, keep_alive: bool = False) -> bytes:
        lines = [
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}",
            *(() if self.status in _WITHOUT_BODY else self._about_body()),
            f"Connection: {'keep-alive' if keep_alive else 'close'}",
            "X-Content-Type-Options: nosniff",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        return head if head_only else head + self.body

    def _about_body(self) -> tuple[str, str]:
        return f"Content-Type: {self.content_type}", f"Content-Length: {len(self.body)}"


class BadRequest(Exception):
    """The request cannot be served; answer with `response`."""

    def __init__(self, status: int, message: str, *headers: tuple[str, str]) -> None:
        super().__init__(message)
        self.response = Response(status, message.encode() + b"\n", headers=headers)


class Request(NamedTuple):
    method: str
    path: str
    query: str
    headers: Mapping[str, str]  # names in lower case; repeated ones joined with ", "
    version: str = "HTTP/1.1"

    @property
    def wants_websocket(self) -> bool:
        upgrade = self.headers.get("upgrade")
        return upgrade is not None and "websocket" in _tokens(upgrade)

    def knows(self, etag: str) -> bool:
        """True if the client has the answer with this entity tag: If-None-Match lists it (RFC 9110, 13.1.2)."""
        tags = [tag.strip().removeprefix("W/") for tag in self.headers.get("if-none-match", "").split(",")]
        return etag in tags or "*" in tags

    @property
    def allows_another(self) -> bool:
        """True if the client may send its next request on the same connection: this one has no body."""
        headers = self.headers
        return (
            self.version == "HTTP/1.1"
            and "content-length" not in headers
            and "transfer-encoding" not in headers
            and "close" not in _tokens(headers.get("connection", ""))
        )


def parse_head(head: bytes) -> Request:
    """A request head, without its closing empty line."""
    text = head.decode("latin-1")
    lines = text.split("\r\n")
    try:
        method, target, version = lines[0].split(" ")
    except ValueError:
        raise BadRequest(400, "Malformed request line") from None
    if version not in _VERSIONS:
        if not version.startswith("HTTP/"):
            raise BadRequest(400, "Malformed request line")
        raise BadRequest(505, "HTTP/1.1 only")
    if len(lines) > MAX_HEADERS + 1:
        raise BadRequest(431, "Too many headers")
    if text.count("\n") >= len(lines) or text.count("\r") >= len(lines) or "\0" in text:
        raise BadRequest(400, "Malformed header")  # a line break of another kind hides in one
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        name = _header_name(name)
        if not colon or not name:
            raise BadRequest(400, "Malformed header")
        value = value.strip(" \t")
        if name in headers:
            if name in ("host", "sec-websocket-key", "sec-websocket-version"):
                raise BadRequest(400, f"Repeated header {name}")
            value = f"{headers[name]}, {value}"
        headers[name] = value
    if version == "HTTP/1.1" and "host" not in headers:
        raise BadRequest(400, "Missing header Host")  # RFC 9112, 3.2
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, version)


def usual_upgrade(head: bytes) -> tuple[Request, bytes] | None:
    """What `parse_head` and `accept_upgrade` make of a handshake, if it is valid and written as most clients do.

    Handshakes of one kind of client differ in their key alone, so all the rest of them is read only once; the
    request holds a placeholder for the key. None: unknown, the head must be parsed.
    """
    key_line = _find_key_line(head)
    if key_line is None or len(head) > _MAX_REMEMBERED:
        return None
    request = _upgrade_without_key(head[: key_line.start()] + head[key_line.end() :])
    return None if request is None else (request, _switching_protocols(key_line[1]))


@lru_cache(maxsize=256)
def _upgrade_without_key(head: bytes) -> Request | None:
    try:
        request = parse_head(head + _SOME_KEY_LINE)
        accept_upgrade(request)
    except BadRequest:
        return None
    return request if request.wants_websocket else None


def accept_upgrade(request: Request) -> bytes:
    """The 101 response to a valid WebSocket handshake (RFC 6455, 4.2.1), or BadRequest."""
    headers = request.headers
    if request.method != "GET":
        raise BadRequest(405, "A WebSocket handshake is a GET", ("Allow", "GET"))
    if request.version != "HTTP/1.1":
        raise BadRequest(505, "A WebSocket handshake needs HTTP/1.1")
    if "upgrade" not in _tokens(headers.get("connection", "")):
        raise BadRequest(400, "Header Connection must contain Upgrade")
    if headers.get("sec-websocket-version") != "13":
        raise BadRequest(426, "WebSocket version 13 only", *_UPGRADE_TO_THIS)
    key = headers.get("sec-websocket-key", "")
    if not _is_websocket_key(key):
        raise BadRequest(400, "Header Sec-WebSocket-Key must be 16 bytes in base64")
    return _switching_protocols(key.encode())


def with_subprotocol(answer: bytes, offered: str, served: Collection[str]) -> bytes:
    """The 101 response, naming the first subprotocol of the client's list that is served (RFC 6455, 4.2.2).

    `*` in `served` is any. Where none is served the response names none, and the client decides what to do.
    """
    for name in map(str.strip, offered.split(",")):
        if _is_token(name) and (name in served or ANY in served):
            return answer[:-2] + f"Sec-WebSocket-Protocol: {name}\r\n\r\n".encode()
    return answer


def _switching_protocols(key: bytes) -> bytes:
    accept = sha1(key + _ACCEPT_GUID, usedforsecurity=False).digest()
    return _SWITCHING + b2a_base64(accept, newline=False) + b"\r\n\r\n"


def is_subprotocol(text: str) -> bool:
    """True if a response can name it (RFC 6455, 4.1: a token)."""
    return _is_token(text) is not None


@lru_cache(maxsize=256)
def _header_name(name: str) -> str:
    """In lower case; empty if it is none. All clients use the same few."""
    return name.lower() if _is_token(name) else ""


@lru_cache(maxsize=64)
def _tokens(value: str) -> frozenset[str]:
    return frozenset(token.strip() for token in value.lower().split(","))
