from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from moothall.tui.cells import column, fitted

anything = st.text(st.characters(codec=None))


@given(anything, st.integers(0, 40))
def test_a_column_has_exactly_its_width(text: str, width: int) -> None:
    assert cell_len(fitted(text, width)) <= width
    assert cell_len(column(text, width)) == width
    assert cell_len(column(text, width, right=True)) == width


def test_an_ellipsis_stands_for_the_rest() -> None:
    assert fitted("moothall", 8) == "moothall"
    assert fitted("moothall", 5) == "moot…"
    assert fitted("你好世界", 6) == "你好…"
    assert fitted("two\nlines", 20) == "two lines"
    assert fitted("x", 0) == ""


def test_a_column_to_the_right() -> None:
    assert column("bob", 5) == "bob  "
    assert column("bob", 5, right=True) == "  bob"
    assert column("你好", 5, right=True) == " 你好"
