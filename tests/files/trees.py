"""Made-up files for the tests of archives."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from moothall.files import paths, slurp
from moothall.files.reader import Closed, Opened, read
from moothall.files.slurp import Entry

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())[
    "slurp"
]
CREATED = "2026-01-02T03:04:05.678Z"

# Contents in which the markers of the format, of JSON and of UTF-8 are frequent.
_PIECES = st.sampled_from(
    b'\n|\r|=== END a ===\n|=== a ===\n|===|[binary]|"|\\|\0|\x01|\xff|\xf0\x9f\x98\x80|\xc3\xa9|hello|\n\n'.split(
        b"|"
    )
)
contents = st.one_of(st.binary(max_size=300), st.lists(_PIECES, max_size=20).map(b"".join))
_parts = st.one_of(
    st.sampled_from(("a", "b", "END a", "x [binary]", "a ===", "=== a", "naïve", "😀.txt", ".hidden")),
    st.text(min_size=1, max_size=12),
)
names = st.lists(_parts, min_size=1, max_size=3).map("/".join).filter(lambda name: paths.fault(name) is None)


@st.composite
def _trees(draw: st.DrawFn) -> dict[str, bytes]:
    taken = paths.Names()
    drawn = draw(st.lists(st.tuples(names, contents), max_size=6))
    return {name: content for name, content in drawn if taken.clash(name) is None}


trees = _trees()


def entry(name: str, content: bytes, is_binary: bool | None = None) -> Entry:
    found = slurp.survey(name, BytesIO(content))
    marked = found.is_binary if is_binary is None else is_binary
    return Entry(name, found.size, found.sha256, marked, lambda: BytesIO(content))


def archive(tree: dict[str, bytes]) -> bytes:
    entries = [entry(name, content) for name, content in tree.items()]
    return b"".join(slurp.write(entries, CREATED))


def blocks(whole: bytes, size: int) -> list[bytes]:
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def read_all(whole: bytes, size: int = 4096) -> list[tuple[str, bytes, str | None]]:
    """Each file of an archive: its path, its content, and its fault."""
    found: list[tuple[str, bytes, str | None]] = []
    path, content = "", b""
    for event in read(blocks(whole, size)):
        if isinstance(event, Opened):
            path, content = event.path, b""
        elif isinstance(event, Closed):
            found.append((path, b"" if event.fault else content, event.fault))
        else:
            content += event
    return found
