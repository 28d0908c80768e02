"""The page, as browsers get it: each file is read, compressed and given its headers once, when the hall starts.

A request only picks one of the answers that lie ready. Its path is looked up as it was sent, so that none ever
reaches the file system.
"""

import gzip
from collections.abc import Iterable, Iterator
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from moothall.web.comments import without_comments
from moothall.web.styles import joined
from moothall.wire.http import Request, Response
from moothall.wire.http_routes import FILE_FRAMES, Asked, Route

INDEX: Final = "index.html"
PREFIX: Final = "/page/"
CONTENT_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".LICENSE": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
# In `connect-src`, 'self' is also the WebSocket of the same host and port (Content Security Policy 3, 6.7.2.8).
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "manifest-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
HEADERS: Final = (
    ("Content-Security-Policy", POLICY),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    # Ask again each time, with the ETag: a hall that was updated has a new page at once.
    ("Cache-Control", "no-cache"),
    ("Vary", "Accept-Encoding"),
)


class PageFile(NamedTuple):
    name: str  # below the folder of the page, with slashes
    content: bytes
    packed: bytes | None  # by gzip; None if that makes it no shorter

    @property
    def content_type(self) -> str:
        return CONTENT_TYPES[_suffix(self.name)]

    @property
    def transferred(self) -> int:
        """Bytes on the network, for a browser that takes gzip."""
        return len(self.content if self.packed is None else self.packed)


def page_folder() -> Traversable:
    """The files of the page in this installation."""
    return files("moothall.web") / "page"


def load(folder: Traversable) -> tuple[PageFile, ...]:
    """Read all files of a kind that browsers know. A folder that is not there has none."""
    if not folder.is_dir():
        return ()
    return tuple(_packed(name, content) for name, content in joined(dict(_read(folder, ""))).items())


def _read(folder: Traversable, above: str) -> Iterator[tuple[str, bytes]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        name = above + entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _read(entry, f"{name}/")
        elif _suffix(name) in CONTENT_TYPES:
            yield name, without_comments(name, entry.read_bytes())


def _packed(name: str, content: bytes) -> PageFile:
    packed = gzip.compress(content, mtime=0)
    return PageFile(name, content, packed if len(packed) < len(content) else None)


def routes(page: Iterable[PageFile]) -> tuple[Route, ...]:
    """`/` is the index, and the other files are below `/page/`."""
    return tuple(
        Route("/" if file.name == INDEX else PREFIX + file.name, _Answers(file), cost=FILE_FRAMES)
        for file in page
    )


class _Answers:
    """All answers that there can be for one file."""

    def __init__(self, file: PageFile) -> None:
        kind = file.content_type
        plain = f'"{sha256(file.content).hexdigest()[:32]}"'
        self._plain = Response(200, file.content, kind, (*HEADERS, ("ETag", plain)), keep_alive=True)
        self._packed: Response | None = None
        self._unchanged = {plain: _not_modified(plain)}
        if file.packed is not None:
            tag = f'{plain[:-1]}-gzip"'
            extra = (*HEADERS, ("ETag", tag), ("Content-Encoding", "gzip"))
            self._packed = Response(200, file.packed, kind, extra, keep_alive=True)
            self._unchanged[tag] = _not_modified(tag)

    def __call__(self, asked: Asked) -> Response:
        for tag, unchanged in self._unchanged.items():
            if asked.request.knows(tag):
                return unchanged
        if self._packed is not None and _takes_gzip(asked.request):
            return self._packed
        return self._plain


def _not_modified(tag: str) -> Response:
    return Response(304, b"", headers=(*HEADERS, ("ETag", tag)), keep_alive=True)


def _takes_gzip(request: Request) -> bool:
    """What is said of gzip counts, and else what is said of `*` (RFC 9110, 12.5.3). A weight of 0 is a no."""
    weights: dict[str, str] = {}
    for choice in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = choice.partition(";")
        weights[coding.strip()] = weight.replace(" ", "")
    weight = weights.get("gzip", weights.get("*", "q=0"))
    return weight.rstrip("0.") != "q="


def _suffix(name: str) -> str:
    stem, dot, suffix = name.rpartition(".")
    return dot + suffix if stem else ""
