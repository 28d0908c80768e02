import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moothall.wire.agentchat.jstext import (
    field_text,
    json_text,
    number_text,
    round_half_up,
    trim,
    utf8,
    utf16_length,
)

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "agentchat.json").read_text())

finite = st.floats(allow_nan=False, allow_infinity=False)
any_text = st.text(st.characters(exclude_categories=()), max_size=40)  # lone surrogates included
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | finite | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("vector", VECTORS["js_number_text"], ids=lambda vector: vector["json_input"])
def test_number_vectors(vector: dict[str, str]) -> None:
    assert number_text(json.loads(vector["json_input"])) == vector["text"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (123456789012345680000.0, "123456789012345680000"),
        (0.00001, "0.00001"),
        (4.35, "4.35"),
        (-1e-7, "-1e-7"),
        (-1e21, "-1e+21"),
        (2**53 - 1, "9007199254740991"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 1, "-9007199254740992"),
        (2**64, "18446744073709552000"),
        (10**400, "Infinity"),
        (-(10**400), "-Infinity"),
        (math.nan, "NaN"),
    ],
)
def test_number_text_at_the_edges_of_the_notation(value: float, text: str) -> None:
    assert number_text(value) == text


@given(finite)
def test_number_text_reads_back_as_the_same_number(x: float) -> None:
    assert float(number_text(x)) == x


@given(finite)
def test_number_text_changes_notation_where_ecmascript_does(x: float) -> None:
    text = number_text(x)
    assert ("e" in text) == (x != 0 and not 1e-6 <= abs(x) < 1e21)
    assert "e0" not in text
    assert ".0e" not in text
    assert not text.endswith(".0")


@given(st.integers())
def test_an_integer_is_read_as_the_nearest_double(n: int) -> None:
    assert number_text(n) == number_text(float(n))


@pytest.mark.parametrize("vector", VECTORS["json_stringify"], ids=lambda vector: vector["value_ascii_json"])
def test_json_vectors(vector: dict[str, str]) -> None:
    assert json_text(json.loads(vector["value_ascii_json"])) == json.loads(vector["text_ascii_escaped"])


def test_only_array_indices_come_first() -> None:
    keys = ["b", "4294967295", "01", "4294967294", "-1", "7", "1.5", "0", "", "\u0667"]
    in_order = list(json.loads(json_text(dict.fromkeys(keys, 1))))
    assert in_order == ["0", "7", "4294967294", "b", "4294967295", "01", "-1", "1.5", "", "\u0667"]


def test_index_keys_are_sorted_at_every_depth() -> None:
    assert json_text([{"x": {"2": [], "1": {}}, "0": ()}]) == '[{"0":[],"x":{"1":{},"2":[]}}]'


def test_surrogates_side_by_side_are_one_character() -> None:
    assert json_text("\ud83d\ude00") == '"\U0001f600"'
    assert json_text("\ude00\ud83d") == '"\\ude00\\ud83d"'


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, 10**400])
def test_a_number_that_is_not_finite_is_null_in_json(number: float) -> None:
    assert json_text([number]) == "[null]"


def test_a_value_that_json_cannot_hold_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="bytes"):
        json_text([b"raw"])


def test_depth_is_not_limited_by_the_stack() -> None:
    depth = sys.getrecursionlimit() * 3
    nested: object = 1
    for _ in range(depth):
        nested = [nested]
    assert json_text(nested) == "[" * depth + "1" + "]" * depth
    assert field_text(nested) == "1"


@given(json_values)
def test_json_text_reads_back_as_the_same_value(value: object) -> None:
    text = json_text(value)
    text.encode()  # never a lone surrogate
    assert json_text(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.text() | st.booleans() | st.none() | st.integers(-(2**53), 2**53)))
def test_json_text_is_compact_json_but_for_the_order_of_keys(value: dict[str, object]) -> None:
    text = json_text(value)
    assert json.loads(text) == value
    assert json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) == text


@pytest.mark.parametrize("vector", VECTORS["math_round"], ids=lambda vector: str(vector["x"]))
def test_rounding_vectors(vector: dict[str, Any]) -> None:
    assert round_half_up(vector["x"]) == vector["round"]


@given(finite)
@example(0.49999999999999994)
@example(-0.5)
@example(-5e-324)
@example(4503599627370497.5)
@example(9007199254740993.0)
def test_rounding_is_to_the_nearest_and_ties_go_up(x: float) -> None:
    distance = round_half_up(x) - Fraction(x)
    assert -Fraction(1, 2) < distance <= Fraction(1, 2)


@given(any_text)
def test_length_counts_utf16_units(text: str) -> None:
    assert utf16_length(text) == sum(2 if ord(character) > 0xFFFF else 1 for character in text)


def test_trim_takes_what_javascript_calls_white_space() -> None:
    blanks = "\t\n\v\f\r \xa0\ufeff\u2028\u2029\u1680\u2000\u200a\u202f\u205f\u3000"
    assert trim(f"{blanks}a{blanks}b{blanks}") == f"a{blanks}b"


@pytest.mark.parametrize("character", ["\x00", "\x1c", "\x1f", "\x85", "\u180e", "\u200b", "\u2060"])
def test_trim_leaves_what_only_python_or_nobody_calls_white_space(character: str) -> None:
    assert trim(f" {character} ") == character


@pytest.mark.parametrize("value", [None, False, 0, 0.0, -0.0, math.nan, ""])
def test_a_falsy_field_is_empty(value: object) -> None:
    assert field_text(value) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        (" ", " "),
        (True, "true"),
        (12.50, "12.5"),
        (1e21, "1e+21"),
        (-1, "-1"),
        ({}, "[object Object]"),
        ([], ""),
        ([[]], ""),
        ([1, [2, None, [False, 0]], {}, [], "x"], "1,2,,false,0,[object Object],,x"),
    ],
)
def test_a_field_is_written_as_a_javascript_string(value: object, text: str) -> None:
    assert field_text(value) == text


def test_a_field_of_no_json_type_is_our_mistake() -> None:
    with pytest.raises(TypeError, match="bytes"):
        field_text(b"raw")


@given(json_values)
def test_every_json_value_can_stand_in_a_field(value: object) -> None:
    assert isinstance(field_text(value), str)


@given(any_text)
@example("a\ud83d")
@example("\ud83d\ude00")
def test_utf8_replaces_lone_surrogates_only(text: str) -> None:
    assert utf8(text).decode() == text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
