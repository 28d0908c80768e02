"""What cannot be seen is written as escapes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.tools.visible import in_json, in_words

HIDDEN = [
    "\x9b",
    "\x7f",
    "\u202e",
    "\u2066",
    "\u200b",
    "\U000e0041\U000e0042",
    "\U000e0100",
    "\u2028",
    "\ufeff",
]

values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.sampled_from(HIDDEN)),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
)


@given(values)
def test_the_value_is_the_same(value: object) -> None:
    shown = in_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert not any(letter in shown for letter in "".join(HIDDEN))


@pytest.mark.parametrize("text", HIDDEN)
def test_a_reader_sees_it(text: str) -> None:
    assert in_words(f"a{text}b").startswith("a\\u")
    assert in_json(f'"{text}"').startswith('"\\u')


def test_texts_of_people_stay() -> None:
    for text in ("Zażółć gęślą jaźń", "日本語\n\tテキスト", "نص", "👩\u200d🚀", "क\u200dष"):
        assert in_words(text) == in_json(text) == text


def test_words_have_no_controls() -> None:
    assert in_words("\x1b[2J\r\n\tx\x00") == "\\u001b[2J\\u000d\n\tx\\u0000"
