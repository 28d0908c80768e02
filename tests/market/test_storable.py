"""What the market keeps can be kept by any store."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import InvalidMessage
from moothall.market.storable import MAX_NESTING, kept_json, require_shallow

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
    with pytest.raises(InvalidMessage, match="half a character"):
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
    require_shallow(nested(MAX_NESTING - 1, kind), "terms")
    with pytest.raises(InvalidMessage, match="terms"):
        require_shallow(nested(MAX_NESTING, kind), "terms")
    with pytest.raises(InvalidMessage):
        require_shallow(nested(100_000, kind), "terms")
