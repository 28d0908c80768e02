"""Which request has which answer."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.http import Response
from moothall.wire.http_routes import Asked, Route, RouteTable


def answer(asked: Asked) -> Response:
    return Response(200, b"")


def table(*paths: str) -> RouteTable:
    return RouteTable(Route(path, answer) for path in paths)


def found(routes: RouteTable, path: str) -> tuple[str, dict[str, str]] | None:
    hit = routes.find(path)
    return None if hit is None else (hit.route.path, dict(hit.parts))


def test_a_path_without_parts_is_compared_as_it_is() -> None:
    routes = table("/", "/page/main.js")
    assert found(routes, "/page/main.js") == ("/page/main.js", {})
    for other in (
        "/page/main.js/",
        "/page//main.js",
        "/page/%6dain.js",
        "/page/../page/main.js",
        "page/main.js",
    ):
        assert found(routes, other) is None


def test_a_path_without_parts_wins() -> None:
    routes = table("/agents/{id}", "/agents/count", "/agents/{id}/ratings")
    assert found(routes, "/agents/count") == ("/agents/count", {})
    assert found(routes, "/agents/ab12") == ("/agents/{id}", {"id": "ab12"})
    assert found(routes, "/agents/ab12/ratings") == ("/agents/{id}/ratings", {"id": "ab12"})
    assert found(routes, "/agents/ab12/other") is None


@pytest.mark.parametrize("path", ["/agents/", "/agents", "/agents/%ff", "/agents/a/b"])
def test_an_empty_value_and_one_that_is_not_utf8_fit_no_route(path: str) -> None:
    assert found(table("/agents/{id}"), path) is None


@given(st.text(min_size=1))
def test_a_value_is_what_the_client_has_quoted(value: str) -> None:
    try:
        quoted = quote(value, safe="")
    except UnicodeEncodeError:  # a lone surrogate, which no path can carry
        return
    assert found(table("/agents/{id}/ratings"), f"/agents/{quoted}/ratings") == (
        "/agents/{id}/ratings",
        {"id": value},
    )


@given(st.text(st.characters(max_codepoint=255)))
def test_any_path_has_a_route_or_none(path: str) -> None:
    hit = table("/", "/agents/{id}", "/channels/{name}/messages").find(path)
    assert hit is None or path.startswith("/")


@pytest.mark.parametrize("paths", [("/a", "/a"), ("/a/{x}", "/a/{y}")])
def test_two_routes_of_one_path_are_an_error(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="two routes"):
        table(*paths)
