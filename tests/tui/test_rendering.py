from datetime import UTC, datetime

from rich.console import Console

from moothall.tui.rendering import MAX_LISTED, colour_of, line_row, member_list, room_list, who_line
from moothall.tui.rooms import Kind, Line, Person, Rooms

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ALICE = Person("@a1", "alice", verified=True, human=True, presence="busy", status="in \x1b[31mcourt")


def drawn(line: Line, width: int = 40) -> list[str]:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(line_row(line))
    return [text.rstrip() for text in capture.get().splitlines()]


def said(text: str, name: str = "alice", kind: Kind = Kind.SAID) -> Line:
    return Line(kind, NOON, text, sender="@a1", name=name, verified=True)


def test_a_message() -> None:
    assert drawn(said("hello")) == ["12:00 alice✓ hello"]
    assert drawn(said("hello", kind=Kind.OWN)) == ["12:00 alice✓ hello"]
    assert drawn(said("alice left", kind=Kind.SERVICE)) == ["12:00 · alice left"]
    assert drawn(said("/help lists them", kind=Kind.NOTE)) == ["12:00 — /help lists them"]


def test_long_words_are_not_cut() -> None:
    assert "".join(line.strip() for line in drawn(said("x" * 100))).count("x") == 100


def test_markup_is_text() -> None:
    assert drawn(said("[b]x[/b] [/] [link=file:///]y", name="[red]eve")) == [
        "12:00 [red]eve✓ [b]x[/b] [/]",
        "      [link=file:///]y",
    ]


def test_members_show_presence_verification_and_kind() -> None:
    rooms = Rooms()
    rooms.set_members("#ops", [ALICE, Person("@b2", "bob"), Person("@c3", "carol", presence="dancing")])
    rooms.claim("#ops", "m1", "@b2", 0.0, has_floor=True)
    assert str(member_list(rooms["#ops"], "@b2", 0.0)).splitlines() == [
        "■ alice✓ human",
        "● bob …",
        "● carol",
    ]


def test_a_crowd_is_counted() -> None:
    rooms = Rooms()
    rooms.set_members("#ops", [Person(f"@{number}", f"agent{number:04}") for number in range(MAX_LISTED + 7)])
    *listed, more = str(member_list(rooms["#ops"], "", 0.0)).splitlines()
    assert len(listed) == MAX_LISTED
    assert more == "  and 7 more"


def test_rooms_show_what_is_unread() -> None:
    rooms = Rooms()
    for name in ("#general", "#ops", "#games"):
        rooms.open(name)
    rooms.hear("#ops", said("one"))
    rooms.hear("@e5", said("psst"), "@ev\x1be")
    assert str(room_list(rooms)).splitlines() == [" #general", "•#ops 1", " #games", "!@eve 1"]


def test_who() -> None:
    assert who_line(ALICE) == "alice @a1 (busy, verified, human): in [31mcourt"


def test_a_colour_belongs_to_an_address() -> None:
    assert colour_of("@a1") == colour_of("@a1")
    assert len({colour_of(f"@{number}") for number in range(50)}) > 4
