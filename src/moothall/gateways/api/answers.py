"""Answers of the HTTP API as HTTP responses: JSON, entity tags, errors."""

import json
from hashlib import blake2b
from math import ceil
from typing import Any, Final, NamedTuple

import msgspec

from moothall.errors import Refusal
from moothall.wire.http import Response

JSON: Final = "application/json"

# What an error code of the hall is in HTTP. Other refusals are the fault of the request: 400.
_STATUSES: Final = {
    "AUTH_REQUIRED": 401,
    "VERIFICATION_REQUIRED": 401,
    "NOT_ALLOWED": 403,
    "BANNED": 403,
    "CHANNEL_NOT_FOUND": 404,
    "AGENT_NOT_FOUND": 404,
    "PROPOSAL_NOT_FOUND": 404,
    "DISPUTE_NOT_FOUND": 404,
    "RATE_LIMITED": 429,
    "INTERNAL_ERROR": 500,
    "UNAVAILABLE": 503,
}
_encode: Final = msgspec.json.Encoder().encode


class Body(NamedTuple):
    """An answer as it is sent, and its entity tag."""

    json: bytes
    etag: str


def body_of(answer: Any) -> Body:
    return body_with(encoded(answer))


def body_with(text: bytes) -> Body:
    return Body(text, f'"{blake2b(text, digest_size=12).hexdigest()}"')


def encoded(answer: Any) -> bytes:
    try:
        return _encode(answer)
    except UnicodeEncodeError:  # a lone surrogate, which UTF-8 cannot express
        return json.dumps(msgspec.to_builtins(answer), separators=(",", ":")).encode()


def error(status: int, code: str, message: str, *headers: tuple[str, str]) -> Response:
    return Response(status, _encode({"error": {"code": code, "message": message}}), JSON, headers)


def refused(refusal: Refusal) -> Response:
    status = _STATUSES.get(refusal.code, 400)
    headers = (("WWW-Authenticate", "Bearer"),) if status == 401 else ()
    return error(status, refusal.code, refusal.message, *headers)


def refused_by_port(plain: Response) -> Response:
    """The same refusal as JSON. Its text ends with a newline."""
    code = "RATE_LIMITED" if plain.status == 429 else "NOT_ALLOWED"
    return error(plain.status, code, plain.body.decode().rstrip(), *plain.headers)


def over_budget(seconds: float) -> Response:
    wait = ceil(seconds)
    return error(
        429,
        "RATE_LIMITED",
        "This address or key asks for more than its budget; wait, and ask for less",
        ("Retry-After", str(max(1, wait))),
    )
