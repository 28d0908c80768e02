"""What lies over the room for a while: the frame that all overlays share, and the help."""

from typing import ClassVar, Final, Generic, TypeVar

from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer

from moothall.tui import entry
from moothall.tui.keys import key_rows
from moothall.tui.widgets import Plain

Result = TypeVar("Result")

LEGEND: Final = (
    "A text that begins with // is sent with one slash.",
    "Names: ✓ has proved its key. Rooms: • unread, ! you were mentioned.",
    "Members: ● online ◉ listening ○ away ■ busy ◌ offline … is answering.",
)


class Overlay(ModalScreen[Result], Generic[Result]):
    """Takes the keys until it is closed. Messages still arrive under it."""

    DEFAULT_CSS = """
    Overlay { align: center middle; }
    Overlay > .frame { width: 90%; max-width: 100; height: 90%; border: round $primary; background: $surface; }
    Overlay.-slim > .frame, Overlay.-narrow > .frame { width: 100%; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", key_display="Esc"),
        Binding("ctrl+q", "app.quit", "Quit", key_display="Ctrl-Q"),
        Binding("ctrl+c", "app.quit", show=False),
    ]

    def action_close(self) -> None:
        self.dismiss()


class Help(Overlay[None]):
    """All keys and all commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,q", "close", "Close", show=False),
    ]

    def compose(self) -> ComposeResult:
        frame = VerticalScroll(Plain(id="help"), classes="frame")
        frame.border_title = "Keys and commands"
        yield frame
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one("#help", Plain).update(help_text())
        self.query_one(VerticalScroll).focus()


def help_text() -> Group:
    parts: list[Text | Table] = []
    for title, rows in (("Keys", key_rows()), ("Commands", command_rows())):
        table = Table.grid(padding=(0, 2))
        table.add_column(max_width=28)
        table.add_column()
        for name, meaning in rows:
            table.add_row(Text(name, style="bold"), Text(meaning))
        parts += [Text(title, style="bold underline"), table, Text()]
    return Group(*parts, Text("\n".join(LEGEND)))


def command_rows() -> list[tuple[str, str]]:
    rows = []
    for name, usage in entry.COMMANDS.items():
        also = [f"/{alias}" for alias, meant in entry.ALIASES.items() if meant == name]
        names = f" (also {', '.join(also)})" if also else ""
        rows.append((f"/{name} {usage.arguments}".rstrip(), usage.help + names))
    return rows
