"""Conversations with a model: what is kept of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.runner.speakers import Exchanges, _arguments, _length

FIRST: dict[str, Any] = {"role": "user", "content": "prompt"}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def answered(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def test_messages_are_in_order() -> None:
    exchanges = Exchanges([FIRST], 1000)
    exchanges.begin(said("a"))
    exchanges.add([answered("b")])
    exchanges.begin(said("c"))
    assert exchanges.messages() == [FIRST, said("a"), answered("b"), said("c")]


@given(st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), min_size=1, max_size=30))
def test_the_oldest_exchanges_make_way_and_none_is_torn(talk: list[tuple[str, str]]) -> None:
    exchanges, most = Exchanges([FIRST], 250), 1000
    for question, answer in talk:
        exchanges.begin(said(question))
        exchanges.add([answered(answer)])
        first, *rest = exchanges.messages()
        assert first == FIRST
        assert [each["role"] for each in rest] == ["assistant", "user"] * (len(rest) // 2)
        assert rest[-2:] == [said(question), answered(answer)]
        assert len(rest) == 2 or sum(map(_length, rest)) <= most


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("{", {"text": "{"}),
        ("[1]", {"value": [1]}),
        ("[" * 100_000, {"text": "[" * 100_000}),
    ],
)
def test_arguments_of_a_model_are_any_text(text: str, expected: dict[str, Any]) -> None:
    assert _arguments(text) == expected
