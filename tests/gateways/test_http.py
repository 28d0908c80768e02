"""HTTP and the WebSocket handshake on the hall's port, over real sockets."""

import asyncio
from typing import Any

import pytest

from moothall.gateways import port as port_module
from moothall.gateways.callers import knows_host
from moothall.gateways.connection import Connection
from moothall.gateways.port import Patience, Port
from moothall.wire.http import MAX_HEAD, Request, Response
from moothall.wire.http_routes import Asked, Route, RouteTable
from moothall.wire.websocket import POLICY_VIOLATION, TEXT
from tests.support.echo import Echo, Journal, running
from tests.support.sockets import ACCEPT, Frame, Peer, chopped, head, on_uvloop, text, turn, until_empty

PLAIN = {"Host": "127.0.0.1"}


async def answer(port: Port, *sent: bytes) -> tuple[int, str, bytes]:
    """Status, head and body of what the port answers before it hangs up, which it must do."""
    async with await Peer.connect(port) as peer:
        await peer.say(*sent)
        top = await peer.read_head()
        body = await peer.read_to_end()
        assert not peer.was_reset
        return int(top.split()[1]), top, body


def shows_caller(asked: Asked) -> Response:
    request = asked.request
    return Response(200, f"{request.path} {request.query} {asked.ip}".encode())


WHERE = RouteTable([Route("/where", shows_caller)])


# -- plain requests --------------------------------------------------------------------------------


@on_uvloop
async def test_a_route_is_served_and_the_connection_ends() -> None:
    async with running() as port:
        port.routes = WHERE
        status, top, body = await answer(port, head(base=PLAIN, target="/where?now"))
        assert (status, body) == (200, b"/where now 127.0.0.1")
        assert "Connection: close" in top
        await until_empty(port)


@on_uvloop
async def test_load_balancers_ask_in_http_1_0() -> None:
    async with running() as port:
        port.routes = RouteTable([Route("/health", shows_caller)])
        status, _, body = await answer(port, b"GET /health HTTP/1.0\r\n\r\n")
        assert (status, body) == (200, b"/health  127.0.0.1")


@on_uvloop
async def test_unknown_paths_are_not_found() -> None:
    async with running() as port:
        status, _, body = await answer(port, head(base=PLAIN, target="/no/such"))
        assert status == 404
        assert b"WebSocket" in body


@pytest.mark.parametrize(("target", "status"), [("/where", 200), ("/no/such", 404)])
@on_uvloop
async def test_head_is_get_without_the_body(target: str, status: int) -> None:
    async with running() as port:
        port.routes = WHERE
        get = await answer(port, head(base=PLAIN, target=target))
        assert await answer(port, head(base=PLAIN, target=target, method="HEAD")) == (status, get[1], b"")


@on_uvloop
async def test_a_refused_handshake_has_no_body_for_head() -> None:
    async with running() as port:
        status, _, body = await answer(port, head(method="HEAD"))
        assert (status, body) == (405, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "BREW"])
@on_uvloop
async def test_other_methods_are_not_allowed(method: str) -> None:
    async with running() as port:
        port.routes = WHERE
        status, top, _ = await answer(port, head(base=PLAIN, method=method, target="/where"))
        assert status == 405
        assert "Allow: GET, HEAD" in top


@on_uvloop
async def test_a_body_that_nobody_reads_does_not_destroy_the_answer() -> None:
    async with running() as port:
        body = [b"x" * 65536] * 16
        posted = head({"Content-Length": str(16 * 65536)}, base=PLAIN, method="POST")
        status, _, _ = await answer(port, posted, *body)
        assert status == 405


@on_uvloop
async def test_a_route_may_have_other_methods() -> None:
    async with running() as port:
        port.routes = RouteTable([Route("/where", shows_caller, methods=("GET", "OPTIONS"))])
        assert (await answer(port, head(base=PLAIN, method="OPTIONS", target="/where")))[0] == 200
        status, top, _ = await answer(port, head(base=PLAIN, method="HEAD", target="/where"))
        assert status == 405
        assert "Allow: GET, OPTIONS" in top


@on_uvloop
async def test_a_path_with_parts_gives_them_to_its_route() -> None:
    def shows_parts(asked: Asked) -> Response:
        return Response(200, repr(dict(asked.parts)).encode())

    async with running() as port:
        port.routes = RouteTable([Route("/channels/{name}/messages", shows_parts)])
        _, _, body = await answer(port, head(base=PLAIN, target="/channels/%23general/messages"))
        assert body == b"{'name': '#general'}"


