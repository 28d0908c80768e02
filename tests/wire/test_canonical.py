"""One text for one value, however it was laid out; never the same text for two values."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.agentchat.jstext import json_text
from moothall.wire.canonical import (
    MAX_BYTES,
    MAX_DEPTH,
    NotCanonical,
    canonical_json,
    encode_plain,
    is_plain,
    read_json,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | numbers | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=25,
)


def as_javascript_reads(value: Any) -> Any:
    """What JSON.parse gives: every number is a double, and True is not 1."""
    if isinstance(value, dict):
        return {"object": sorted((name, as_javascript_reads(member)) for name, member in value.items())}
    if isinstance(value, list):
        return {"array": [as_javascript_reads(member) for member in value]}
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return {"number": float(value)}
    return value


RFC_VALUE = {  # RFC 8785, 3.2.2
    "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
    "literals": [None, True, False],
}
RFC_TEXT = (
    '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
)
RFC_NAMES = {"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7}  # 3.2.3
NAMES_TEXT = '{"\\r":2,"1":4,"\u0080":6,"\u00f6":7,"\u20ac":1,"\U0001f600":5,"\ufb33":3}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (RFC_VALUE, RFC_TEXT),
        (RFC_NAMES, NAMES_TEXT),
        ([-0.0, 0, 1.0, 2**53, 10**21, 1e20], "[0,0,1,9007199254740992,1e+21,100000000000000000000]"),
        # beyond what RFC 8785 has texts for
        ([10**400, -(10**400), float("inf"), None], "[Infinity,-Infinity,Infinity,null]"),
    ],
)
def test_texts_that_others_agree_on(value: Any, text: str) -> None:
    assert canonical_json(value).decode() == text


@given(values)
def test_laying_a_file_out_anew_changes_nothing(value: Any) -> None:
    text = canonical_json(value)
    for layout in (
        json.dumps(value, indent=3),
        json.dumps(value, ensure_ascii=False, sort_keys=True),
        json_text(value),
        msgspec.json.encode(value).decode(),
    ):
        assert canonical_json(json.loads(layout)) == text


@given(values, values)
def test_two_values_never_share_a_text(one: Any, other: Any) -> None:
    same = canonical_json(one) == canonical_json(other)
    assert same == (json.dumps(as_javascript_reads(one)) == json.dumps(as_javascript_reads(other)))


@given(st.dictionaries(st.sampled_from(["b", "a", "Z", "10", "9"]), scalars | st.lists(scalars, max_size=3)))
def test_the_quick_way_writes_the_same_where_it_may_be_taken(value: dict[str, Any]) -> None:
    members = [
        each for member in value.values() for each in (member if isinstance(member, list) else [member])
    ]
    if all(map(is_plain, members)):
        assert encode_plain(value) == canonical_json(value)


def test_the_value_itself_stays_as_it_was() -> None:
    value = {"b": [1.0, {"d": 1, "c": 2}], "a": 1}
    canonical_json(value)
    assert json.dumps(value) == '{"b": [1.0, {"d": 1, "c": 2}], "a": 1}'


def test_limits() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]
    assert canonical_json(deep)
    with pytest.raises(NotCanonical, match="levels"):
        canonical_json([deep])
    with pytest.raises(NotCanonical, match="bytes"):
        canonical_json(["a" * MAX_BYTES])
    with pytest.raises(NotCanonical, match="surrogate"):
        canonical_json({"\ud800": 1})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a":1,"a":1}', "two members 'a'"),
        ('[{"b":{"a":1,"c":2,"a":3}}]', "two members 'a'"),
        ("NaN", "not a number"),
        ("[-Infinity]", "not a number"),
        ("{", "Expecting"),
        (b"\xff", "decode"),
    ],
)
def test_what_two_programs_could_read_differently_is_refused(text: str | bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_json(text)


def test_what_is_read_is_the_value() -> None:
    assert read_json('{"a": [1, 2.5, {"b": null}]}') == {"a": [1, 2.5, {"b": None}]}
