"""Bytes as a network delivers them: cut anywhere."""

from collections.abc import Iterator

from hypothesis import strategies as st


def cuts() -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(1, 400), max_size=30)


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """`data` in pieces of these sizes, and then the rest."""
    position = 0
    for size in sizes:
        if position < len(data):
            yield data[position : position + size]
            position += size
    yield data[position:]