@on_uvloop
async def test_a_route_may_answer_later_and_once() -> None:
    waiting: list[Asked] = []
    async with running() as port, await Peer.connect(port) as peer:
        port.routes = RouteTable([Route("/deals", waiting.append)])
        await peer.say(head(base=PLAIN, target="/deals"))
        while not waiting:
            await turn()
        assert not peer.has_received()
        waiting[0].reply(Response(200, b"three"))
        waiting[0].reply(Response(200, b"four"))
        assert (await peer.read_head()).startswith("HTTP/1.1 200 ")
        assert await peer.read_to_end() == b"three"


@on_uvloop
async def test_a_route_that_never_answers_is_not_waited_for() -> None:
    waiting: list[Asked] = []
    async with (
        running(patience=Patience(sweep=0.001, answering=0.01)) as port,
        await Peer.connect(port) as peer,
    ):
        port.routes = RouteTable([Route("/deals", waiting.append)])
        await peer.say(head(base=PLAIN, target="/deals"))
        await until_empty(port)
        waiting[0].reply(Response(200, b"too late"))
        assert await peer.read_to_end() == b""


@on_uvloop
async def test_a_caller_that_left_is_not_told() -> None:
    waiting: list[Asked] = []
    async with running() as port:
        port.routes = RouteTable([Route("/deals", waiting.append)])
        async with await Peer.connect(port) as peer:
            await peer.say(head(base=PLAIN, target="/deals"))
            while not waiting:
                await turn()
        await until_empty(port)
        waiting[0].reply(Response(200, b"three"))
        assert port._answering == {}


STAYS = RouteTable(
    [
        Route("/file", lambda asked: Response(200, asked.ip.encode(), keep_alive=True)),
        Route("/where", shows_caller),
    ]
)


async def read_answer(peer: Peer) -> tuple[str, bytes]:
    """Of a connection that stays open."""
    top = await peer.read_head()
    (length,) = [line.split()[1] for line in top.splitlines() if line.startswith("Content-Length")]
    return top, await peer.read_exactly(int(length))


@on_uvloop
async def test_a_connection_stays_open_where_the_answer_says_so() -> None:
    async with running() as port, await Peer.connect(port) as peer:
        port.routes = STAYS
        for _ in range(3):
            await peer.say(head(base=PLAIN, target="/file"))
            top, body = await read_answer(peer)
            assert ("Connection: keep-alive" in top, body) == (True, b"127.0.0.1")
        await peer.say(head(base=PLAIN, target="/where"))
        assert "Connection: close" in await peer.read_head()
        await peer.read_to_end()
        await until_empty(port)
        assert port._answering == {}


@on_uvloop
async def test_a_connection_that_served_a_page_can_become_a_websocket() -> None:
    async with running() as port, await Peer.connect(port) as peer:
        port.routes = STAYS
        await peer.say(head(base=PLAIN, target="/file"))
        await read_answer(peer)
        await peer.say(head())
        assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
        await peer.say(text("hi"))
        assert await peer.read_frame() == Frame(TEXT, b"hi")
        assert port._answering == {}


@pytest.mark.parametrize(
    "sent",
    [
        head({"Connection": "close"}, base=PLAIN, target="/file"),
        head({"Content-Length": "0"}, base=PLAIN, target="/file"),
        head({"Transfer-Encoding": "chunked"}, base=PLAIN, target="/file"),
        head(base=PLAIN, target="/file") + head(base=PLAIN, target="/file"),  # before the answer
        b"GET /file HTTP/1.0\r\n\r\n",
    ],
)
@on_uvloop
async def test_it_closes_where_the_client_would_not_send_another_request_or_did_already(sent: bytes) -> None:
    async with running() as port:
        port.routes = STAYS
        status, top, body = await answer(port, sent)
        assert (status, body) == (200, b"127.0.0.1")
        assert "Connection: close" in top


@on_uvloop
async def test_a_connection_that_asks_no_more_is_cut() -> None:
    async with (
        running(patience=Patience(sweep=0.001, answering=0.01)) as port,
        await Peer.connect(port) as peer,
    ):
        port.routes = STAYS
        await peer.say(head(base=PLAIN, target="/file"))
        await read_answer(peer)
        assert await peer.read_to_end() == b""
        await until_empty(port)


