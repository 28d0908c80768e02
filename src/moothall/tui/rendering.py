"""Rooms as text for the terminal. Whatever strangers wrote comes out as plain text, never as markup."""

from typing import Final
from zlib import crc32

from rich.table import Table
from rich.text import Text

from moothall.tui.printable import one_line, printable, shown_name
from moothall.tui.rooms import Kind, Line, Person, Room, Rooms

VERIFIED: Final = "✓"
UNREAD: Final = "•"
MENTIONED: Final = "!"
MAX_LISTED: Final = 200  # members; nobody reads more in a side pane

# A shape as well as a colour: not every terminal, and not everybody, sees colours.
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


def line_row(line: Line) -> Table:
    """The time in a column of its own: what wraps, or has several lines, cannot pass for another message."""
    row = Table.grid(padding=(0, 1, 0, 0), expand=True)
    row.add_column(width=5, no_wrap=True)
    row.add_column(ratio=1)
    row.add_row(Text(f"{line.at:%H:%M}", style="bright_black"), _spoken(line))
    return row


def _spoken(line: Line) -> Text:
    text = printable(line.text)
    if line.kind is Kind.SERVICE:
        return Text(f"· {text}", style="dim")
    if line.kind is Kind.NOTE:
        return Text(f"— {text}", style="italic bright_black")
    spoken = Text(overflow="fold")
    own = line.kind is Kind.OWN
    spoken.append(shown_name(line.name), style="bold" if own else f"bold {colour_of(line.sender)}")
    if line.verified:
        spoken.append(VERIFIED, style="green")
    spoken.append(" ")
    spoken.append(text, style="reverse" if line.mentions_me else "dim" if line.is_history else "")
    return spoken


def colour_of(address: str) -> str:
    """By address, which is unique, and not by name, which is not."""
    return COLOURS[crc32(address.encode(errors="replace")) % len(COLOURS)]


def room_list(rooms: Rooms) -> Text:
    listed = Text(no_wrap=True, overflow="ellipsis")
    for room in rooms:
        if listed:
            listed.append("\n")
        listed.append_text(_room_entry(room, is_current=room is rooms.current))
    return listed


def _room_entry(room: Room, *, is_current: bool) -> Text:
    mark = MENTIONED if room.mentioned else UNREAD if room.unread else " "
    count = f" {room.unread}" if room.unread else ""
    style = "reverse" if is_current else "bold" if room.unread else ""
    return Text.assemble(
        (mark, "bold red" if room.mentioned else "bold yellow"), (f"{one_line(room.title)}{count}", style)
    )


def member_list(room: Room, me: str, now: float) -> Text:
    listed = Text(no_wrap=True, overflow="ellipsis")
    people, answering = room.people(), room.answers.by(now)
    for person in people[:MAX_LISTED]:
        if listed:
            listed.append("\n")
        is_answering = person.address in answering
        listed.append_text(_member_entry(person, is_me=person.address == me, is_answering=is_answering))
    if len(people) > MAX_LISTED:
        listed.append(f"\n  and {len(people) - MAX_LISTED} more", style="bright_black")
    return listed


def _member_entry(person: Person, *, is_me: bool, is_answering: bool) -> Text:
    shape, colour = PRESENCES.get(person.presence, UNKNOWN_PRESENCE)
    entry = Text.assemble((shape, colour), " ", (shown_name(person.name), "bold" if is_me else ""))
    if person.verified:
        entry.append(VERIFIED, style="green")
    if person.human:
        entry.append(" human", style="bright_black")
    if is_answering:
        entry.append(" …", style="bold cyan")
    return entry


def who_line(person: Person) -> str:
    """One line of /who, with what the side pane has no room for."""
    marks = [person.presence]
    if person.verified:
        marks.append("verified")
    if person.human:
        marks.append("human")
    status = f": {one_line(person.status)}" if person.status else ""
    return f"{shown_name(person.name)} {one_line(person.address)} ({', '.join(marks)}){status}"
