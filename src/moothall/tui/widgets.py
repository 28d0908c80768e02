"""The parts of the screen."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Static, TextArea

from moothall.tui.entry import Completion
from moothall.tui.keys import actions
from moothall.tui.printable import printable

MAX_REMEMBERED: Final = 100  # things said before, for the up key
MAX_TEXT: Final = 65_536  # characters in the entry; what a hall takes in one message, the hall says


class Plain(Static):
    """Text that is shown as it is; brackets in it are brackets."""

    def __init__(self, id: str) -> None:  # noqa: A002  # textual's word
        super().__init__(id=id, markup=False)


class Entry(TextArea):
    """Where a person writes. It has the keys, unless an overlay has them. It grows with what is written.

    It handles all keys itself, one after another. Textual would run bindings apart from the letters: then a fast
    Enter overtakes the last letters of a message, and a message goes to the room that was looked at before.
    """

    class Refused(Message):
        """The entry did not take what was pasted."""

        def __init__(self, length: int) -> None:
            super().__init__()
            self.length = length

    def __init__(
        self,
        submit: Callable[[str], None],
        names: Callable[[], Iterable[str]],
        channels: Callable[[], Iterable[str]],
    ) -> None:
        """`submit` gets what was written; `names` and `channels` are what Tab knows."""
        super().__init__(
            id="entry", placeholder="say something, or /help", compact=True, highlight_cursor_line=False
        )
        self._submit_text = submit
        self._names = names
        self._channels = channels
        self._completion = Completion()
        self._said: deque[str] = deque(maxlen=MAX_REMEMBERED)
        self._place = 0  # in what was said before; its length is the line being written
        self._draft = ""
        self._keys: dict[str, Callable[[], None]] = {
            "enter": self._submit,
            "ctrl+j": self._break_line,
            "shift+enter": self._break_line,
            "tab": self._complete,
            "up": self._go_up,
            "down": self._go_down,
        }
        self._app_actions = actions()

    async def _on_key(self, event: events.Key) -> None:
        own, of_app = self._keys.get(event.key), self._app_actions.get(event.key)
        if own is None and of_app is None:
            return
        event.stop()
        event.prevent_default()
        if own is not None:
            own()
        elif of_app is not None:
            await self.app.run_action(of_app, self.app)

    @property
    def value(self) -> str:
        return self.text

    @value.setter
    def value(self, text: str) -> None:
        """The cursor goes to the end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def _submit(self) -> None:
        """Hand over what is written, and have an empty line for the next."""
        text = self.value.strip()
        if text:
            self._said.append(text)
        self._place, self._draft = len(self._said), ""
        self.value = ""
        if text:
            self._submit_text(text)

    def _break_line(self) -> None:
        self.insert("\n")

    def _complete(self) -> None:
        row, column = self.cursor_location
        cursor = sum(len(line) + 1 for line in self.text.split("\n")[:row]) + column
        text, cursor = self._completion.press(self.text, cursor, self._names(), self._channels())
        self.load_text(text)
        before = text[:cursor].split("\n")
        self.move_cursor((len(before) - 1, len(before[-1])))

    def _go_up(self) -> None:
        if self.cursor_at_first_line:
            self._recall(-1)
        else:
            self.action_cursor_up()

    def _go_down(self) -> None:
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
        Binding("enter,up", "find(-1)", "Older", key_display="Enter"),
        Binding("down", "find(1)", "Newer", key_display="Down"),
        Binding("escape", "close", "Back", key_display="Esc"),
        Binding("ctrl+c", "app.quit", show=False),
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