@on_uvloop
async def test_one_that_asks_on_and_reads_nothing_fills_no_memory() -> None:
    body = bytes(8 * 1024 * 1024)
    async with running() as port, await Peer.connect(port, receive_buffer=4096) as peer:
        port.routes = RouteTable([Route("/file", lambda asked: Response(200, body, keep_alive=True))])
        await peer.say(head(base=PLAIN, target="/file"))
        while not port.stuck:
            await turn()
        await peer.say(head(base=PLAIN, target="/file"))
        await until_empty(port)
        assert port.stuck == set()


@on_uvloop
async def test_a_proxy_may_bring_several_clients_on_one_connection() -> None:
    async with running(trusted_proxies=("127.0.0.1",)) as port, await Peer.connect(port) as peer:
        port.routes = STAYS
        for ip in ("203.0.113.7", "203.0.113.8"):
            await peer.say(head({"X-Forwarded-For": ip}, base=PLAIN, target="/file"))
            assert (await read_answer(peer))[1] == ip.encode()


@on_uvloop
async def test_a_route_that_fails_is_an_internal_error() -> None:
    def fails(asked: Asked) -> Response:
        raise RuntimeError

    journal = Journal()
    async with running(log=journal) as port:
        port.routes = RouteTable([Route("/where", fails)])
        status, _, body = await answer(port, head(base=PLAIN, target="/where"))
        assert (status, body) == (500, b"Internal error\n")
        assert journal.events == ["a request could not be answered"]


@on_uvloop
async def test_a_reader_that_needs_longer_than_others_gets_all_of_its_answer() -> None:
    body = b"x" * (8 * 1024 * 1024)
    async with (
        running(patience=Patience(sweep=0.001, linger=0.001)) as port,
        await Peer.connect(port, receive_buffer=4096) as peer,
    ):
        port.routes = RouteTable([Route("/long", lambda asked: Response(200, body))])
        await peer.say(head(base=PLAIN, target="/long"))
        await peer.read_head()
        sweeps = asyncio.Event()
        port.loop.call_later(0.05, sweeps.set)  # many sweeps, each of which would cut it
        await sweeps.wait()
        assert len(await peer.read_to_end()) == len(body)


@pytest.mark.parametrize("sent", [b"\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"])
@on_uvloop
async def test_what_is_not_http_is_a_bad_request(sent: bytes) -> None:
    async with running() as port:
        status, _, _ = await answer(port, sent)
        assert status == 400


# -- the head --------------------------------------------------------------------------------------


@on_uvloop
async def test_a_tls_hello_is_not_left_waiting_for_an_answer() -> None:
    async with running() as port:
        status, _, _ = await answer(port, bytes.fromhex("16030100c8010000c40303"))
        assert status == 400


@on_uvloop
async def test_a_head_may_be_as_long_as_the_limit() -> None:
    shortest = len(head({"X-Filler": ""}))
    async with running() as port, await Peer.connect(port) as peer:
        await peer.say(head({"X-Filler": "x" * (MAX_HEAD - shortest)}) + text("hi"))
        assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
        assert await peer.read_frame() == Frame(TEXT, b"hi")


@on_uvloop
async def test_a_head_may_not_be_longer() -> None:
    shortest = len(head({"X-Filler": ""}))
    async with running() as port:
        status, _, _ = await answer(port, head({"X-Filler": "x" * (MAX_HEAD - shortest + 1)}))
        assert status == 431


@on_uvloop
async def test_a_head_without_end_is_refused_and_the_answer_arrives() -> None:
    async with running() as port:
        status, _, _ = await answer(
            port, b"GET / HTTP/1.1\r\n", *[b"X-Filler: " + b"x" * 6000 + b"\r\n"] * 50
        )
        assert status == 431


@pytest.mark.parametrize("chop", [1, 3])
@on_uvloop
async def test_a_head_may_arrive_in_pieces(chop: int) -> None:
    async with running() as port, await Peer.connect(port) as peer:
        await peer.say(*chopped(head() + text("first"), chop))
        assert f"Sec-WebSocket-Accept: {ACCEPT}" in await peer.read_head()
        assert await peer.read_frame() == Frame(TEXT, b"first")


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: ", head()[:-1]], ids=["nothing", "half", "most"]
)
@on_uvloop
async def test_a_head_that_does_not_come_is_not_waited_for(sent: bytes) -> None:
    async with (
        running(patience=Patience(sweep=0.001, head=0.01)) as port,
        await Peer.upgraded(port) as member,
        await Peer.connect(port) as slow,
    ):
        await slow.say(sent)
        assert await slow.read_to_end() == b""
        await member.say(text("not concerned"))
        assert await member.read_frame() == Frame(TEXT, b"not concerned")
        assert port.connections == 1
        assert port._heads == {}


