"""Lists on the command line: for people in a terminal, for programs in a pipe."""

import re
import sys
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.cli._tables import WIDEST, Right, show_table

HEADERS = ("agent", Right("rating"), "note")


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: StringIO, *rows: tuple[object, ...]) -> list[str]:
    monkeypatch.setattr(sys, "stdout", stream)
    show_table(HEADERS, rows, empty="nothing")
    monkeypatch.undo()
    return stream.getvalue().splitlines()


def test_a_terminal_gets_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (("@1", 7, "hello there"), ("@22", 1200, None))
    assert shown(monkeypatch, Terminal(), *rows) == [
        "AGENT  RATING  NOTE",
        "@1          7  hello there",
        "@22      1200  -",
    ]


def test_a_pipe_gets_entries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (("@1", 7, "hello there"), ("@22", 1200, ""))
    assert shown(monkeypatch, StringIO(), *rows) == ["@1      7  hello there", "@22  1200  -"]


@pytest.mark.parametrize("stream", [Terminal, StringIO])
def test_an_empty_list_says_so_beside_the_output(
    stream: type[StringIO], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(monkeypatch, stream()) == []
    assert capsys.readouterr().err == "nothing\n"


def test_wide_letters_and_accents_align(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (("会场", 1, "a"), ("e\u0301", 1, "b"), ("abcd", 1, "c"))
    assert shown(monkeypatch, StringIO(), *rows) == ["会场  1  a", "e\u0301     1  b", "abcd  1  c"]


def test_a_text_cannot_pass_for_several_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (("@1  2000  trusted", 7, " \u3000x   y\u00a0 "), ("@2", 1, "z"))
    assert shown(monkeypatch, StringIO(), *rows) == ["@1 2000 trusted  7  x y", "@2               1  z"]


def test_a_long_text_moves_only_its_own_row(monkeypatch: pytest.MonkeyPatch) -> None:
    long, short = shown(monkeypatch, StringIO(), ("x" * 4000, 1, "a"), ("y", 1, "b"))
    assert long == f"{'x' * 4000}  1  a"
    assert short == f"{'y'.ljust(WIDEST)}  1  b"


@given(st.lists(st.tuples(st.text(), st.integers(), st.text()), min_size=1))
def test_every_entry_is_one_line_without_what_steers_a_terminal(rows: list[tuple[str, int, str]]) -> None:
    stream = StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        show_table(HEADERS, rows, empty="nothing")
    lines = stream.getvalue().split("\n")
    assert len(lines) == len(rows) + 1
    assert all(len(re.split(" {2,}", line.strip())) == len(HEADERS) for line in lines[:-1])
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", stream.getvalue()) is None
