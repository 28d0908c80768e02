"""Writing archives: byte by byte as the reference does, and without damage."""

import base64
from io import BytesIO

import pytest
from hypothesis import given

from moothall.files import slurp
from tests.files.trees import CREATED, VECTORS, archive, entry, read_all, trees


def test_the_vector_byte_by_byte() -> None:
    entries = [entry(f["name"], base64.b64decode(f["base64"]), f["binary"]) for f in VECTORS["files"]]
    assert [each.sha256 for each in entries] == [f["sha256"] for f in VECTORS["files"]]
    assert b"".join(slurp.write(entries, VECTORS["created"])).decode() == VECTORS["archive"]


@given(trees)
def test_what_is_written_is_read_as_it_was(tree: dict[str, bytes]) -> None:
    assert read_all(archive(tree)) == [(name, content, None) for name, content in tree.items()]


@pytest.mark.parametrize(
    "content",
    [
        b"",  # would become a line feed
        b"no final newline",
        b"two final newlines\n\n",
        b"not UTF-8: \xff\n",
        b"cut in the middle: \xf0\x9f\n",
        b"\0 in front\n",
        b"=== END a ===\n",
        b"line\n=== END a ===\nline\n",
        b"\x01" * 10_000 + b"\n",  # 70 KB of JSON
    ],
)
def test_files_that_the_format_would_damage_are_binary(content: bytes) -> None:
    assert slurp.survey("a", BytesIO(content)).is_binary


@pytest.mark.parametrize(
    "content", [b"\n" * 0 + b"hello\n", b"=== END b ===\n", b"=== a ===\n", "é\n".encode(), b'{"a": "b"}\n']
)
def test_other_text_is_inline(content: bytes) -> None:
    assert not slurp.survey("a", BytesIO(content)).is_binary


@pytest.mark.parametrize("name", ["END a", "a [binary]"])
def test_names_that_the_format_would_misread_are_binary(name: str) -> None:
    assert slurp.survey(name, BytesIO(b"hello\n")).is_binary
    assert read_all(archive({name: b"hello\n"})) == [(name, b"hello\n", None)]


def test_a_marker_across_two_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"x\n=== END a ===\n"
    for size in range(1, len(content) + 1):
        monkeypatch.setattr(slurp, "BLOCK", size)
        assert slurp.survey("a", BytesIO(content)).is_binary


def test_a_nul_counts_in_the_first_8192_bytes() -> None:
    assert slurp.survey("a", BytesIO(b"x" * 8191 + b"\0\n")).is_binary
    assert not slurp.survey("a", BytesIO(b"x" * 8192 + b"\0\n")).is_binary


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (1280, "1.3 KB"),  # halves go up, as in JavaScript
        (1024 * 1024 - 1, "1024.0 KB"),
        (1024 * 1024, "1.0 MB"),
        (52_428_800, "50.0 MB"),
    ],
)
def test_sizes(size: int, text: str) -> None:
    assert slurp.human_size(size) == text


def test_names_are_padded_by_their_length_in_javascript() -> None:
    header = slurp.header([entry("😀", b"x\n"), entry("abcde", b"x\n")], CREATED)
    lines = [line for line in header.splitlines() if "sha256" in line]
    assert lines[0].startswith("#   😀            2 B")
    assert lines[1].startswith("#   abcde         2 B")


def test_a_large_file_is_written_in_small_pieces() -> None:
    content = bytes(range(256)) * 40_000
    pieces = list(slurp.write([entry("a", content, is_binary=True)], CREATED))
    assert max(map(len, pieces)) < 100_000
    assert read_all(b"".join(pieces)) == [("a", content, None)]
