"""Which requests of an agent go on to the model's API, and how they look there. Pure: bytes in, bytes out.

An agent may talk to the model, and no more: the account behind the credential has files, batches and settings too.
One connection carries one request, so there is nothing that a second request could hide behind the first. What the
client says about itself is dropped: its credential, and all that belongs to its own connection.
"""

import json
import re
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from moothall.errors import UsageError
from moothall.wire.http import BadRequest, Request, parse_head

MAX_BODY: Final = 32 * 1024 * 1024  # bytes; the API takes no more either

OAUTH_TOKEN: Final = "sk-ant-oat"  # how tokens begin that go into `Authorization`; others are API keys  # noqa: S105
OAUTH_BETA: Final = "oauth-2025-04-20"  # what the API wants to be told with one

_ROUTES: Final = (
    ("POST", re.compile(r"/v1/messages(/count_tokens)?")),
    ("GET", re.compile(r"/v1/models(/[A-Za-z0-9._:-]{1,200})?")),
)
_QUERY: Final = re.compile(r"[A-Za-z0-9&=._~%+-]{0,1000}")
_DROPPED: Final = frozenset(
    (
        *("authorization", "x-api-key", "cookie", "host", "content-length"),
        # of one connection (RFC 9110, 7.6.1)
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "expect"),
        *("proxy-authorization", "proxy-connection", "forwarded", "via"),
    )
)


class Refused(Exception):
    """The request does not go on. The answer is in `encode`."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def encode(self) -> bytes:
        """The response, in the form of the API's own errors."""
        error = {"type": "error", "error": {"type": "proxy_error", "message": str(self)}}
        body = json.dumps(error).encode()
        head = (
            f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + body


class Upstream(NamedTuple):
    """The one place where requests go."""

    host: str
    port: int
    is_secure: bool
    base: str  # the beginning of each path, without a slash at its end

    @classmethod
    def of(cls, url: str) -> "Upstream":
        """Raises UsageError."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = 0
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or port == 0
            or parts.query
            or parts.username
        ):
            raise UsageError(
                f"{url[:200]!r} is not an address of a model's API: write it like https://host/path"
            )
        is_secure = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_secure else 80), is_secure, parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """For the header Host."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


class Onward(NamedTuple):
    """What goes to the API: the head, and so many bytes of the client after it."""

    head: bytes
    body: int


def onward(head: bytes, upstream: Upstream, credential: str) -> Onward:
    """A request of an agent, with the credential. `head` is without its closing empty line. Raises Refused."""
    try:
        request = parse_head(head)
    except BadRequest as error:
        raise Refused(HTTPStatus.BAD_REQUEST, str(error)) from None
    if not any(request.method == method and path.fullmatch(request.path) for method, path in _ROUTES):
        raise Refused(
            HTTPStatus.FORBIDDEN,
            f"{request.method[:10]} {request.path[:100]}: an agent may use /v1/messages and /v1/models only",
        )
    if _QUERY.fullmatch(request.query) is None:
        raise Refused(HTTPStatus.BAD_REQUEST, "the query has characters that are not allowed")
    length = _length(request)
    target = upstream.base + request.path + (f"?{request.query}" if request.query else "")
    listed = {name.strip().lower() for name in request.headers.get("connection", "").split(",")}
    kept = {
        name: value
        for name, value in request.headers.items()
        if name not in _DROPPED and name not in listed and not name.startswith("x-forwarded-")
    }
    headers = {"host": upstream.authority, **kept, **_authorization(kept, credential), "connection": "close"}
    if request.method == "POST":
        headers["content-length"] = str(length)
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return Onward("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n", length)


def _length(request: Request) -> int:
    if "transfer-encoding" in request.headers:
        raise Refused(HTTPStatus.LENGTH_REQUIRED, "a body must come with Content-Length")
    text = request.headers.get("content-length", "0")
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise Refused(HTTPStatus.BAD_REQUEST, "Content-Length is not a number")
    if int(text) > MAX_BODY:
        raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {MAX_BODY:,} bytes")
    if request.method == "GET" and int(text):
        raise Refused(HTTPStatus.BAD_REQUEST, "a GET has no body")
    return int(text)


def _authorization(headers: dict[str, str], credential: str) -> dict[str, str]:
    if not credential.startswith(OAUTH_TOKEN):
        return {"x-api-key": credential}
    features = [word.strip() for word in headers.get("anthropic-beta", "").split(",") if word.strip()]
    if OAUTH_BETA not in features:
        features.append(OAUTH_BETA)
    return {"authorization": f"Bearer {credential}", "anthropic-beta": ",".join(features)}
