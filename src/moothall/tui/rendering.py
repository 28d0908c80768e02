"""Rooms as text for the terminal. Whatever strangers wrote comes out as plain text, never as markup."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moothall.tui.cells import column, fitted
from moothall.tui.printable import MAX_NAME, one_line, steady
from moothall.tui.rooms import Kind, Line, Person, Room, Rooms

VERIFIED: Final = "✓"
UNREAD: Final = "•"
MENTIONED: Final = "!"
MAX_LISTED: Final = 200  # members shown in the side pane

TIME: Final = 6  # cells of a time and the space after it
BAR: Final = " │ "  # between the name and what was said
NARROW: Final = 46  # cells; in a narrower history there is no column of names
WIDE: Final = 80
NAME_CELLS: Final = 12  # at most, in the column of names
WIDE_NAME_CELLS: Final = 20
UNREAD_RULE: Final = "unread"
MARKS: Final = {Kind.SERVICE: "·", Kind.NOTE: "—"}

# A shape as well as a colour: not every terminal shows colours, and not every person sees them.
PRESENCES: Final = {
    "online": ("●", "green"),
    "listening": ("◉", "cyan"),
    "away": ("○", "yellow"),
    "busy": ("■", "red"),
    "offline": ("◌", "bright_black"),
}
UNKNOWN_PRESENCE: Final = ("●", "bright_black")
COLOURS: Final = (
    "cyan",
    "green",
    "magenta",
    "yellow",
    "blue",
    "bright_cyan",
    "bright_green",
    "bright_magenta",
)

# Texts are wrapped without a terminal: widths are all that matters.
_CONSOLE: Final = Console(color_system=None, width=80)


# -- the history -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Layout:
    """How the lines of a room share the width: time, names, text."""

    width: int
    names: int = 0  # cells of the column of names; 0: the name stands before the text

    @classmethod
    def of(cls, width: int, longest: int) -> "Layout":
        """`longest` is the width of the longest name that is to be seen."""
        if width < NARROW:
            return cls(width)
        return cls(width, min(longest, WIDE_NAME_CELLS if width >= WIDE else NAME_CELLS))

    @property
    def margin(self) -> int:
        """Cells before the text."""
        return TIME + (self.names + len(BAR) if self.names else 0)


def author(line: Line) -> str:
    """What stands before the text: a name, or the mark of a line without one."""
    if line.kind in MARKS:
        return MARKS[line.kind]
    name = fitted(line.name, MAX_NAME)
    return f"{name}{VERIFIED}" if line.verified else name


def author_width(line: Line) -> int:
    return cell_len(author(line))


def line_rows(line: Line, layout: Layout) -> list[Text]:
    """The rows of a line. What wraps, or has several lines, cannot pass for another message."""
    time = Text(f"{line.at:%H:%M} ", style="bright_black")
    spoken = Text(steady(line.text), style=_style(line), overflow="fold")
    if layout.names:
        first = Text.assemble(time, _author(line, layout.names), (BAR, "bright_black"))
        margin = Text.assemble(" " * (TIME + layout.names), (BAR, "bright_black"))
    else:
        first, margin = Text.assemble(time), Text(" " * TIME)
        spoken = Text.assemble(_author(line), " ", spoken, overflow="fold")
    wrapped = spoken.wrap(_CONSOLE, max(1, layout.width - layout.margin)) or [Text()]
    return [(margin if number else first) + row for number, row in enumerate(wrapped)]


def rule(label: str, width: int, style: str) -> Text:
    """A line across the history."""
    text = f"── {label} "
    return Text.assemble((fitted(text + "─" * max(0, width - cell_len(text)), width), style))


def _author(line: Line, width: int | None = None) -> Text:
    """The mark of a proven key stays when the name is cut."""
    own = line.kind is Kind.OWN
    style = "" if line.kind in MARKS else "bold" if own else f"bold {colour_of(line.sender)}"
    if width is None:
        return Text(author(line), style=style)
    if not line.verified or line.kind in MARKS:
        return Text(column(author(line), width, right=True), style=style)
    return Text.assemble((column(line.name, width - len(VERIFIED), right=True), style), (VERIFIED, "green"))


def _style(line: Line) -> str:
    if line.kind is Kind.SERVICE:
        return "dim"
    if line.kind is Kind.NOTE:
        return "italic bright_black"
    return "reverse" if line.mentions_me else "dim" if line.is_history else ""


def colour_of(address: str) -> str:
    """By address, which is unique, and not by name, which is not."""
    return COLOURS[crc32(address.encode(errors="replace")) % len(COLOURS)]


# -- beside it -------------------------------------------------------------------------------------


def room_list(rooms: Rooms) -> Text:
    listed = Text(no_wrap=True, overflow="ellipsis")
    for number, room in enumerate(rooms, start=1):
        if listed:
            listed.append("\n")
        listed.append_text(_room_entry(room, number, is_current=room is rooms.current))
    return listed


def _room_entry(room: Room, number: int, *, is_current: bool) -> Text:
    mark = MENTIONED if room.mentioned else UNREAD if room.unread else " "
    style = "reverse" if is_current else "bold" if room.unread else ""
    count = f" {room.unread}" if room.unread else ""
    return Text.assemble(
        (mark, "bold red" if room.mentioned else "bold yellow"),
        (f"{number} ", "bright_black"),
        (f"{fitted(room.title, MAX_NAME)}{count}", style),
    )


def member_list(room: Room, me: str) -> Text:
    listed = Text(no_wrap=True, overflow="ellipsis")
    people = room.people()
    for person in people[:MAX_LISTED]:
        if listed:
            listed.append("\n")
        is_answering = person.address in room.answering
        listed.append_text(_member_entry(person, is_me=person.address == me, is_answering=is_answering))
    if len(people) > MAX_LISTED:
        listed.append(f"\n  and {len(people) - MAX_LISTED} more", style="bright_black")
    return listed


def _member_entry(person: Person, *, is_me: bool, is_answering: bool) -> Text:
    shape, colour = PRESENCES.get(person.presence, UNKNOWN_PRESENCE)
    entry = Text.assemble((shape, colour), " ", (fitted(person.name, MAX_NAME), "bold" if is_me else ""))
    if person.verified:
        entry.append(VERIFIED, style="green")
    if person.human:
        entry.append(" human", style="bright_black")
    if is_answering:
        entry.append(" …", style="bold cyan")
    return entry


def labelled(rows: Iterable[tuple[str, str]]) -> Table:
    """A column of labels, and one of texts. Text that wraps stays in its column, so it cannot pass for a label."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for label, text in rows:
        table.add_row(Text(label, style="bright_black"), Text(steady(text)))
    return table


def who_line(person: Person) -> str:
    """One line of /who, with what the side pane has no room for."""
    marks = [person.presence]
    if person.verified:
        marks.append("verified")
    if person.human:
        marks.append("human")
    if person.tokens:
        marks.append(person.tokens)
    status = f": {one_line(person.status)}" if person.status else ""
    return f"{fitted(person.name, MAX_NAME)} {one_line(person.address)} ({', '.join(marks)}){status}"