@on_uvloop
async def test_who_got_its_answer_and_stays_is_cut_off() -> None:
    async with running(patience=Patience(sweep=0.001, linger=0.01)) as port, await Peer.connect(port) as peer:
        await peer.say(head({"Upgrade": None}))
        assert (await peer.read_head()).startswith("HTTP/1.1 404 ")
        await until_empty(port)
        assert port._heads == {}


# -- the handshake ---------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/", "/any/path?at=all", "http://127.0.0.1/absolute"])
@on_uvloop
async def test_any_path_will_do(target: str) -> None:
    async with running() as port, await Peer.connect(port) as peer:
        await peer.say(head(target=target))
        assert (await peer.read_head()).startswith("HTTP/1.1 101 ")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (head(method="POST"), 405),
        (head(version="HTTP/1.0"), 505),
        (head(version="HTTP/2.0"), 505),
        (head({"Host": None}), 400),
        (head({"Upgrade": None}), 404),
        (head({"Connection": None}), 400),
        (head({"Sec-WebSocket-Key": None}), 400),
        (head({"Sec-WebSocket-Key": "short"}), 400),
        (head({"Sec-WebSocket-Version": None}), 426),
        (head({"Sec-WebSocket-Version": "8"}), 426),
        (head()[:-2] + b"Host: another\r\n\r\n", 400),
        (head()[:-2] + b"Sec-WebSocket-Version: 13\r\n\r\n", 400),
    ],
)
@on_uvloop
async def test_a_wrong_handshake_is_answered_and_never_reaches_the_hall(sent: bytes, status: int) -> None:
    room = Guestbook()
    async with running(room) as port:
        refused, top, _ = await answer(port, sent + text("anybody?"))
        assert refused == status
        if status == 426:
            assert "Sec-WebSocket-Version: 13" in top
            assert "Upgrade: websocket" in top
        await until_empty(port)
    assert room.entries == []


