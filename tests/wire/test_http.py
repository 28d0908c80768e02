"""Request heads, responses and the WebSocket handshake (RFC 9112; RFC 6455, 4.2)."""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.http import (
    MAX_HEADERS,
    BadRequest,
    Request,
    Response,
    accept_upgrade,
    parse_head,
    usual_upgrade,
    with_subprotocol,
)
from tests.support.sockets import ACCEPT, HANDSHAKE, head


def parsed(sent: bytes) -> Request:
    assert sent.endswith(b"\r\n\r\n")
    return parse_head(sent[:-4])


def refusal(sent: bytes) -> Response:
    """The answer to a handshake that must not succeed."""
    with pytest.raises(BadRequest) as refused:
        accept_upgrade(parsed(sent))
    return refused.value.response


# -- request heads -----------------------------------------------------------------------------------


def test_a_request_is_method_path_query_and_headers() -> None:
    request = parsed(b"GET /health?full=1&x=? HTTP/1.1\r\nHost: hall\r\nX-Admin-KEY:\t a secret \t\r\n\r\n")
    assert request.method == "GET"
    assert request.path == "/health"
    assert request.query == "full=1&x=?"
    assert request.headers == {"host": "hall", "x-admin-key": "a secret"}
    assert not request.wants_websocket


def test_repeated_headers_are_one_list() -> None:
    request = parsed(
        b"GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.1.1.1\r\nx-forwarded-for: 2.2.2.2\r\n\r\n"
    )
    assert request.headers["x-forwarded-for"] == "1.1.1.1, 2.2.2.2"


@pytest.mark.parametrize("name", ["Host", "Sec-WebSocket-Key", "Sec-WebSocket-Version"])
def test_headers_that_may_be_there_once_only(name: str) -> None:
    again = f"{name}: {HANDSHAKE[name]}\r\n\r\n".encode()
    with pytest.raises(BadRequest, match=f"Repeated header {name.lower()}") as refused:
        parsed(head()[:-2] + again)
    assert refused.value.response.status == 400


@pytest.mark.parametrize(
    "sent",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET / and more HTTP/1.1\r\n\r\n",
        b"GET / http/1.1\r\n\r\n",
        b"GET / FTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",  # a TLS handshake on a port without TLS
    ],
)
def test_a_malformed_request_line_is_refused(sent: bytes) -> None:
    with pytest.raises(BadRequest, match="Malformed request line") as refused:
        parsed(sent)
    assert refused.value.response.status == 400


@pytest.mark.parametrize(
    "line",
    [
        b"no colon",
        b": no name",
        b"Space : before the colon",
        b" folded: onto the line before",
        b"Na(me: no token",
        b"N\xe4me: not ASCII",
        b"Name: bare\nline feed",
        b"Name: bare\rcarriage return",
        b"Name: n\0l",
    ],
)
def test_a_malformed_header_is_refused(line: bytes) -> None:
    with pytest.raises(BadRequest, match="Malformed header") as refused:
        parsed(b"GET / HTTP/1.1\r\nHost: hall\r\n" + line + b"\r\n\r\n")
    assert refused.value.response.status == 400


def test_there_is_a_limit_to_the_number_of_headers() -> None:
    def with_headers(count: int) -> bytes:
        return head({f"X-{n}": "x" for n in range(count - 1)}, base={"Host": "hall"})

    assert len(parsed(with_headers(MAX_HEADERS)).headers) == MAX_HEADERS
    with pytest.raises(BadRequest) as refused:
        parsed(with_headers(MAX_HEADERS + 1))
    assert refused.value.response.status == 431


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3"])
def test_other_versions_of_http_are_refused(version: str) -> None:
    with pytest.raises(BadRequest) as refused:
        parsed(head(version=version))
    assert refused.value.response.status == 505


def test_load_balancers_may_ask_in_http_1_0_and_name_no_host() -> None:
    assert parsed(b"GET /health HTTP/1.0\r\n\r\n").path == "/health"


def test_http_1_1_needs_a_host() -> None:
    with pytest.raises(BadRequest, match="Missing header Host") as refused:
        parsed(b"GET /health HTTP/1.1\r\n\r\n")
    assert refused.value.response.status == 400


@given(st.binary(max_size=200) | st.text("GET /HTP1.:\r\n ", max_size=200).map(str.encode))
def test_no_head_raises_anything_but_a_bad_request(sent: bytes) -> None:
    try:
        request = parse_head(sent)
    except BadRequest as refused:
        status = refused.response.status
    else:
        status = 200
        assert " " not in request.method + request.path
        assert all(name == name.lower() for name in request.headers)
    assert status in (200, 400, 431, 505)


