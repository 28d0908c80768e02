import importlib
import sys

import pytest
import textual
from textual import events
from textual._xterm_parser import XTermParser

from moothall.tui import escape_sequences


@pytest.mark.parametrize("digit", range(1, 10))
def test_alt_and_a_digit_is_a_key_in_every_terminal(digit: int) -> None:
    escape_sequences.free_alt_digits()
    parser = XTermParser()
    pressed = [*parser.feed(f"\x1b{digit}"), *parser.feed("")]
    assert [event.key for event in pressed if isinstance(event, events.Key)] == [f"alt+{digit}"]


def test_this_version_of_textual_has_the_table() -> None:
    assert escape_sequences.SEQUENCES


def test_a_version_without_the_table_keeps_its_own_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "textual._ansi_sequences", None)
        patch.delattr(textual, "_ansi_sequences")
        importlib.reload(escape_sequences)
        assert escape_sequences.SEQUENCES == {}
        escape_sequences.free_alt_digits()
    importlib.reload(escape_sequences)