class Guestbook(Echo):
    """Notes how each connection was introduced."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, str, bool]] = []
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.turned_away: list[tuple[str, bool]] = []

    def note(self, event: str, **facts: object) -> None:
        self.notes.append((event, facts))

    def turn_away(self, ip: str, *, is_news: bool) -> None:
        self.turned_away.append((ip, is_news))

    def connect(
        self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str
    ) -> Connection:
        self.entries.append((ip, user_agent, is_loopback))
        return link


@on_uvloop
async def test_the_hall_is_told_who_connects() -> None:
    room = Guestbook()
    async with running(room) as port, await Peer.connect(port) as peer:
        await peer.say(head({"User-Agent": "agent/1.0 " + "x" * 1000}))
        await peer.read_head()
    ((ip, user_agent, is_loopback),) = room.entries
    assert (ip, is_loopback) == ("127.0.0.1", True)
    assert user_agent == "agent/1.0 " + "x" * 246


class FullHouse(Echo):
    def connect(self, link: Connection, ip: str, user_agent: str, *, is_loopback: bool, host: str) -> None:
        link.close(POLICY_VIOLATION, "Too many connections from this IP")


@on_uvloop
async def test_who_is_turned_away_is_told_why() -> None:
    async with running(FullHouse()) as port, await Peer.connect(port) as peer:
        await peer.say(head() + text("let me in") + b"\x88\x80abcd")
        assert (await peer.read_head()).startswith("HTTP/1.1 101 ")
        (refused,) = await peer.read_frames()
        assert refused.close_code == POLICY_VIOLATION
        assert refused.payload[2:] == b"Too many connections from this IP"


# -- origins ---------------------------------------------------------------------------------------


async def handshake_status(port: Port, **changes: str) -> int:
    async with await Peer.connect(port) as peer:
        await peer.say(head(changes))
        return int((await peer.read_head()).split()[1])


@on_uvloop
async def test_programs_and_our_own_pages_may_connect() -> None:
    async with running() as port:
        assert await handshake_status(port) == 101
        for name in ("127.0.0.1", "localhost"):
            here = f"{name}:{port.address[1]}"
            assert await handshake_status(port, Host=here, Origin=f"http://{here}") == 101


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1", "http://evil.example"),
        ("127.0.0.1", "null"),
        ("127.0.0.1", "http://127.0.0.1:1"),
        ("127.0.0.1", "http://127.0.0.1\r\nOrigin: http://evil.example"),
        ("evil.example", "http://evil.example"),  # a name made to point at 127.0.0.1
    ],
)
@on_uvloop
async def test_foreign_pages_may_not(host: str, origin: str) -> None:
    room = Guestbook()
    async with running(room) as port:
        assert await handshake_status(port, Host=host, Origin=origin) == 403
    assert room.entries == []
    assert room.notes == [("foreign_origin_refused", {"ip": "127.0.0.1"})]


@on_uvloop
async def test_unless_the_operator_lists_them() -> None:
    async with running(allowed_origins=("http://friend.example",)) as port:
        assert await handshake_status(port, Origin="http://friend.example") == 101
        assert await handshake_status(port, Origin="http://friend.example:81") == 403
        assert await handshake_status(port, Origin="null") == 403


# -- hosts -----------------------------------------------------------------------------------------


async def asked(port: Port, target: str, host: str, **headers: str) -> int:
    status, _, _ = await answer(port, head(headers, base={"Host": host}, target=target))
    return status


ROUTES = ("/metrics", "/api/connections")
REPORTS = tuple(Route(path, shows_caller, any_origin=True) for path in ROUTES)


@pytest.mark.parametrize("origin", [{}, {"Origin": "http://evil.example"}])
@on_uvloop
async def test_on_loopback_a_name_that_was_made_to_point_here_learns_nothing(origin: dict[str, str]) -> None:
    """DNS rebinding: the page asks its own host, so it sends no Origin, and may read the answer."""
    async with running() as port:
        port.routes = RouteTable((*REPORTS, Route("/health", shows_caller, any_host=True, any_origin=True)))
        for target in (*ROUTES, "/api/later", "/"):
            assert await asked(port, target, "evil.example:6667", **origin) == 403
        assert await asked(port, "/health", "evil.example:6667", **origin) == 200
        for target in ROUTES:
            for name in ("localhost", "127.0.0.1", "[::1]"):
                assert await asked(port, target, f"{name}:6667", **origin) == 200


@on_uvloop
async def test_hosts_that_the_operator_lists_and_trusted_proxies_may_ask() -> None:
    async with running(allowed_hosts=("Hall.Example",)) as port:
        port.routes = RouteTable(REPORTS)
        assert await asked(port, "/metrics", "hall.example:8080") == 200
        assert await asked(port, "/metrics", "evil.example") == 403
    async with running(trusted_proxies=("127.0.0.1",)) as port:
        port.routes = RouteTable(REPORTS)
        assert await asked(port, "/metrics", "hall.example") == 200


@on_uvloop
async def test_foreign_pages_may_ask_only_where_a_route_says_so() -> None:
    async with running() as port:
        port.routes = RouteTable([Route("/page", shows_caller), *REPORTS])
        own, foreign = {"Origin": "http://localhost:6667"}, {"Origin": "http://localhost:8080"}
        assert await asked(port, "/page", "localhost:6667") == 200
        assert await asked(port, "/page", "localhost:6667", **own) == 200
        assert await asked(port, "/page", "localhost:6667", **foreign) == 403
        assert await asked(port, "/page", "localhost:6667", Origin="null") == 403
        assert await asked(port, "/metrics", "localhost:6667", **foreign) == 200


class Elsewhere(asyncio.Transport):
    """A transport whose socket has an address of the network. No test listens on one."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("203.0.113.1", 6667)


@on_uvloop
async def test_on_other_addresses_any_host_may_ask() -> None:
    async with running() as port:
        asked = Request("GET", "/metrics", "", {"host": "hall.example"})
        assert knows_host(port, Elsewhere(), "203.0.113.9", asked)


# -- proxies ---------------------------------------------------------------------------------------


async def seen_as(trusted: tuple[str, ...], *forwarded: str) -> tuple[str, bool]:
    room = Guestbook()
    async with running(room, trusted_proxies=trusted) as port, await Peer.connect(port) as peer:
        lines = "".join(f"X-Forwarded-For: {value}\r\n" for value in forwarded)
        await peer.say(head()[:-2] + lines.encode() + b"\r\n")
        await peer.read_head()
    ((ip, _, is_loopback),) = room.entries
    return ip, is_loopback


