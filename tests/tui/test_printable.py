import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size

from moothall.tui.printable import (
    MAX_MARKS,
    MAX_NAME,
    exactly,
    indented,
    one_line,
    printable,
    shown_name,
    steady,
    steady_line,
)

anything = st.text(st.characters(codec=None))


@given(anything)
def test_nothing_that_steers_a_terminal_gets_through(text: str) -> None:
    shown = printable(text)
    assert {unicodedata.category(letter) for letter in shown if letter != "\n"}.isdisjoint(
        {"Cc", "Cs", "Zl", "Zp"}
    )
    shown.encode()  # a terminal can have it


@given(anything)
def test_one_line_is_one_line(text: str) -> None:
    assert len(one_line(text).splitlines()) <= 1


@given(anything)
def test_no_line_of_a_message_starts_where_messages_start(text: str) -> None:
    _, *later = indented(text, "    ").split("\n")
    assert all(line.startswith("    ") for line in later)


@given(anything)
def test_a_name_stays_short(name: str) -> None:
    assert len(shown_name(name)) <= MAX_NAME


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("héllo wörld 你好 👩‍👩‍👧", "héllo wörld 你好 👩‍👩‍👧"),
        ("two\nlines", "two\nlines"),
        ("two\r\nlines", "two\nlines"),
        ("a\tb", "a    b"),
        ("\x1b[2J\x1b]0;owned\x07clear", "[2J]0;ownedclear"),
        ("\x9b31mred", "31mred"),
        ("over\rwritten", "overwritten"),
        ("abc\u202edcba", "abcdcba"),
        ("a\u2028b", "ab"),
        ("half\ud83d", "half"),
    ],
)
def test_letters_stay_and_controls_go(written: str, seen: str) -> None:
    assert printable(written) == seen


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("👩\u200d👩\u200d👧", "👩👩👧"),
        ("👍\U0001f3fd", "👍"),
        ("❤\ufe0f", "❤"),
        ("x\u200dy\u200dz", "xyz"),
        ("zero\u200bwidth\ufeff\u2060", "zerowidth"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("שלום עולם", "שלום עולם"),
        ("é à la 你好", "é à la 你好"),
        ("a" + "\u0301" * 50 + "b", "a" + "\u0301" * MAX_MARKS + "b"),
    ],
)
def test_steady_text_has_one_width_everywhere(written: str, seen: str) -> None:
    assert steady(written) == seen


@given(anything)
def test_the_width_of_steady_text_is_that_of_its_letters(text: str) -> None:
    """Rich leaves out the letter after a joiner, and a terminal may not."""
    line = steady_line(text)
    assert cell_len(line) == sum(get_character_cell_size(letter) for letter in line)


@given(anything, anything)
def test_texts_that_differ_look_different_before_they_are_signed(one: str, other: str) -> None:
    assert (exactly(one) == exactly(other)) == (one == other)


@given(anything)
def test_what_is_signed_is_shown_letter_by_letter(text: str) -> None:
    shown = exactly(text)
    assert shown.isprintable()
    assert steady(shown) == shown
    assert shown.encode().decode("unicode_escape" if text.isascii() else "utf-8") == (
        text if text.isascii() else shown
    )


def test_a_text_before_it_is_signed() -> None:
    assert exactly("ACCEPT|prop_1|pay\u202e\n\\|5 é") == r"ACCEPT|prop_1|pay\u202e\n\\|5 é"
