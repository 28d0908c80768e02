"""What the market keeps can be kept by any store."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage
from moothall.market.storable import MAX_NESTING, MAX_VALUES, bounded_json, kept_json, require_bounded

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.dictionaries(texts, texts | st.integers() | st.none(), max_size=3), max_size=3))
def test_ordinary_values_are_kept_as_they_are(value: Any) -> None:
    assert msgspec.json.decode(kept_json(value)) == value


@given(texts, texts)
def test_nul_is_refused_wherever_it_stands(before: str, after: str) -> None:
    with pytest.raises(InvalidMessage, match="NUL"):
        kept_json({"field": [before + "\0" + after]})


@pytest.mark.parametrize("text", ["\\u0000", "\\\\u0000", "u0000", "\\"])
def test_letters_that_look_like_nul_are_not(text: str) -> None:
    assert msgspec.json.decode(kept_json(text)) == text


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ude00\ud83d"])
def test_half_a_character_is_refused(text: str) -> None:
    with pytest.raises(InvalidMessage, match="lone surrogate"):
        kept_json({"a": text})


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(InvalidMessage, match="digits"):
        kept_json(10**5000)


def nested(levels: int, kind: type) -> Any:
    value: Any = "core"
    for _ in range(levels):
        value = [value] if kind is list else {"a": value}
    return value


@pytest.mark.parametrize("kind", [list, dict])
def test_nesting_has_an_end(kind: type) -> None:
    require_bounded(nested(MAX_NESTING - 1, kind), "terms")
    with pytest.raises(InvalidMessage, match="terms"):
        require_bounded(nested(MAX_NESTING, kind), "terms")
    with pytest.raises(InvalidMessage):
        require_bounded(nested(100_000, kind), "terms")


@pytest.mark.parametrize(
    "values",
    [
        [0] * (MAX_VALUES + 1),
        dict.fromkeys(map(str, range(MAX_VALUES + 1))),
        [[0] * (MAX_VALUES // 2), [0] * (MAX_VALUES // 2)],  # and the two lists
    ],
)
def test_the_number_of_values_has_an_end(values: Any) -> None:
    with pytest.raises(InvalidMessage, match=f"`terms` holds more than {MAX_VALUES} values"):
        require_bounded(values, "terms")
    values.pop(0 if isinstance(values, list) else "0")
    require_bounded(values, "terms")


def test_too_many_values_are_refused_before_they_are_looked_at() -> None:
    """Only how many there are is asked for."""

    class Unread(list[int]):
        def __iter__(self) -> Any:
            raise AssertionError("looked at")

    with pytest.raises(InvalidMessage, match="values"):
        require_bounded([Unread([0] * (MAX_VALUES + 1))], "terms")


def test_bytes_count_as_they_are_written_out() -> None:
    assert bounded_json([1e15], "items", 20) == b"[1000000000000000.0]"
    with pytest.raises(InvalidMessage, match="`items` has more than 19 bytes"):
        bounded_json([1e15], "items", 19)
