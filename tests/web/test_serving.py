"""The files of the page as a browser gets them: types, compression, validators, headers."""

import gzip
from pathlib import Path

import pytest

from moothall.hall.budgets import CONNECTION_FRAMES
from moothall.settings import Settings
from moothall.web import serving
from moothall.wire.http import Request, Response
from moothall.wire.http_routes import Asked, RouteTable

SCRIPT = b"export const answer = 42;\n" * 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vendor").mkdir()
    (tmp_path / "index.html").write_bytes(b"<!doctype html>\n" * 50)
    (tmp_path / "main.js").write_bytes(SCRIPT)
    (tmp_path / "vendor" / "tiny.js").write_bytes(b"1")
    (tmp_path / "vendor" / "tiny.LICENSE").write_bytes(b"Do as you like.\n")
    (tmp_path / ".secret.js").write_bytes(b"no")
    (tmp_path / "main.js~").write_bytes(b"no")
    (tmp_path / "README").write_bytes(b"no")
    return tmp_path


def asked(routes: RouteTable, path: str, **headers: str) -> Response | None:
    """None: there is nothing at this path."""
    found = routes.find(path)
    if found is None:
        return None
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request("GET", path, "", {"host": "localhost", **named})
    return found.route.answer(Asked(request, "127.0.0.1", lambda response: None))


def got(routes: RouteTable, path: str, **headers: str) -> Response:
    response = asked(routes, path, **headers)
    assert response is not None
    return response


@pytest.fixture
def routes(folder: Path) -> RouteTable:
    return RouteTable(serving.routes(serving.load(folder)))


def test_the_index_is_at_the_root_and_the_rest_below_page(routes: RouteTable) -> None:
    assert got(routes, "/").content_type == "text/html; charset=utf-8"
    assert got(routes, "/page/main.js").content_type == "text/javascript; charset=utf-8"
    assert got(routes, "/page/vendor/tiny.LICENSE").content_type == "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    "path",
    [
        "/page/index.html",
        "/page/",
        "/page",
        "/page/.secret.js",
        "/page/main.js~",
        "/page/README",
        "/page/../main.js",
        "/page/%2e%2e/main.js",
        "/page/vendor/../main.js",
        "/page/vendor%2ftiny.js",
        "/page//main.js",
        "/page/main.js%00",
        "/page/MAIN.JS",
        "//page/main.js",
    ],
)
def test_nothing_else_is_there(routes: RouteTable, path: str) -> None:
    assert asked(routes, path) is None


@pytest.mark.parametrize(
    "accepted", ["gzip", "br, gzip;q=0.5", "GZIP", "*", "deflate, gzip; q=1.0", "*;q=0, gzip"]
)
def test_a_browser_that_takes_gzip_gets_it(routes: RouteTable, accepted: str) -> None:
    response = got(routes, "/page/main.js", accept_encoding=accepted)
    assert ("Content-Encoding", "gzip") in response.headers
    assert gzip.decompress(response.body) == SCRIPT
    assert len(response.body) < len(SCRIPT) / 4


@pytest.mark.parametrize(
    "accepted", ["", "br", "gzip;q=0", "gzip; q=0.000, br", "xgzip", "*, gzip;q=0", "*;q=0"]
)
def test_others_get_the_file_as_it_is(routes: RouteTable, accepted: str) -> None:
    response = got(routes, "/page/main.js", accept_encoding=accepted)
    assert response.body == SCRIPT
    assert "Content-Encoding" not in dict(response.headers)


def test_what_does_not_get_shorter_is_not_compressed(routes: RouteTable) -> None:
    assert got(routes, "/page/vendor/tiny.js", accept_encoding="gzip").body == b"1"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
@pytest.mark.parametrize("form", ["{}", "W/{}", '"other", {}'])
def test_who_has_it_already_is_told_so(routes: RouteTable, encoding: str, form: str) -> None:
    first = got(routes, "/page/main.js", accept_encoding=encoding)
    tag = dict(first.headers)["ETag"]
    again = got(routes, "/page/main.js", accept_encoding=encoding, if_none_match=form.format(tag))
    assert (again.status, again.body) == (304, b"")
    assert dict(again.headers)["ETag"] == tag
    assert b"Content-Length" not in again.encode()
    assert got(routes, "/page/main.js", if_none_match='"other"').status == 200


def test_both_forms_of_a_file_have_tags_of_their_own(routes: RouteTable) -> None:
    tags = {dict(got(routes, "/", accept_encoding=coding).headers)["ETag"] for coding in ("gzip", "br")}
    assert len(tags) == 2


def test_a_file_that_changed_has_another_tag(folder: Path) -> None:
    def tag() -> str:
        return dict(got(RouteTable(serving.routes(serving.load(folder))), "/").headers)["ETag"]

    before = tag()
    (folder / "index.html").write_bytes(b"<!doctype html>\n" * 51)
    assert tag() != before


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
def test_every_answer_says_what_a_browser_must_not_do(routes: RouteTable, path: str) -> None:
    first = got(routes, path)
    again = got(routes, path, if_none_match=dict(first.headers)["ETag"])
    for response in (first, got(routes, path, accept_encoding="gzip"), again):
        headers = dict(response.headers)
        policy = headers["Content-Security-Policy"].split("; ")
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "connect-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Frame-Options"] == "DENY"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert b"X-Content-Type-Options: nosniff" in response.encode()


def test_a_browser_loads_the_whole_page_at_once_within_the_budget_of_its_address() -> None:
    """However fast it is. Browsers have six connections to a host."""
    files = serving.routes(serving.load(serving.page_folder()))
    cost = sum(route.cost for route in files) + 6 * CONNECTION_FRAMES
    assert len(files) > 10
    assert cost <= Settings().address_frames.limit / 2  # and the rest for those behind the same address


def test_a_folder_that_is_not_there_serves_nothing(tmp_path: Path) -> None:
    assert serving.load(tmp_path / "none") == ()
