"""The parts of the screen."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from moothall.tui.entry import Completion
from moothall.tui.printable import printable

MAX_REMEMBERED: Final = 100  # things said before, for the up key
MAX_TEXT: Final = 65_536  # characters in the entry; what a hall takes in one message, the hall says


class Plain(Static):
    """Text that is shown as it is; brackets in it are brackets."""

    def __init__(self, id: str) -> None:  # noqa: A002  # textual's word
        super().__init__(id=id, markup=False)


class Entry(TextArea):
    """Where a person writes. It has the keys, unless an overlay has them. It grows with what is written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", show=False, priority=True),
        Binding("ctrl+j,shift+enter", "new_line", show=False, priority=True),
        Binding("tab", "complete", show=False, priority=True),
        Binding("up", "up", show=False),
        Binding("down", "down", show=False),
    ]

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Refused(Message):
        """The entry did not take what was pasted."""

        def __init__(self, length: int) -> None:
            super().__init__()
            self.length = length

    def __init__(self, names: Callable[[], Iterable[str]], channels: Callable[[], Iterable[str]]) -> None:
        super().__init__(
            id="entry", placeholder="say something, or /help", compact=True, highlight_cursor_line=False
        )
        self._names = names
        self._channels = channels
        self._completion = Completion()
        self._said: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._place = 0  # in what was said before; its length is the line being written
        self._draft = ""

    @property
    def value(self) -> str:
        return self.text

    @value.setter
    def value(self, text: str) -> None:
        """The cursor goes to the end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def action_submit(self) -> None:
        """Hand over what is written, and have an empty line for the next."""
        text = self.value.strip()
        if text:
            self._said.append(text)
        self._place, self._draft = len(self._said), ""
        self.value = ""
        if text:
            self.post_message(self.Submitted(text))

    def action_new_line(self) -> None:
        self.insert("\n")

    def action_complete(self) -> None:
        row, column = self.cursor_location
        cursor = sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column
        text, cursor = self._completion.press(self.text, cursor, self._names(), self._channels())
        self.load_text(text)
        before = text[:cursor].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))

    def action_up(self) -> None:
        if self.cursor_at_first_line:
            self._recall(-1)
        else:
            self.action_cursor_up()

    def action_down(self) -> None:
        if self.cursor_at_last_line:
            self._recall(1)
        else:
            self.action_cursor_down()

    def _recall(self, by: int) -> None:
        place = self._place + by
        if not 0 <= place <= len(self._said):
            return
        if self._place == len(self._said):
            self._draft = self.value
        self._place = place
        self.value = self._draft if place == len(self._said) else self._said[place]

    async def _on_paste(self, event: events.Paste) -> None:
        """Several lines stay several lines, of one message. What would steer the terminal is left out."""
        event.stop()
        event.prevent_default()
        text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        if len(self.text) + len(text) > MAX_TEXT:
            self.post_message(self.Refused(len(text)))
        else:
            self.insert(text)


class Search(Input):
    """The text that is looked for in the history. It stands in the place of the entry while it is used."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,up", "find(-1)", "Older", key_display="Enter", priority=True),
        Binding("down", "find(1)", "Newer", key_display="↓", priority=True),
        Binding("escape", "close", "Back", key_display="Esc", priority=True),
    ]

    class Wanted(Message):
        """`by` is -1 for older lines, 1 for newer ones, 0 when the text has changed."""

        def __init__(self, text: str, by: int) -> None:
            super().__init__()
            self.text, self.by = text, by

    class Closed(Message):
        pass

    def __init__(self) -> None:
        super().__init__(id="search", placeholder="search in this room", compact=True)

    def action_find(self, by: int) -> None:
        self.post_message(self.Wanted(self.value, by))

    def action_close(self) -> None:
        self.post_message(self.Closed())
