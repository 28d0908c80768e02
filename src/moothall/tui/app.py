"""`moothall chat`: a hall on the terminal, for a person.

The agent of the SDK does the talking, `Rooms` remembers what there is to see, the widgets show it. What the agent
hears goes through the app's own queue first, so that everything in here happens one after another.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Input

from moothall.errors import MoothallError, Refusal
from moothall.tui.commands import Commands
from moothall.tui.ears import Ears
from moothall.tui.entry import Command, Mistake, parse
from moothall.tui.printable import one_line, shown_name
from moothall.tui.rendering import VERIFIED, member_list, room_list
from moothall.tui.rooms import Kind, Line, Room, Rooms
from moothall.tui.widgets import Entry, History, Plain

if TYPE_CHECKING:
    from moothall import Agent

TYPING_EVERY: Final = 3.0  # seconds between two notices that one is typing
REFRESH_EVERY: Final = 1.0  # seconds; signs of typing and answering fade by themselves

CONNECTED: Final = "connected"
RECONNECTING: Final = "reconnecting…"

STYLE: Final = """
Screen { layout: vertical; }
#rooms-pane { width: 18; border-right: vkey $panel; }
#members-pane { width: 20; border-left: vkey $panel; }
#rooms-pane, #members-pane { scrollbar-size-vertical: 1; }
#middle { width: 1fr; }
#title { height: 1; background: $panel; text-style: bold; }
#history { height: 1fr; scrollbar-size-vertical: 1; background: $background; }
#activity { height: 1; color: $text-accent; }
#status { height: 1; background: $panel; color: $text-muted; }
Screen.-wide #rooms-pane { width: 24; }
Screen.-wide #members-pane { width: 28; }
Screen.-narrow #members-pane { display: none; }
Screen.-narrow #rooms-pane { width: 14; }
Screen.-slim #members-pane, Screen.-slim #rooms-pane { display: none; }
"""


class ChatApp(App[MoothallError | None]):
    """Ends with the error that ended the agent, or None when the person had enough."""

    CSS = STYLE
    ENABLE_COMMAND_PALETTE = False
    # 80 columns have room for all three panes; a narrower terminal loses the members first, then the rooms.
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012  # textual declares it without ClassVar
        (0, "-slim"),
        (50, "-narrow"),
        (76, "-normal"),
        (120, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "quit", "Quit", priority=True),
        Binding("ctrl+n", "step(1)", "Next room", priority=True),
        Binding("ctrl+p", "step(-1)", "Previous room", priority=True),
        Binding("pageup", "scroll(-1)", "Scroll", priority=True),
        Binding("pagedown", "scroll(1)", "Scroll", priority=True),
    ]

    def __init__(
        self, agent: "Agent", channels: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.agent = agent
        self.rooms = Rooms()
        self.clock = clock
        self.known_channels: set[str] = set(channels)
        self._first = tuple(channels)
        self._state = CONNECTED
        self._sending = 0
        self._sides_are_stale = False
        self._typed_at = float("-inf")
        self._commands = Commands(self)
        Ears(self).listen()

    # -- the screen --------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        with Horizontal():
            with VerticalScroll(id="rooms-pane", can_focus=False):
                yield Plain(id="rooms")
            with Vertical(id="middle"):
                yield Plain(id="title")
                yield History()
            with VerticalScroll(id="members-pane", can_focus=False):
                yield Plain(id="members")
        yield Plain(id="activity")
        yield Entry(self._names_here, lambda: self.known_channels)
        yield Plain(id="status")

    def on_mount(self) -> None:
        self.query_one(Entry).focus()
        self.set_interval(REFRESH_EVERY, self.refresh_sides)
        self.run_worker(self._until_closed(), exit_on_error=False)
        self.attempt(self._enter_first_rooms)
        self.refresh_sides()

    async def _enter_first_rooms(self) -> None:
        for channel in self._first:
            await self.attempting(partial(self._commands.enter, channel))
        if self._first and self._first[0] in self.rooms:
            self.look_at(self._first[0])
        if self.agent.motd:
            self.note(self.agent.motd)
        self.known_channels.update(channel.name for channel in await self.agent.channels())

    async def _until_closed(self) -> None:
        try:
            await self.agent.wait_closed()
        except MoothallError as error:
            self.exit(error)
        else:
            self.exit()

    def refresh_sides(self) -> None:
        """Everything but the history, which is written line by line; once for all that is waiting to be heard."""
        if not self._sides_are_stale:
            self._sides_are_stale = True
            self.call_later(self._draw_sides)

    @property
    def has_screen(self) -> bool:
        """Not before it is built, and not while it is taken down, when the hall may still have news."""
        return self.is_running and any(entry.is_attached for entry in self.query(Entry))

    def _draw_sides(self) -> None:
        self._sides_are_stale = False
        if not self.has_screen:
            return
        room, now = self.rooms.current, self.clock()
        self.query_one("#rooms", Plain).update(room_list(self.rooms))
        self.query_one("#title", Plain).update(self._title(room))
        self.query_one("#members", Plain).update(member_list(room, self.agent.address, now) if room else "")
        self.query_one("#activity", Plain).update(one_line(room.activity(now)) if room else "")
        self.query_one("#status", Plain).update(self._status())

    def _title(self, room: Room | None) -> str:
        if room is None:
            return "no room; /join CHANNEL, or /list"
        return f"{one_line(room.title)}  {f'{len(room.members)} here' if room.is_channel else one_line(room.name)}"

    def _status(self) -> Text:
        mark = VERIFIED if self.agent.verified else ""
        status = Text(self._state, style="bold yellow" if self._state == RECONNECTING else "")
        status.append(f" | {one_line(self.agent.server)}")
        status.append(f" | {shown_name(self.agent.name)}{mark} {one_line(self.agent.address)}")
        if self._sending:
            status.append(f" | sending {self._sending}…")
        return status

    # -- what is to be seen ------------------------------------------------------------------------

    def add(self, name: str, line: Line, title: str | None = None) -> None:
        """One more line in a room."""
        room = self.rooms.hear(name, line, title)
        if room is self.rooms.current:
            self.query_one(History).add(line)
        self.refresh_sides()

    def note(self, text: str, room: str | None = None) -> None:
        """Something this program has to say, in the room that is looked at if no other is named."""
        current = self.rooms.current
        name = room or (current.name if current else None)
        line = Line(Kind.NOTE, datetime.now().astimezone(), text)
        if name is None:
            self.query_one(History).add(line)
        else:
            self.add(name, line)

    def look_at(self, name: str) -> None:
        self.query_one(History).show(self.rooms.show(name).lines)
        self.refresh_sides()

    def look_again(self) -> None:
        """The room that is looked at may be another one now."""
        room = self.rooms.current
        self.query_one(History).show(room.lines if room else ())
        self.refresh_sides()

    def disconnected(self) -> None:
        self._state = RECONNECTING
        self.note("the connection is lost; trying to get it back")

    def connected(self) -> None:
        if self._state == RECONNECTING:
            self._state = CONNECTED
            self.note("connected again")
            for room in self.rooms:
                if room.is_channel:
                    self.attempt(partial(self._commands.refresh_members, room.name))

    # -- what the person does ----------------------------------------------------------------------

    def attempt(self, operation: Callable[[], Awaitable[object]]) -> None:
        """Something that waits for the hall; the screen does not."""
        self.run_worker(self.attempting(operation))

    async def attempting(self, operation: Callable[[], Awaitable[object]]) -> bool:
        try:
            await operation()
        except Refusal as error:
            self.note(f"{error.code}: {error}")
        except MoothallError as error:
            self.note(str(error))
        else:
            return True
        return False

    def on_input_submitted(self, event: Input.Submitted) -> None:
        said = parse(self.query_one(Entry).take())
        if isinstance(said, Mistake):
            self.note(said.text)
        elif isinstance(said, Command):
            self.attempt(partial(self._commands.run, said))
        elif said:
            self._say(said)

    def _say(self, text: str) -> None:
        room = self.rooms.current
        if room is None:
            self.note("you are in no room; /join CHANNEL first, /list shows them")
        else:
            self.attempt(partial(self.send, room.name, text))

    async def send(self, to: str, text: str) -> None:
        """The line appears when the hall has taken it, and a text it did not take comes back."""
        self._sending += 1
        self.refresh_sides()
        try:
            taken = await self.attempting(partial(self._commands.send, to, text))
        finally:
            self._sending -= 1
            self.refresh_sides()
        entry = self.query_one(Entry)
        if not taken and not entry.value:
            entry.value = text

    def on_input_changed(self, event: Input.Changed) -> None:
        room, now = self.rooms.current, self.clock()
        if room is None or not room.is_channel or not event.value or event.value.startswith("/"):
            return
        if now - self._typed_at >= TYPING_EVERY:
            self._typed_at = now
            self.run_worker(self._tell_typing(room.name))

    async def _tell_typing(self, channel: str) -> None:
        with suppress(MoothallError):  # nobody asked for it, so nobody is told that it failed
            await self.agent.typing(channel)

    def action_step(self, by: int) -> None:
        self.rooms.step(by)
        self.look_again()

    def action_scroll(self, by: int) -> None:
        history = self.query_one(History)
        if by < 0:
            history.scroll_page_up(animate=False)
        else:
            history.scroll_page_down(animate=False)

    def _names_here(self) -> list[str]:
        room = self.rooms.current
        people = room.people() if room else []
        return [person.name for person in people if person.address != self.agent.address]
