import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.tui.printable import MAX_NAME, indented, one_line, printable, shown_name

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
