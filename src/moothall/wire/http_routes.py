"""Which plain HTTP request has which answer: a table of routes.

A route is one row: a path, a function that answers, and what is checked before it. The port runs the checks once,
for all rows. A path is compared as it was sent, byte for byte. A part of it in braces stands for one segment of a
request's path, percent-decoded: `/channels/{name}` has the value `#general` for `/channels/%23general`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from moothall.wire.http import Request, Response

READS: Final = ("GET", "HEAD")
# What a report such as /metrics costs, in frames: it looks at everything in the hall
REPORT_FRAMES: Final = 100
FILE_FRAMES: Final = 1  # what an answer costs that lies ready


class Asked(NamedTuple):
    """A request that passed the checks of its route."""

    request: Request
    ip: str
    reply: Callable[[Response], None]  # for a route that has no answer yet
    parts: Mapping[str, str] = {}  # of the path, by the names in braces
    is_foreign_page: bool = False  # a page of another origin asks: True only with `any_origin`


# None: the route calls `Asked.reply` later. A caller that is gone by then is not told.
Answer = Callable[[Asked], Response | None]


def _as_it_is(response: Response) -> Response:
    return response


class Route(NamedTuple):
    path: str
    answer: Answer
    cost: float = REPORT_FRAMES  # in frames, for the address that asks
    any_host: bool = False  # answer on loopback under foreign names too
    any_origin: bool = False  # answer pages of foreign origins too
    # What the port refuses, in the form of the route's answers
    refusal: Callable[[Response], Response] = _as_it_is
    methods: tuple[str, ...] = READS


class Found(NamedTuple):
    route: Route
    parts: Mapping[str, str]


class RouteTable:
    """Raises ValueError if two routes have one path."""

    def __init__(self, routes: Iterable[Route] = ()) -> None:
        self._plain: dict[str, Found] = {}
        # By the number of segments, so that a long path costs no more than a short one.
        self._with_parts: dict[int, list[tuple[tuple[str, ...], Route]]] = {}
        paths: set[str] = set()
        for route in routes:
            pattern = tuple(route.path.split("/"))
            shape = "/".join("{}" if _is_part(segment) else segment for segment in pattern)
            if shape in paths:
                raise ValueError(f"two routes have the path {route.path}")
            paths.add(shape)
            if any(map(_is_part, pattern)):
                self._with_parts.setdefault(len(pattern), []).append((pattern, route))
            else:
                self._plain[route.path] = Found(route, {})

    def find(self, path: str) -> Found | None:
        """The route of a request's path. One without parts wins."""
        found = self._plain.get(path)
        if found is not None or not self._with_parts:
            return found
        for pattern, route in self._with_parts.get(path.count("/") + 1, ()):
            parts = _parts(pattern, path.split("/"))
            if parts is not None:
                return Found(route, parts)
        return None


def _is_part(segment: str) -> bool:
    return segment.startswith("{") and segment.endswith("}")


def _parts(pattern: Iterable[str], segments: Iterable[str]) -> Mapping[str, str] | None:
    """None: the path does not fit, a value is empty, or it is not UTF-8."""
    parts: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if _is_part(expected):
            try:
                value = unquote_to_bytes(segment.encode("latin-1")).decode()
            except UnicodeDecodeError:
                return None
            if not value:
                return None
            parts[expected[1:-1]] = value
        elif expected != segment:
            return None
    return parts