# -- the handshake -----------------------------------------------------------------------------------


def test_the_handshake_of_the_rfc() -> None:
    answer = accept_upgrade(parsed(head())).decode()
    lines = answer.split("\r\n")
    assert lines[0] == "HTTP/1.1 101 Switching Protocols"
    assert set(lines[1:-2]) == {
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Accept: {ACCEPT}",
    }
    assert lines[-2:] == ["", ""]


@pytest.mark.parametrize(
    "changes",
    [
        {"Connection": "keep-alive, Upgrade"},
        {"Connection": "keep-alive,UPGRADE"},
        {"Upgrade": "WebSocket"},
        {"Upgrade": "h2c, websocket"},
        {"Sec-WebSocket-Protocol": "chat", "Sec-WebSocket-Extensions": "permessage-deflate"},
        {"Origin": "http://anywhere"},
    ],
)
def test_what_browsers_and_proxies_also_send(changes: dict[str, str]) -> None:
    request = parsed(head(changes))
    assert request.wants_websocket
    answer = accept_upgrade(request)
    assert b"Sec-WebSocket-Protocol" not in answer
    assert b"Sec-WebSocket-Extensions" not in answer


@pytest.mark.parametrize(
    ("offered", "served", "chosen"),
    [
        ("agentchat", ("*",), "agentchat"),
        ("b, a", ("*",), "b"),
        ("b,a", ("a",), "a"),
        ("x, b , a", ("a", "b"), "b"),
        ("Agentchat", ("agentchat",), None),
        ("agentchat", (), None),
        ("", ("*",), None),
        ("two words, (), fine", ("*",), "fine"),
        ("a\x01b, \u00e9", ("*",), None),
    ],
)
def test_a_client_gets_the_first_subprotocol_that_is_served(
    offered: str, served: tuple[str, ...], chosen: str | None
) -> None:
    plain = accept_upgrade(parsed(head()))
    answer = with_subprotocol(plain, offered, served)
    lines = answer.decode().split("\r\n")
    assert [line for line in lines if line.startswith("Sec-WebSocket-Protocol")] == (
        [] if chosen is None else [f"Sec-WebSocket-Protocol: {chosen}"]
    )
    assert lines[-2:] == ["", ""]
    assert set(plain.decode().split("\r\n")) <= set(lines)


@pytest.mark.parametrize("upgrade", [None, "", "h2c", "websockets", "web socket"])
def test_without_upgrade_it_is_an_ordinary_request(upgrade: str | None) -> None:
    assert not parsed(head({"Upgrade": upgrade})).wants_websocket


@pytest.mark.parametrize("connection", [None, "", "keep-alive", "close", "Upgraded"])
def test_connection_must_name_upgrade(connection: str | None) -> None:
    assert refusal(head({"Connection": connection})).status == 400


@pytest.mark.parametrize("version", [None, "", "8", "12", "14", "13, 8", "013"])
def test_other_versions_are_told_ours(version: str | None) -> None:
    response = refusal(head({"Sec-WebSocket-Version": version}))
    assert response.status == 426
    assert ("Sec-WebSocket-Version", "13") in response.headers
    assert ("Upgrade", "websocket") in response.headers


@pytest.mark.parametrize(
    "key",
    [
        None,
        "",
        "dGhlIHNhbXBsZSBub25jZQ",
        "c2hvcnQ=",
        "dGhlIHNhbXBsZSBub25jZSB0b28=",
        "!" * 24,
        "dGhl IHNhbXBsZSBub25jZQ==",
        "\xe4" * 24,
    ],
)
def test_the_key_must_be_16_bytes_in_base64(key: str | None) -> None:
    assert refusal(head({"Sec-WebSocket-Key": key})).status == 400


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "CONNECT", "get"])
def test_a_handshake_is_a_get(method: str) -> None:
    response = refusal(head(method=method))
    assert response.status == 405
    assert ("Allow", "GET") in response.headers


def test_a_handshake_needs_http_1_1() -> None:
    assert refusal(head(version="HTTP/1.0")).status == 505


# -- responses ---------------------------------------------------------------------------------------


def test_a_response_says_how_long_it_is_and_that_it_is_the_last() -> None:
    response = Response(200, "grüß\n".encode(), headers=(("X-Extra", "1"),))
    top, _, body = response.encode().partition(b"\r\n\r\n")
    lines = top.decode().split("\r\n")
    assert lines[0] == "HTTP/1.1 200 OK"
    assert {"Content-Length: 7", "Connection: close", "X-Extra: 1"} <= set(lines)
    assert body == "grüß\n".encode()


