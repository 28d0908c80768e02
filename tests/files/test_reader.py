"""Reading archives: those of others, in blocks of any size, and nonsense."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.files import reader
from moothall.files.reader import Closed, Opened, read
from tests.files.trees import VECTORS, archive, blocks, read_all, trees


@pytest.mark.parametrize("size", [1, 2, 7, 64, 10_000])
def test_the_vector(size: int) -> None:
    found = {
        path: content for path, content, fault in read_all(VECTORS["archive"].encode(), size) if not fault
    }
    assert found == {each["name"]: base64.b64decode(each["base64"]) for each in VECTORS["extracts_to"]}


@given(trees, st.integers(1, 50))
def test_blocks_of_any_size(tree: dict[str, bytes], size: int) -> None:
    whole = archive(tree)
    assert read_all(whole, size) == read_all(whole, 10_000)


@given(st.binary(max_size=500), st.integers(1, 100))
def test_nonsense_raises_nothing(whole: bytes, size: int) -> None:
    check_order(whole, size)


_LINES = st.sampled_from(
    b"=== a ===\n|=== a [binary] ===\n|=== END a ===\n|AAAA\n|====\n|A=A=\n|\n|text|=== \xff ===\n|===  ===\n"
    b"|=== END  ===\n|=== END a [binary] ===\n|\r\n|# x\n".split(b"|")
)


@given(st.lists(_LINES, max_size=30).map(b"".join), st.integers(1, 60))
def test_markers_in_any_order(whole: bytes, size: int) -> None:
    check_order(whole, size)
    assert read_all(whole, size) == read_all(whole)


def check_order(whole: bytes, size: int) -> None:
    """Opened, content, Closed; nothing else, and no more content than the archive has."""
    is_open = False
    total = 0
    for event in read(blocks(whole, size)):
        if isinstance(event, Opened):
            assert not is_open
            is_open = True
        else:
            assert is_open
            is_open = not isinstance(event, Closed)
            total += 0 if isinstance(event, Closed) else len(event)
    assert not is_open
    assert total <= len(whole)


def test_base64_of_other_writers() -> None:
    def content(lines: str) -> tuple[bytes, str | None]:
        ((_, found, fault),) = read_all(f"=== a [binary] ===\n{lines}=== END a ===\n".encode())
        return found, fault

    assert content("") == (b"", None)
    assert content("aGVsbG8=\n") == (b"hello", None)
    assert content("aGVsbG8\n") == (b"hello", None)  # padding may be missing
    assert content("aG\r\nVs\nbG8=\n") == (b"hello", None)
    for wrong in ("a\n", "aGVs!\n", "aGVsbG8=aGVsbG8=\n", "aGVsbG8=\naGVs\n", "====\n", "é\n"):
        assert content(wrong)[1] == "its content is not base64"


def test_an_archive_that_ends_too_early() -> None:
    assert read_all(b"=== a ===\nhello\n") == [("a", b"", "the archive ends in the middle of it")]
    assert read_all(b"=== a ===\nhello\n=== END a ===") == [("a", b"hello\n", None)]


def test_a_line_that_is_too_long_opens_nothing() -> None:
    name = "x" * reader.MAX_MARKER
    assert read_all(f"=== {name} ===\n=== b ===\n=== END b ===\n".encode()) == [("b", b"\n", None)]
    name = "x" * 10_000
    assert [path for path, *_ in read_all(f"=== {name} ===\n=== END {name} ===\n".encode())] == [name]


def test_memory_is_bounded_by_a_block() -> None:
    size = 64 * 1024
    line = b"x" * size

    def long_line() -> object:
        yield b"=== a ===\n"
        for _ in range(1000):
            yield line
        yield b"\n=== END a ===\n"

    total = 0
    for event in read(long_line()):  # type: ignore[arg-type]
        if isinstance(event, bytes):
            assert len(event) <= 2 * size
            total += len(event)
    assert total == 1000 * size + 1
