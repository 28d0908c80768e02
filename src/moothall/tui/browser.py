"""The channels of the hall, to look at, to join and to create."""

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Button, Checkbox, Footer, Input, OptionList
from textual.widgets.option_list import Option

from moothall.errors import MoothallError
from moothall.tui.cells import column, fitted
from moothall.tui.overlays import Overlay
from moothall.tui.printable import MAX_NAME, steady_line
from moothall.tui.widgets import Plain
from moothall.wire.agentchat.names import is_channel_name, with_hash

if TYPE_CHECKING:
    from moothall.client.events import ChannelInfo, Member

MAX_SHOWN: Final = 500  # channels in the list; the filter finds the others
MAX_NAMED: Final = 30  # members of the channel under the cursor
REST: Final = 0.4  # seconds on one channel until the hall is asked who is in it
NAME_CELLS: Final = 24


@dataclass(frozen=True, slots=True)
class NewChannel:
    name: str
    invite_only: bool = False
    verified_only: bool = False


Choice = str | NewChannel | None  # a channel to join, one to create, or neither


def channel_name(word: str) -> str | None:
    """The channel that a person means by a word; None if no channel can have this name."""
    name = with_hash(word.strip())
    return name if is_channel_name(name) else None


def matching(channels: Iterable["ChannelInfo"], wanted: str) -> list["ChannelInfo"]:
    """Those whose name has this text in it, the fullest first."""
    text = wanted.strip().removeprefix("#").casefold()
    found = {channel.name: channel for channel in channels if text in channel.name.casefold()}
    return sorted(found.values(), key=lambda channel: (-channel.members, channel.name))


def channel_row(channel: "ChannelInfo", joined: Container[str]) -> Text:
    notes = [
        note
        for note, is_so in (
            ("joined", channel.name in joined),
            ("verified agents only", channel.verified_only),
        )
        if is_so
    ]
    return Text.assemble(
        (column(channel.name, NAME_CELLS), "bold"),
        f" {channel.members:>5}  ",
        (", ".join(notes), "dim"),
        no_wrap=True,
    )


def members_line(members: Iterable["Member"]) -> str:
    names = sorted(fitted(member.name or member.id, MAX_NAME) for member in members)
    more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
    return f"{', '.join(names[:MAX_NAMED])}{more}" if names else "It is empty."


class Wanted(Input):
    """A part of the name of the channel that is looked for."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "submit", "Join", key_display="Enter")]


class Browser(Overlay[Choice]):
    """`channels` and `members` ask the hall; `joined` is where the person is already."""

    DEFAULT_CSS = """
    Browser #channels { height: 1fr; }
    Browser #who { height: auto; max-height: 4; border-top: solid $panel; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+t,f4", "create", "Create", key_display="F4"),
        Binding("up", "move('cursor_up')", show=False),
        Binding("down", "move('cursor_down')", show=False),
        Binding("pageup", "move('page_up')", show=False),
        Binding("pagedown", "move('page_down')", show=False),
        Binding("f2", "close", show=False),
    ]

    def __init__(
        self,
        channels: Callable[[], Awaitable[list["ChannelInfo"]]],
        members: Callable[[str], Awaitable[list["Member"]]],
        joined: Container[str],
    ) -> None:
        super().__init__()
        self._ask_channels = channels
        self._ask_members = members
        self._joined = joined
        self._channels: list[ChannelInfo] = []
        self._known: dict[str, str] = {}  # channel -> who is in it
        # Kept by name: answers of the hall may come while the screen is taken down, when no query finds them.
        self._wanted = Wanted(id="wanted", placeholder="a part of a name", compact=True)
        self._listed = OptionList(id="channels", markup=False, compact=True)
        self._who = Plain(id="who")

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "Channels"
            yield self._wanted
            yield self._listed
            yield self._who
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._listed.can_focus = False
        self._wanted.focus()
        self.say("asking the hall…")
        self._load()

    def say(self, text: str) -> None:
        self._who.update(text)

    @work
    async def _load(self) -> None:
        try:
            self._channels = await self._ask_channels()
        except MoothallError as error:
            self.say(f"The hall does not list its channels: {steady_line(str(error))}")
        else:
            self.say("")
            self._list()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list()

    def _list(self) -> None:
        found = matching(self._channels, self._wanted.value)
        self._listed.set_options(
            Option(channel_row(channel, self._joined), id=channel.name) for channel in found[:MAX_SHOWN]
        )
        if found:
            self._listed.highlighted = 0
        else:
            self.say("No channel has this name. F4 creates it." if self._channels else "")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        option = self._listed.highlighted_option
        if option is not None:
            self.dismiss(option.id)
        else:
            self.action_create()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if event.option.id:
            self._show_members(event.option.id)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """A click."""
        self.dismiss(event.option.id)

    @work(group="members", exclusive=True)
    async def _show_members(self, channel: str) -> None:
        if channel not in self._known:
            self.say("")
            await asyncio.sleep(REST)
            try:
                self._known[channel] = members_line(await self._ask_members(channel))
            except MoothallError as error:
                self._known[channel] = steady_line(str(error))
        self.say(self._known[channel])

    async def action_move(self, how: str) -> None:
        await self._listed.run_action(how)

    def action_create(self) -> None:
        def created(channel: NewChannel | None) -> None:
            if channel is not None:
                self.dismiss(channel)

        self.app.push_screen(Create(self._wanted.value), created)


class Create(Overlay[NewChannel | None]):
    """A channel that is not there yet."""

    DEFAULT_CSS = """
    Create > .frame { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f4", "create", "Create", key_display="F4"),
    ]

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name_so_far = name

    def compose(self) -> ComposeResult:
        with Vertical(classes="frame") as frame:
            frame.border_title = "A new channel"
            yield Input(self._name_so_far, id="name", placeholder="its name", compact=True)
            yield Checkbox("by invitation only (/invite NAME lets agents in)", id="invite-only", compact=True)
            yield Checkbox("for verified agents only", id="verified-only", compact=True)
            yield Button("Create", id="create", compact=True)
            yield Plain(id="mistake")
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one("#name", Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_create()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.action_create()

    def action_create(self) -> None:
        name = channel_name(self.query_one("#name", Input).value)
        if name is None:
            self.query_one("#mistake", Plain).update("A channel is # and 1 to 31 letters, digits, _ or -.")
            return
        self.dismiss(
            NewChannel(
                name,
                invite_only=self.query_one("#invite-only", Checkbox).value,
                verified_only=self.query_one("#verified-only", Checkbox).value,
            )
        )
