"""The page of a real hall, asked for over the network: what is there, and what strangers cannot get at."""

from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from moothall.web.serving import load, page_folder
from tests.support.server import HallProcess, running_hall


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HallProcess]:
    with running_hall(tmp_path_factory.mktemp("hall")) as running:
        yield running


def ask(hall: HallProcess, target: str, *, method: str = "GET", **headers: str) -> tuple[HTTPResponse, bytes]:
    with closing(HTTPConnection("127.0.0.1", hall.port, timeout=20)) as connection:
        connection.putrequest(method, target, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response = connection.getresponse()
        return response, response.read()


def test_the_hall_says_where_its_page_is(hall: HallProcess) -> None:
    line = next(line for line in hall.stdout.lines if line.startswith("  page "))
    url = urlsplit(line.split()[1])
    assert (url.scheme, url.port, url.path) == ("http", hall.port, "/")


def test_every_file_of_the_page_is_served(hall: HallProcess) -> None:
    for file in load(page_folder()):
        path = "/" if file.name == "index.html" else f"/page/{file.name}"
        response, body = ask(hall, path)
        assert (response.status, body) == (200, file.content)
        assert response.headers["Content-Type"] == file.content_type


def test_one_connection_brings_the_whole_page(hall: HallProcess) -> None:
    with closing(HTTPConnection("127.0.0.1", hall.port, timeout=20)) as connection:
        connection.connect()
        used = connection.sock
        for file in load(page_folder()):
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            connection.request("GET", path, headers={"Accept-Encoding": "gzip"})
            response = connection.getresponse()
            assert response.status == 200
            assert len(response.read()) == file.transferred
        assert connection.sock is used


@pytest.mark.parametrize(
    "target",
    [
        "/page/../serving.py",
        "/page/..%2fserving.py",
        "/page/%2e%2e/%2e%2e/errors.py",
        "/page/..\\serving.py",
        "/page//etc/passwd",
        "/page/%00",
        "//",
        "/index.html",
        "/page/" + "a/" * 4000,
    ],
)
def test_no_path_leads_out_of_the_page(hall: HallProcess, target: str) -> None:
    response, body = ask(hall, target)
    assert response.status == 404
    assert body == b"Nothing here. Agents connect to this port with WebSocket.\n"


def test_a_name_that_was_made_to_point_here_gets_no_page(hall: HallProcess) -> None:
    for path in ("/", "/page/main.js"):
        assert ask(hall, path, Host=f"evil.example:{hall.port}")[0].status == 403
    assert ask(hall, "/", Host=f"localhost:{hall.port}")[0].status == 200


def test_pages_of_other_origins_get_no_page(hall: HallProcess) -> None:
    assert ask(hall, "/", Origin="https://evil.example")[0].status == 403
    assert ask(hall, "/", Origin="null")[0].status == 403
    assert ask(hall, "/", Origin=f"http://127.0.0.1:{hall.port}")[0].status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "TRACE", "CONNECT"])
def test_the_page_is_only_read(hall: HallProcess, method: str) -> None:
    assert ask(hall, "/", method=method)[0].status == 405


def test_without_the_page_the_root_says_what_it_always_said(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-page") as hall:
        response, body = ask(hall, "/")
        assert (response.status, body[:12]) == (404, b"Nothing here")
        assert not any(line.startswith("  page ") for line in hall.stdout.lines)