def test_a_response_to_head_has_the_head_only() -> None:
    response = Response(404, b"nothing")
    assert response.encode() == response.encode(head_only=True) + b"nothing"
    assert b"Content-Length: 7" in response.encode(head_only=True)


# -- the usual handshake, read from memory -----------------------------------------------------------------


def fully_parsed(sent: bytes) -> tuple[Request, bytes] | None:
    """What the full parser makes of a head; None if it is no handshake, or a wrong one."""
    try:
        request = parse_head(sent)
        return (request, accept_upgrade(request)) if request.wants_websocket else None
    except BadRequest:
        return None


def without_key(request: Request) -> Request:
    headers = {name: value for name, value in request.headers.items() if name != "sec-websocket-key"}
    return request._replace(headers=headers)


KEYS = st.binary(min_size=16, max_size=16).map(b64encode)
KEY_LINES = st.one_of(
    KEYS.map(lambda key: b"Sec-WebSocket-Key: " + key),
    KEYS.map(lambda key: b"sec-websocket-key: " + key),
    KEYS.map(lambda key: b"Sec-WebSocket-Key:  " + key + b" "),
    st.binary(max_size=20).map(lambda wrong: b"Sec-WebSocket-Key: " + b64encode(wrong)),
)
OTHER_LINES = st.sampled_from(
    [
        b"Host: hall",
        b"Upgrade: websocket",
        b"Upgrade: h2c",
        b"Connection: Upgrade",
        b"Connection: keep-alive",
        b"Sec-WebSocket-Version: 13",
        b"Sec-WebSocket-Version: 8",
        b"User-Agent: a program",
        b"X-Forwarded-For: 192.0.2.1",
        b" folded",
        b"\rX: y",
        b"X: y\n",
        b"",
    ]
)
GOOD_LINES = [b"Host: hall", b"Upgrade: websocket", b"Connection: Upgrade", b"Sec-WebSocket-Version: 13"]
REQUEST_LINES = st.sampled_from(
    [b"GET / HTTP/1.1", b"GET /x?y HTTP/1.1", b"GET / HTTP/1.0", b"POST / HTTP/1.1"]
)
LINES = st.one_of(
    st.tuples(KEY_LINES, st.lists(OTHER_LINES, max_size=1)).flatmap(
        lambda few: st.permutations([*GOOD_LINES, few[0], *few[1]])
    ),
    st.lists(OTHER_LINES | KEY_LINES, max_size=8),
)


@given(REQUEST_LINES, LINES)
def test_the_usual_handshake_is_what_the_full_parser_makes_of_it(first: bytes, lines: list[bytes]) -> None:
    sent = b"\r\n".join([first, *lines])
    usual, full = usual_upgrade(sent), fully_parsed(sent)
    if usual is not None:
        assert full is not None
        assert without_key(usual[0]) == without_key(full[0])
        assert usual[1] == full[1]


@given(KEYS, st.permutations(GOOD_LINES), st.integers(0, 4))
def test_a_plain_handshake_is_a_usual_one(key: bytes, lines: list[bytes], place: int) -> None:
    lines = [*lines[:place], b"Sec-WebSocket-Key: " + key, *lines[place:]]
    sent = b"\r\n".join([b"GET / HTTP/1.1", *lines])
    usual, full = usual_upgrade(sent), fully_parsed(sent)
    assert usual is not None
    assert full is not None
    assert usual[1] == full[1]


def test_a_long_head_is_not_remembered() -> None:
    assert usual_upgrade(head()[:-4]) is not None
    assert usual_upgrade(head({"Cookie": "x" * 2000})[:-4]) is None


@given(st.text("aZ09+/= -_\n\u00e4", max_size=26) | KEYS.map(bytes.decode))
def test_a_key_is_sixteen_bytes_in_base64(key: str) -> None:
    try:
        is_key = len(b64decode(key, validate=True)) == 16
    except (NotBase64, ValueError):
        is_key = False
    request = Request(
        "GET",
        "/",
        "",
        {"connection": "upgrade", "sec-websocket-version": "13", "sec-websocket-key": key},
    )
    if is_key:
        assert accept_upgrade(request).startswith(b"HTTP/1.1 101 ")
    else:
        with pytest.raises(BadRequest, match="Sec-WebSocket-Key"):
            accept_upgrade(request)
