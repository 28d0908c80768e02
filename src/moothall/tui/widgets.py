"""The parts of the screen."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import Input, RichLog, Static

from moothall.tui.entry import Completion
from moothall.tui.printable import one_line
from moothall.tui.rendering import line_row
from moothall.tui.rooms import MAX_LINES, Line

MAX_REMEMBERED: Final = 100  # things said before, for the up key
MAX_ROWS: Final = 10_000  # of the screen; a message may take many
LONGEST: Final = 4096  # seed 001, transport


class Plain(Static):
    """Text that is shown as it is; brackets in it are brackets."""

    def __init__(self, id: str) -> None:  # noqa: A002  # textual's word
        super().__init__(id=id, markup=False)


class History(RichLog):
    """The lines of the room that is looked at."""

    can_focus = False  # the keys belong to the entry

    def __init__(self) -> None:
        super().__init__(id="history", wrap=True, min_width=0, max_lines=MAX_ROWS, auto_scroll=False)
        self._shown: deque[Line] = deque(maxlen=MAX_LINES)
        self._width = 0

    def show(self, lines: Iterable[Line]) -> None:
        self._shown = deque(lines, maxlen=MAX_LINES)
        self.clear()
        for line in self._shown:
            self.write(line_row(line), expand=True)
        self.scroll_end(animate=False, immediate=False)

    def add(self, line: Line) -> None:
        """Whoever has scrolled back to read stays where they are."""
        self._shown.append(line)
        self.write(line_row(line), expand=True, scroll_end=self.is_vertical_scroll_end)

    def on_resize(self, event: events.Resize) -> None:
        """Lines are wrapped when they are written, so another width is another writing."""
        if self._width not in (0, event.size.width):
            self.show(self._shown)
        self._width = event.size.width


class Entry(Input):
    """Where a person writes. It has the keys, always."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", show=False, priority=True),
        Binding("up", "recall(-1)", show=False),
        Binding("down", "recall(1)", show=False),
    ]

    def __init__(self, names: Callable[[], Iterable[str]], channels: Callable[[], Iterable[str]]) -> None:
        super().__init__(id="entry", placeholder="say something, or /help", max_length=LONGEST, compact=True)
        self._names = names
        self._channels = channels
        self._completion = Completion()
        self._said: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._place = 0  # in what was said before; its length is the line being written
        self._draft = ""

    def take(self) -> str:
        """What is written, and an empty line for the next."""
        text = self.value.strip()
        if text:
            self._said.append(text)
        self._place, self._draft = len(self._said), ""
        self.value = ""
        return text

    def action_complete(self) -> None:
        self.value, self.cursor_position = self._completion.press(
            self.value, self.cursor_position, self._names(), self._channels()
        )

    def action_recall(self, by: int) -> None:
        place = self._place + by
        if not 0 <= place <= len(self._said):
            return
        if self._place == len(self._said):
            self._draft = self.value
        self._place = place
        self.value = self._draft if place == len(self._said) else self._said[place]
        self.cursor_position = len(self.value)

    def on_paste(self, event: events.Paste) -> None:
        """An entry has one line and would keep only the first of several."""
        event.text = one_line(event.text)
