"""The lines of the room that is looked at."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from moothall.tui.rendering import UNREAD_RULE, Layout, author, author_width, line_rows, rule
from moothall.tui.rooms import MAX_LINES, UNREAD_KINDS, Line

MAX_ROWS: Final = 10_000  # of the screen; a message may take many
FOUND: Final = Style(reverse=True)
UNREAD_STYLE: Final = "bold red"
DAY_STYLE: Final = "bright_black"

_CONSOLE: Final = Console(color_system="truecolor", width=80)  # it knows colours by name


@dataclass(frozen=True, slots=True)
class Shown:
    """A line of the room."""

    line: Line
    is_first_unread: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A line and how many rows it takes, with the rules above it."""

    shown: Shown
    rows: int


class History(ScrollView, can_focus=False):
    """Follows what is said, until the person scrolls up to read.

    New lines wait until the screen is drawn the next time. So a flood of messages costs no more than the lines
    that remain of it.
    """

    missed: var[int] = var(0)  # messages that came below while the person was reading further up

    def __init__(self) -> None:
        super().__init__(id="history")
        self.lines: list[Strip] = []
        self._blocks: deque[Block] = deque()
        self._coming: list[Shown] = []
        self._form = Layout(0)
        self._longest = 0  # cells of the longest name
        self._follows = True
        self._found = range(0)  # the rows of the line that a search has found

    # -- what is shown -----------------------------------------------------------------------------

    def show(self, lines: Iterable[Line], first_unread: int | None = None) -> None:
        """Another room, from its end."""
        self._clear()
        self._longest = 0
        self._follows, self.missed = True, 0
        self._coming = [Shown(line, number == first_unread) for number, line in enumerate(lines)]
        self._take_in()

    def add(self, line: Line, *, is_first_unread: bool = False) -> None:
        if not self._coming:
            self.call_later(self._take_in)
        self._coming.append(Shown(line, is_first_unread))
        if not self._follows and line.kind in UNREAD_KINDS:
            self.missed += 1

    def _clear(self) -> None:
        self.lines.clear()
        self._blocks.clear()
        self._found = range(0)

    def _take_in(self) -> None:
        """Draw what has come, as soon as the screen has a size."""
        width = self.scrollable_content_region.width
        if not width:
            return
        coming, self._coming = self._coming[-MAX_LINES:], []
        self._longest = max(self._longest, *(author_width(shown.line) for shown in coming), 0)
        form = Layout.of(width, self._longest)
        if form != self._form:  # all columns move
            coming = [*(block.shown for block in self._blocks), *coming][-MAX_LINES:]
            self._clear()
            self._form = form
        self._draw(coming)
        self._drop_oldest()
        self.virtual_size = Size(width, len(self.lines))
        if self._follows:
            self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        self.refresh()

    def _draw(self, coming: Sequence[Shown]) -> None:
        """From the latest back, as far as there is room: a stranger decides how many rows a message has."""
        drawn: list[tuple[Block, list[Text]]] = []
        left = MAX_ROWS
        for number in range(len(coming) - 1, -1, -1):
            if left <= 0:
                break
            shown = coming[number]
            before = coming[number - 1] if number else self._blocks[-1].shown if self._blocks else None
            rows = [*self._rules(shown, before), *line_rows(shown.line, self._form)]
            drawn.append((Block(shown, len(rows)), rows))
            left -= len(rows)
        for block, rows in reversed(drawn):
            self._blocks.append(block)
            self.lines += [Strip(list(row.render(_CONSOLE))) for row in rows]

    def _rules(self, shown: Shown, before: Shown | None) -> list[Text]:
        rules = []
        day = shown.line.at.date()
        if day != (before.line.at.date() if before else _today(shown.line)):
            rules.append(rule(f"{day:%A} {day.day} {day:%B %Y}", self._form.width, DAY_STYLE))
        if shown.is_first_unread:
            rules.append(rule(UNREAD_RULE, self._form.width, UNREAD_STYLE))
        return rules

    def _drop_oldest(self) -> None:
        dropped, rows = 0, len(self.lines)
        while len(self._blocks) > MAX_LINES or (rows - dropped > MAX_ROWS and len(self._blocks) > 1):
            dropped += self._blocks.popleft().rows
        if not dropped:
            return
        del self.lines[:dropped]
        self._found = range(max(0, self._found.start - dropped), max(0, self._found.stop - dropped))
        if not self._follows:  # what the person reads stays where it is
            self.scroll_to(y=max(0, self.scroll_y - dropped), animate=False, immediate=True)

    # -- where the person reads --------------------------------------------------------------------

    @property
    def is_at_end(self) -> bool:
        return self._follows

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._follows = self.is_vertical_scroll_end
        if self._follows:
            self.missed = 0

    def to_end(self) -> None:
        self._found = range(0)
        self.scroll_end(animate=False, immediate=True, force=True, x_axis=False)
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        """Lines are wrapped when they are drawn, so another width is another drawing."""
        self._take_in()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        number = self.scroll_offset.y + y
        if number >= len(self.lines):
            return Strip.blank(width, self.rich_style)
        strip = self.lines[number].crop_extend(0, width, self.rich_style)
        strip = strip.apply_style(self.rich_style)
        return Strip(Segment.apply_style(strip, post_style=FOUND), width) if number in self._found else strip

    # -- searching ---------------------------------------------------------------------------------

    def find(self, text: str, by: int) -> tuple[int, int]:
        """Go to the next line that has this text, further back (-1) or on (1).

        Return which of how many it is, counted from the latest; (0, 0) if no line has it.
        """
        matches, row = [], 0
        for block in self._blocks:
            if text.casefold() in f"{author(block.shown.line)} {block.shown.line.text}".casefold():
                matches.append(range(row, row + block.rows))
            row += block.rows
        if not text or not matches:
            self._found = range(0)
            self.refresh()
            return (0, 0)
        place = next((number for number, rows in enumerate(matches) if rows == self._found), len(matches))
        place = (place + by) % len(matches) if place < len(matches) else len(matches) - 1
        self._found = matches[place]
        self.scroll_to(y=max(0, self._found.start - self.size.height // 2), animate=False, immediate=True)
        self.refresh()
        return (len(matches) - place, len(matches))


def _today(line: Line) -> date:
    return datetime.now(line.at.tzinfo).date()