@on_uvloop
async def test_a_stranger_is_not_believed() -> None:
    assert await seen_as((), "203.0.113.7") == ("127.0.0.1", True)
    assert await seen_as(("10.0.0.1",), "203.0.113.7") == ("127.0.0.1", True)


@pytest.mark.parametrize(
    ("forwarded", "ip"),
    [
        (("203.0.113.7",), "203.0.113.7"),
        (("6.6.6.6, 203.0.113.7",), "203.0.113.7"),  # the first is what the client claimed
        (("6.6.6.6", "203.0.113.7"), "203.0.113.7"),
        (("203.0.113.7, 10.0.0.1",), "203.0.113.7"),  # through two proxies of ours
        (("6.6.6.6, 203.0.113.7 , 10.0.0.1, 127.0.0.1",), "203.0.113.7"),
        (("2001:db8::7",), "2001:db8::7"),
        (("203.0.113.7:4711",), "203.0.113.7"),  # as some write it
        (("[2001:db8::7]:4711",), "2001:db8::7"),
        (("6.6.6.6, 203.0.113.7, ::ffff:10.0.0.1",), "203.0.113.7"),
        (("10.0.0.1",), "10.0.0.1"),
        (("9" * 1000,), "9" * 64),
    ],
)
@on_uvloop
async def test_a_trusted_proxy_is_believed(forwarded: tuple[str, ...], ip: str) -> None:
    assert await seen_as(("127.0.0.1", "10.0.0.1"), *forwarded) == (ip, False)


@on_uvloop
async def test_a_network_of_proxies_is_believed() -> None:
    assert await seen_as(("127.0.0.0/8", "10.0.0.0/8"), "203.0.113.7, 10.1.2.3") == ("203.0.113.7", False)
    assert await seen_as(("127.0.0.0/8",), "203.0.113.7, 10.1.2.3") == ("10.1.2.3", False)


@pytest.mark.parametrize("forwarded", [(), ("",), (" , ,",)])
@on_uvloop
async def test_a_trusted_proxy_may_have_nothing_to_say(forwarded: tuple[str, ...]) -> None:
    assert await seen_as(("127.0.0.1",), *forwarded) == ("127.0.0.1", True)


@on_uvloop
async def test_routes_see_the_same_address() -> None:
    async with running(trusted_proxies=("127.0.0.1",)) as port:
        port.routes = WHERE
        sent = head({"X-Forwarded-For": "203.0.113.7"}, base=PLAIN, target="/where")
        _, _, body = await answer(port, sent)
        assert body == b"/where  203.0.113.7"


# -- connections that never become anything ------------------------------------------------------------


@on_uvloop
async def test_half_a_request_on_each_of_many_connections_keeps_nobody_else_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Loopback is exempt, so here it is taken for the address of somebody far away."""
    monkeypatch.setattr(port_module, "is_loopback", lambda ip: False)
    room = Guestbook()
    async with running(room, max_connections_per_ip=3) as port:
        callers = [await Peer.connect(port) for _ in range(2)]
        guest = await Peer.upgraded(port)  # counts for the room from now on
        callers.append(await Peer.connect(port))
        for _ in range(5):  # and fills no log
            async with await Peer.connect(port) as refused:
                assert await refused.read_to_end() == b""
        assert room.turned_away == [("127.0.0.1", True)] + 4 * [("127.0.0.1", False)]
        for peer in callers:
            await peer.say(head(base=PLAIN, target="/no/such"))
            await peer.read_head()
            peer.close()
        guest.close()
        await until_empty(port)
        assert not list(port.calling)
        assert port.calling.is_news("127.0.0.1")
        assert (await answer(port, head(base=PLAIN, target="/no/such")))[0] == 404


@pytest.mark.parametrize(
    "chosen", [{"no_limits": True}, {"max_connections_per_ip": 0}, {"trusted_proxies": ("127.0.0.1",)}, {}]
)
@on_uvloop
async def test_proxies_and_loopback_may_have_as_many_connections_as_they_like(
    monkeypatch: pytest.MonkeyPatch, chosen: dict[str, Any]
) -> None:
    if chosen:
        monkeypatch.setattr(port_module, "is_loopback", lambda ip: False)
    async with running(**{"max_connections_per_ip": 1, **chosen}) as port:
        callers = [await Peer.connect(port) for _ in range(3)]
        assert (await answer(port, head(base=PLAIN, target="/no/such")))[0] == 404
        for peer in callers:
            peer.close()
