import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from ssl import SSLCertVerificationError
from threading import Event, Thread
from urllib.error import URLError

import pytest
from typer.testing import CliRunner, Result

from moothall import __version__
from moothall.cli.health import Report, describe
from moothall.cli.main import app
from moothall.compiled import build
from tests.support.server import HallProcess, running_hall


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall"), "--name", "townhall") as hall:
        yield hall


@pytest.fixture
def stranger() -> Iterator[socket.socket]:
    """A port where somebody listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def address_of(listener: socket.socket) -> str:
    return f"ws://127.0.0.1:{listener.getsockname()[1]}"


def health(*arguments: str) -> Result:
    result = CliRunner().invoke(app, ["health", *arguments])
    assert "Traceback" not in result.output
    return result


def complaint(code: int, *arguments: str) -> str:
    result = health(*arguments)
    assert result.exit_code == code, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


class Page(BaseHTTPRequestHandler):
    status, content = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[str]:
    """Some other web server."""
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield address_of(server.socket)
        server.shutdown()
        thread.join()


def test_health_for_people(hall: HallProcess) -> None:
    result = health(hall.url)
    assert result.exit_code == 0
    shown = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert shown["status"] == "healthy"
    assert shown["server"] == f"townhall {__version__}"
    assert shown["build"] == build()
    assert shown["agents"] == "0 connected, 0 with a key"


def test_the_nodes_of_a_hall_are_counted_beside_its_bus() -> None:
    shown = dict(describe(Report({"status": "healthy", "bus": "up", "nodes": 3}, 0.0, 0.0)))
    assert shown["bus"] == "up; nodes of this hall: 3"
    assert "bus" not in dict(describe(Report({"status": "healthy"}, 0.0, 0.0)))


def test_peers_are_shown_of_a_hall_on_the_network() -> None:
    def shown(network: dict[str, object]) -> dict[str, str]:
        return dict(describe(Report({"status": "healthy", "mesh_network": network}, 0.0, 0.0)))

    place = "/ip4/127.0.0.1/tcp/9000"
    assert shown({"peers": 2, "unreachable": 1, "address": place})["peers"] == f"2, 1 unreachable; {place}"
    assert shown({"peers": 0, "unreachable": 0, "address": None})["peers"] == "0; no port of its own"
    assert "peers" not in shown({})


def test_health_for_programs(hall: HallProcess) -> None:
    report = json.loads(health("--json", "--url", hall.url).stdout)
    assert report["status"] == "healthy"
    assert report["server"] == "townhall"
    assert set(report) >= {"version", "uptime_seconds", "started_at", "agents", "channels", "timestamp"}


def test_the_address_may_come_from_the_environment(
    hall: HallProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTCHAT_URL", hall.url)
    assert "townhall" in health().stdout


def test_nobody_there_is_a_connection_error() -> None:
    said = complaint(3, "ws://127.0.0.1:1")
    assert "Connection refused" in said
    assert "moothall serve" in said


def test_a_server_without_tls(web: str, stranger: socket.socket) -> None:
    assert "try ws://" in complaint(3, web.replace("ws:", "wss:"))
    assert "ws://" in complaint(5, address_of(stranger).replace("ws:", "wss:"), "--timeout", "0.05")


def test_a_certificate_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise URLError(SSLCertVerificationError(1, "self-signed certificate"))

    monkeypatch.setattr("urllib.request.OpenerDirector.open", refuse)
    assert "SSL_CERT_FILE" in complaint(3, "wss://127.0.0.1")


def test_an_unknown_host_is_a_connection_error() -> None:
    assert "hall.invalid" in complaint(3, "ws://hall.invalid:6667")


def test_silence_is_a_timeout(stranger: socket.socket) -> None:
    assert "--timeout" in complaint(5, address_of(stranger), "--timeout", "0.05")


def test_an_answer_that_trickles_in_is_a_timeout_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        enough = Event()
        thread = Thread(target=_trickle, args=(listener, enough))
        thread.start()
        assert "--timeout" in complaint(5, address_of(listener), "--timeout", "0.3")
        assert not enough.is_set()
        enough.set()
        thread.join()


def test_no_proxy_comes_between_this_machine_and_itself(
    hall: HallProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert "townhall" in health(hall.url).stdout
    assert "Connection refused" in complaint(3, "ws://hall.example.org")


@pytest.mark.parametrize(
    ("status", "content"),
    [
        (404, b"not here"),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b'{"version": "1"}'),
        (200, b'{"status": "' + b"x" * 70_000 + b'"}'),
        (200, b"[" * 60_000),
    ],
)
def test_another_program_is_not_taken_for_a_hall(
    web: str, status: int, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Page, "status", status)
    monkeypatch.setattr(Page, "content", content)
    assert web.removeprefix("ws://") in complaint(3, web)


def test_what_is_not_healthy_is_exit_code_1(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Page, "content", b'{"status": "\\u001b[2Jill", "agents": 3}')
    result = health(web)
    assert result.exit_code == 1
    assert "\x1b" not in result.stdout
    assert "[2Jill" in result.stdout


def test_a_program_that_speaks_no_http(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = Thread(target=_answer, args=(listener, b":irc.example.org NOTICE * :hello\r\n"))
        thread.start()
        complaint(3, address_of(listener))
        thread.join()


def _answer(listener: socket.socket, content: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(content)


def _trickle(listener: socket.socket, enough: Event) -> None:
    """A line now and then, until it is enough or http.client has its hundred."""
    connection, _ = listener.accept()
    with connection, suppress(OSError):
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        for _ in range(90):
            connection.sendall(b"X-Wait: 1\r\n")
            if enough.wait(0.05):
                return
        enough.set()
