from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.style import Style

from moothall.tui.rendering import (
    MAX_LISTED,
    NAME_CELLS,
    NARROW,
    WIDE,
    WIDE_NAME_CELLS,
    Layout,
    author_width,
    colour_of,
    line_rows,
    member_list,
    room_list,
    rule,
    who_line,
)
from moothall.tui.rooms import Kind, Line, Person, Rooms

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALICE = Person("@a1", "alice", verified=True, human=True, presence="busy", status="in \x1b[31mcourt")
anything = st.text(st.characters(codec=None))


def drawn(line: Line, width: int = 40, names: int = 0) -> list[str]:
    return [str(row).rstrip() for row in line_rows(line, Layout(width, names))]


def said(text: str, name: str = "alice", kind: Kind = Kind.SAID, *, verified: bool = True) -> Line:
    return Line(kind, NOON, text, sender="@a1", name=name, verified=verified)


def test_a_message() -> None:
    assert drawn(said("hello")) == ["12:00 alice✓ hello"]
    assert drawn(said("hello", kind=Kind.OWN)) == ["12:00 alice✓ hello"]
    assert drawn(said("alice left", kind=Kind.SERVICE)) == ["12:00 · alice left"]
    assert drawn(said("/help lists them", kind=Kind.NOTE)) == ["12:00 — /help lists them"]


def test_names_have_a_column() -> None:
    assert drawn(said("hello"), 60, 8) == ["12:00   alice✓ │ hello"]
    assert drawn(said("hello", "你好", verified=False), 60, 8) == ["12:00     你好 │ hello"]
    assert drawn(said("alice left", kind=Kind.SERVICE), 60, 8) == ["12:00        · │ alice left"]


def test_a_long_name_is_cut_and_its_mark_stays() -> None:
    assert drawn(said("hello", "x" * 32), 60, 8) == ["12:00 xxxxxx…✓ │ hello"]
    assert drawn(said("hello", "你好世界你好", verified=False), 60, 8) == ["12:00  你好世… │ hello"]


def test_what_wraps_stands_under_the_text() -> None:
    assert drawn(said("one two three\nfour", "bob", verified=False), 25, 3) == [
        "12:00 bob │ one two three",
        "          │ four",
    ]
    assert drawn(said("one two three four", "bob", verified=False), 20) == [
        "12:00 bob one two",
        "      three four",
    ]


@given(anything, anything, st.integers(20, 120), st.sampled_from(Kind), st.booleans())
def test_every_row_keeps_its_columns(text: str, name: str, width: int, kind: Kind, verified: bool) -> None:
    line = said(text, name, kind, verified=verified)
    layout = Layout.of(width, author_width(line))
    rows = line_rows(line, layout)
    assert all(row.cell_len <= width for row in rows)
    if layout.names:
        for row in rows:
            before, bar, _ = str(row).partition(" │ ")
            assert bar
            assert cell_len(before) == 6 + layout.names


@pytest.mark.parametrize(
    ("width", "longest", "names"),
    [
        (NARROW - 1, 5, 0),
        (NARROW, 5, 5),
        (NARROW, 50, NAME_CELLS),
        (WIDE, 50, WIDE_NAME_CELLS),
    ],
)
def test_the_column_of_names_fits_the_terminal(width: int, longest: int, names: int) -> None:
    assert Layout.of(width, longest).names == names


def test_long_words_are_not_cut() -> None:
    assert "".join(line.strip() for line in drawn(said("x" * 100))).count("x") == 100


def test_markup_is_text() -> None:
    assert drawn(said("[b]x[/b] [/] [link=file:///]y", name="[red]eve")) == [
        "12:00 [red]eve✓ [b]x[/b] [/]",
        "      [link=file:///]y",
    ]


@pytest.mark.parametrize("names", [0, 8])
def test_each_part_of_a_row_has_its_own_style(names: int) -> None:
    line = Line(Kind.SAID, NOON, "hello", sender="@a1", name="alice", mentions_me=True)
    [row] = line_rows(line, Layout(60, names))
    styles = {
        segment.text.strip(): segment.style for segment in row.render(Console(color_system="truecolor"))
    }
    assert styles["hello"] == Style(reverse=True)
    assert styles["12:00"] == Style(color="bright_black")
    [segment] = rule("unread", 20, "bold red").render(Console(), end="")
    assert segment.style == Style(color="red", bold=True)


def test_a_rule_is_as_wide_as_the_history() -> None:
    assert str(rule("unread", 20, "")) == "── unread ──────────"
    assert str(rule("Wednesday 30 September 2026", 20, "")) == "── Wednesday 30 Sep…"


def test_members_show_presence_verification_and_kind() -> None:
    rooms = Rooms()
    rooms.set_members("#ops", [ALICE, Person("@b2", "bob"), Person("@c3", "carol", presence="dancing")])
    rooms["#ops"].answering = ["@b2"]
    assert str(member_list(rooms["#ops"], "@b2")).splitlines() == [
        "■ alice✓ human",
        "● bob …",
        "● carol",
    ]


def test_a_crowd_is_counted() -> None:
    rooms = Rooms()
    rooms.set_members("#ops", [Person(f"@{number}", f"agent{number:04}") for number in range(MAX_LISTED + 7)])
    *listed, more = str(member_list(rooms["#ops"], "")).splitlines()
    assert len(listed) == MAX_LISTED
    assert more == "  and 7 more"


def test_rooms_show_what_is_unread() -> None:
    rooms = Rooms()
    for name in ("#general", "#ops", "#games"):
        rooms.open(name)
    rooms.hear("#ops", said("one"))
    rooms.hear("@e5", said("psst"), "@ev\x1be")
    assert str(room_list(rooms)).splitlines() == [" 1 #general", "•2 #ops 1", " 3 #games", "!4 @eve 1"]


def test_who() -> None:
    assert who_line(ALICE) == "alice @a1 (busy, verified, human): in [31mcourt"


def test_a_colour_belongs_to_an_address() -> None:
    assert colour_of("@a1") == colour_of("@a1")
    assert len({colour_of(f"@{number}") for number in range(50)}) > 4
