"""How much of an inbox fits into one answer."""

import hypothesis.strategies as st
from hypothesis import given

from moothall.tools import caps
from moothall.tools.caps import (
    Caps,
    Size,
    fits,
    fitting,
    newest,
    room_for_text,
    shortened,
    size_of,
    tokens_in,
)

sizes = st.lists(st.builds(Size, st.integers(1, 5000), st.integers(1, 2000)), max_size=100)
limits = st.builds(Caps, st.integers(1, 60), st.integers(1, 40_000), st.none() | st.integers(1, 9000))


def total(items: list[Size]) -> Size:
    return Size(sum(each.characters for each in items), sum(each.tokens for each in items))


@given(sizes, limits)
def test_what_is_taken_is_within_every_cap(items: list[Size], limit: Caps) -> None:
    taken = fitting(items, limit)
    assert taken <= limit.messages
    assert taken == 1 or fits(total(items[:taken]), limit)


@given(sizes, limits)
def test_no_more_would_have_fitted(items: list[Size], limit: Caps) -> None:
    taken = fitting(items, limit)
    if 0 < taken < len(items):
        assert taken == limit.messages or not fits(total(items[: taken + 1]), limit)


@given(sizes, limits)
def test_something_is_always_told(items: list[Size], limit: Caps) -> None:
    assert (fitting(items, limit) > 0) == bool(items)


@given(sizes, limits)
def test_the_newest_are_the_first_of_the_other_end(items: list[Size], limit: Caps) -> None:
    assert newest(items, limit) == fitting(items[::-1], limit)


def test_the_caps_of_the_specification() -> None:
    assert fitting([Size(10, 3)] * 100, Caps()) == 50
    assert fitting([Size(1000, 250)] * 100, Caps()) == 32


@given(st.text(), st.text())
def test_tokens_add_up_to_no_less_than_the_whole(first: str, second: str) -> None:
    assert tokens_in(first + second) <= tokens_in(first) + tokens_in(second)
    assert tokens_in(first) <= len(first) or first.isascii()


def test_other_scripts_have_more_tokens() -> None:
    assert tokens_in("hello hello!") == 3
    assert tokens_in("你好世界") == 4


@given(st.text(max_size=300), st.integers(0, 200), st.integers(0, 300), st.none() | st.integers(0, 200))
def test_a_text_is_cut_to_what_fits_and_no_shorter(
    text: str, other: int, characters: int, tokens: int | None
) -> None:
    limit, rest = Caps(1, characters, tokens), Size(other, other // 4)
    room = room_for_text(text, rest, limit)

    def is_fine(length: int) -> bool:
        part = size_of(text[:length])
        return fits(Size(rest.characters + part.characters, rest.tokens + part.tokens), limit)

    assert 0 <= room <= len(text)
    assert room == 0 or is_fine(room)
    assert room == len(text) or not is_fine(room + 1)
    assert caps.LEAST_CHARACTERS < caps.CHARACTERS < caps.MOST_CHARACTERS


documents = st.recursive(
    st.none() | st.integers() | st.text(max_size=900),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in texts(part)]


@given(documents, st.integers(200, 5000))
def test_a_document_is_cut_in_its_longest_texts_and_says_so(document: object, characters: int) -> None:
    short, cut = shortened(document, characters)
    before, after = texts(document), texts(short)
    assert cut == sum(map(len, before)) - sum(map(len, after))
    assert all(whole.startswith(part) for whole, part in zip(before, after, strict=True))
    assert sum(map(len, after)) <= max(characters, caps.SHORTEST * len(after))
    longest = max(map(len, after), default=0)
    assert all(part == whole or len(part) == longest for whole, part in zip(before, after, strict=True))
    if not cut:
        assert short == document
