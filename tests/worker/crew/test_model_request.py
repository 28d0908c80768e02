"""Which requests of an agent go on to the model's API, and with what."""

import json
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.worker.crew.model_request import MAX_BODY, OAUTH_BETA, Onward, Refused, Upstream, onward

API = Upstream.of("https://api.anthropic.com")
KEY = "sk-ant-api03-secret"
OAUTH = "sk-ant-oat01-secret"


def request(line: str = "POST /v1/messages HTTP/1.1", *headers: str) -> bytes:
    return "\r\n".join([line, "Host: 127.0.0.1:9999", *headers]).encode("latin-1")


def sent(head: bytes, credential: str = KEY, upstream: Upstream = API) -> tuple[str, dict[str, str]]:
    """The first line of what goes on, and its headers."""
    line, *headers = (
        onward(head, upstream, credential).head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    )
    pairs = [header.split(": ", 1) for header in headers]
    names = [name.lower() for name, _ in pairs]
    assert len(names) == len(set(names))
    return line, dict(zip(names, (value for _, value in pairs), strict=True))


def refused(head: bytes) -> Refused:
    with pytest.raises(Refused) as caught:
        onward(head, API, KEY)
    return caught.value


def test_the_credential_replaces_what_the_client_sent() -> None:
    head = request(
        "POST /v1/messages?beta=true HTTP/1.1",
        "X-Api-Key: proxy-managed",
        "Authorization: Bearer proxy-managed",
        "Cookie: a=b",
        "anthropic-version: 2023-06-01",
        "Content-Length: 12",
        "Content-Type: application/json",
    )
    assert onward(head, API, KEY).body == 12
    assert sent(head) == (
        "POST /v1/messages?beta=true HTTP/1.1",
        {
            "host": "api.anthropic.com",
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
            "x-api-key": KEY,
            "connection": "close",
            "content-length": "12",
        },
    )


def test_an_oauth_token_goes_into_authorization_and_is_announced_once() -> None:
    _, headers = sent(request("POST /v1/messages HTTP/1.1", "Anthropic-Beta: a, b"), OAUTH)
    assert headers["authorization"] == f"Bearer {OAUTH}"
    assert "x-api-key" not in headers
    assert headers["anthropic-beta"] == f"a,b,{OAUTH_BETA}"
    _, headers = sent(request("POST /v1/messages HTTP/1.1", f"Anthropic-Beta: {OAUTH_BETA}"), OAUTH)
    assert headers["anthropic-beta"] == OAUTH_BETA


def test_headers_of_the_client_s_own_connection_are_dropped() -> None:
    _, headers = sent(
        request(
            "POST /v1/messages HTTP/1.1",
            "Connection: keep-alive, X-Hop",
            "Keep-Alive: 5",
            "X-Hop: 1",
            "Upgrade: websocket",
            "Expect: 100-continue",
            "X-Forwarded-For: 10.0.0.1",
            "X-Stays: 1",
        )
    )
    assert set(headers) == {"host", "x-stays", "x-api-key", "connection", "content-length"}
    assert headers["connection"] == "close"


def test_another_upstream_with_a_path() -> None:
    upstream = Upstream.of("http://[::1]:8080/gateway/")
    line, headers = sent(request("GET /v1/models/claude-1 HTTP/1.1"), upstream=upstream)
    assert line == "GET /gateway/v1/models/claude-1 HTTP/1.1"
    assert headers["host"] == "[::1]:8080"
    assert "content-length" not in headers


@pytest.mark.parametrize(
    "url", ["ftp://host", "https://", "https://h:0", "https://h:x", "https://h/?a=b", "https://me@h", "h"]
)
def test_an_address_that_is_not_one_of_an_api(url: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        Upstream.of(url)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("GET /v1/files HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("POST /v1/messages/batches HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("POST /v1/messages/../files HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("POST /v1//messages HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("GET /v1/messages HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("DELETE /v1/models HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("POST http://elsewhere/v1/messages HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("CONNECT elsewhere:443 HTTP/1.1", HTTPStatus.FORBIDDEN),
        ("POST /v1/messages?a=# HTTP/1.1", HTTPStatus.BAD_REQUEST),
        ("POST /v1/messages", HTTPStatus.BAD_REQUEST),
    ],
)
def test_an_agent_talks_to_the_model_and_no_more(line: str, status: HTTPStatus) -> None:
    assert refused(request(line)).status is status


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Transfer-Encoding: chunked", HTTPStatus.LENGTH_REQUIRED),
        ("Content-Length: -1", HTTPStatus.BAD_REQUEST),
        ("Content-Length: 5\r\nContent-Length: 6", HTTPStatus.BAD_REQUEST),
        (f"Content-Length: {MAX_BODY + 1}", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ("No colon", HTTPStatus.BAD_REQUEST),
    ],
)
def test_a_body_has_a_length_that_is_known_and_bounded(header: str, status: HTTPStatus) -> None:
    assert refused(request("POST /v1/messages HTTP/1.1", header)).status is status


def test_a_refusal_looks_like_an_error_of_the_api() -> None:
    head, _, body = refused(request("GET /v1/files HTTP/1.1")).encode().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert "/v1/messages" in json.loads(body)["error"]["message"]


_text = st.text(st.characters(codec="latin-1"), max_size=60)
_line = st.sampled_from(["POST /v1/messages", "GET /v1/models", "POST /v1/messages?a=b"]) | _text


@given(_line, st.lists(st.tuples(_text, _text), max_size=5), st.sampled_from([KEY, OAUTH]))
def test_whatever_the_client_sends_one_head_with_one_credential_goes_on(
    line: str, headers: list[tuple[str, str]], credential: str
) -> None:
    head = request(f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in headers))
    try:
        found = onward(head, API, credential)
    except Refused as error:
        found = Onward(error.encode(), 0)
    if found.head.startswith(b"HTTP/1.1 4"):
        assert credential.encode() not in found.head
        return
    assert found.head.count(b"\r\n\r\n") == 1
    assert found.head.count(b"\n") == found.head.count(b"\r\n")
    assert found.head.split(b" ")[1].startswith((b"/v1/messages", b"/v1/models"))
    lines = found.head.lower().split(b"\r\n")
    assert sum(line.startswith((b"authorization:", b"x-api-key:")) for line in lines) == 1
    assert sum(line.startswith(b"host:") for line in lines) == 1
    assert 0 <= found.body <= MAX_BODY
