"""`moothall chat`: a hall on the terminal, for a person.

The agent of the SDK does the talking, `Rooms` remembers what there is to see, the widgets show it. What the agent
hears goes through the app's own queue first, so that everything in here happens one after another.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Footer, Input, TextArea
from textual.worker import WorkerError

from moothall.errors import MoothallError, Refusal
from moothall.tui.affairs import MAX_KEPT, Affairs
from moothall.tui.browser import Browser
from moothall.tui.cells import fitted
from moothall.tui.commands import Commands
from moothall.tui.ears import Ears
from moothall.tui.entry import Command, Mistake, parse
from moothall.tui.escape_sequences import free_alt_digits
from moothall.tui.history import History
from moothall.tui.keys import bindings
from moothall.tui.overlays import Help
from moothall.tui.panel import Panel
from moothall.tui.printable import MAX_NAME, steady_line
from moothall.tui.rendering import VERIFIED, member_list, room_list
from moothall.tui.rooms import Kind, Line, Room, Rooms
from moothall.tui.widgets import MAX_TEXT, Entry, Plain, Search

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.client.events import ChannelInfo

TYPING_EVERY: Final = 3.0  # seconds between two notices that one is typing
REFRESH_EVERY: Final = 1.0  # seconds; signs of typing and answering fade by themselves

QUIT_PATIENCE: Final = 2.0  # seconds for messages that are on their way
# Seconds between two lines about deals or cases; others decide how many offers they make
NEWS_EVERY: Final = 2.0

CONNECTED: Final = "connected"
RECONNECTING: Final = "reconnecting…"

STYLE: Final = """
#rooms-pane { width: 16; border-right: vkey $panel; }
#members-pane { width: 16; border-left: vkey $panel; }
#rooms-pane, #members-pane { scrollbar-size-vertical: 1; }
#middle { width: 1fr; layers: base above; }
#title { height: 1; background: $panel; text-style: bold; }
#history {
    height: 1fr; overflow-x: hidden; scrollbar-gutter: stable; scrollbar-size-vertical: 1; background: $background;
}
#below { layer: above; dock: bottom; height: 1; text-align: center; text-style: reverse; display: none; }
#activity { height: 1; color: $text-accent; }
#entry { height: auto; max-height: 5; }
#search { display: none; }
#status { height: 1; background: $panel; color: $text-muted; }
Screen.-searching #entry { display: none; }
Screen.-searching #search { display: block; }
Screen.-wide #rooms-pane { width: 24; }
Screen.-wide #members-pane { width: 28; }
Screen.-narrow #members-pane { display: none; }
Screen.-slim #members-pane, Screen.-slim #rooms-pane { display: none; }
"""
PARTS: Final = ("rooms", "title", "members", "below", "activity", "status")
SENDING: Final = "sending"  # the group of workers that wait for the hall to take a message
SEARCHING: Final = "-searching"


class ChatApp(App[MoothallError | None], inherit_bindings=False):
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
    BINDINGS: ClassVar[list[BindingType]] = [*bindings()]

    def __init__(
        self, agent: "Agent", channels: Sequence[str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.agent = agent
        self.rooms = Rooms()
        self.clock = clock
        self.affairs = Affairs()
        self.known_channels: set[str] = set(channels)
        self._first = tuple(channels)
        self._state = CONNECTED
        self._sending = 0
        self._sides_are_stale = self._affairs_are_stale = False
        self._typed_at = self._told_at = float("-inf")
        self._is_built = False
        self._found = ""  # which of how many lines a search has found
        self._commands = Commands(self)
        free_alt_digits()
        Ears(self).listen()

    # -- the screen --------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        self._history = History()
        self._entry = Entry(self._submitted, self._names_here, lambda: self.known_channels)
        self._search = Search()
        self._parts = {name: Plain(id=name) for name in PARTS}
        with Horizontal():
            with VerticalScroll(id="rooms-pane", can_focus=False):
                yield self._parts["rooms"]
            with Vertical(id="middle"):
                yield self._parts["title"]
                yield self._history
                yield self._parts["below"]
            with VerticalScroll(id="members-pane", can_focus=False):
                yield self._parts["members"]
        yield self._parts["activity"]
        yield self._entry
        yield self._search
        yield self._parts["status"]
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._is_built = True
        self._entry.focus()
        self.watch(self._history, "missed", self._draw_below)
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
        await self.known_and_listed()
        with suppress(MoothallError):  # F3 asks again, and tells what is wrong
            await self.load_affairs()

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
        return self.is_running and self._is_built and self._entry.is_attached

    def _draw_sides(self) -> None:
        self._sides_are_stale = False
        if not self.has_screen:
            return
        room, now = self.rooms.current, self.clock()
        if room is not None and room.is_channel:
            room.answering = list(dict.fromkeys(each.id for each in self.agent.answering(room.name)))
        self._parts["rooms"].update(room_list(self.rooms))
        self._parts["title"].update(self._title(room))
        self._parts["members"].update(member_list(room, self.agent.address) if room else "")
        self._parts["activity"].update(self._found or (steady_line(room.activity(now)) if room else ""))
        self._parts["status"].update(self._status())
        if self._affairs_are_stale and isinstance(self.screen, Panel):
            self.screen.show_list()
        self._affairs_are_stale = False

    def _draw_below(self, missed: int) -> None:
        self._parts["below"].display = missed > 0
        self._parts["below"].update(f"↓ {missed} new {'message' if missed == 1 else 'messages'} below (Esc)")

    def _title(self, room: Room | None) -> str:
        if room is None:
            return "no room; /join CHANNEL, or /list"
        what = f"{len(room.members)} here" if room.is_channel else steady_line(room.name)
        return f"{fitted(room.title, MAX_NAME)}  {what}"

    def _status(self) -> Text:
        mark = VERIFIED if self.agent.verified else ""
        status = Text(self._state, style="bold yellow" if self._state == RECONNECTING else "")
        status.append(f" | {fitted(self.agent.server, MAX_NAME)}")
        status.append(f" | {fitted(self.agent.name, MAX_NAME)}{mark} {steady_line(self.agent.address)}")
        if waiting := self.affairs.waiting():
            status.append(f" | F3: {waiting} waiting for you", style="bold red")
        if self._sending:
            status.append(f" | sending {self._sending}…")
        return status

    # -- what is to be seen ------------------------------------------------------------------------

    def add(self, name: str, line: Line, title: str | None = None) -> None:
        """One more line in a room."""
        room = self.rooms.hear(name, line, title)
        if room is self.rooms.current:
            self._history.add(line, is_first_unread=room.first_unread == len(room.lines) - 1)
        self.refresh_sides()

    def note(self, text: str, room: str | None = None) -> None:
        """Something this program has to say, in the room that is looked at if no other is named."""
        current = self.rooms.current
        name = room or (current.name if current else None)
        line = Line(Kind.NOTE, datetime.now().astimezone(), text)
        if name is None:
            self._history.add(line)
        else:
            self.add(name, line)

    def look_at(self, name: str) -> None:
        self.rooms.show(name)
        self.look_again()

    def look_again(self) -> None:
        """The room that is looked at may be another one now."""
        room = self.rooms.current
        self._history.show(room.lines if room else (), room.first_unread if room else None)
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

    def _submitted(self, text: str) -> None:
        said = parse(text)
        if isinstance(said, Mistake):
            self.note(said.text)
        elif isinstance(said, Command):
            self.attempt(partial(self._commands.run, said))
        elif said:
            self._say(said)

    def on_entry_refused(self, event: Entry.Refused) -> None:
        self.note(
            f"That text has {event.length:,} characters; the entry takes {MAX_TEXT:,}. Send it in parts."
        )

    def _say(self, text: str) -> None:
        room = self.rooms.current
        if room is None:
            self.note("you are in no room; /join CHANNEL first, /list shows them")
            self._entry.value = text
        else:
            self.run_worker(self.send(room.name, text), group=SENDING)

    async def send(self, to: str, text: str) -> None:
        """The line appears when the hall has taken it, and a text it did not take comes back."""
        self._sending += 1
        self.refresh_sides()
        try:
            taken = await self.attempting(partial(self._commands.send, to, text))
        finally:
            self._sending -= 1
            self.refresh_sides()
        if not taken and not self._entry.value:
            self._entry.value = text

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        room, now, text = self.rooms.current, self.clock(), self._entry.value
        if room is None or not room.is_channel or not text or text.startswith("/"):
            return
        if now - self._typed_at >= TYPING_EVERY:
            self._typed_at = now
            self.run_worker(self._tell_typing(room.name))

    async def _tell_typing(self, channel: str) -> None:
        with suppress(MoothallError):  # sent without a request of the user, so a failure is not shown
            await self.agent.typing(channel)

    # -- keys --------------------------------------------------------------------------------------

    def action_step(self, by: int) -> None:
        self.rooms.step(by)
        self.look_again()

    def action_room(self, number: int) -> None:
        self.rooms.show_number(number)
        self.look_again()

    def action_active(self) -> None:
        self.rooms.show_active()
        self.look_again()

    def action_scroll(self, by: int) -> None:
        if by < 0:
            self._history.scroll_page_up(animate=False)
        else:
            self._history.scroll_page_down(animate=False)

    def action_bottom(self) -> None:
        self._history.to_end()

    def action_channels(self) -> None:
        browser = Browser(self.known_and_listed, self.agent.members, {room.name for room in self.rooms})
        self.push_screen(browser, self._commands.chosen)

    async def known_and_listed(self) -> list["ChannelInfo"]:
        """What the hall lists. Tab knows these channels from now on."""
        channels = await self.agent.channels()
        self.known_channels.update(channel.name for channel in channels)
        return channels

    def action_deals(self) -> None:
        self.push_screen(Panel(self.agent, self.affairs, self.name_of, self.load_affairs))

    async def load_affairs(self) -> None:
        """Ask the hall for the latest deals and cases."""
        if self.agent.identity is not None:
            self.affairs.keep(await self.agent.proposals(open_only=False, limit=MAX_KEPT))
            self.affairs.keep(await self.agent.disputes(open_only=False, limit=MAX_KEPT))
            self.affairs_changed()

    def affairs_changed(self) -> None:
        self._affairs_are_stale = True
        self.refresh_sides()

    def tell_news(self, text: str) -> None:
        """Something about deals or cases. In a flood of offers the status line counts what is not told here."""
        if self.clock() - self._told_at >= NEWS_EVERY:
            self._told_at = self.clock()
            self.note(f"{steady_line(text)} (F3)")
            self.bell()
        self.affairs_changed()

    def name_of(self, address: str) -> str:
        return self.rooms.name_of(address) or address

    async def action_quit(self) -> None:
        """Leave when what was sent has arrived, or does not within a moment."""
        sending = [worker for worker in self.workers if worker.group == SENDING]
        with suppress(TimeoutError, WorkerError):
            async with asyncio.timeout(QUIT_PATIENCE):
                await self.workers.wait_for_complete(sending)
        self.exit()

    def action_help(self) -> None:
        self.push_screen(Help())

    def on_app_blur(self, event: events.AppBlur) -> None:
        """The person looks at another window."""
        if room := self.rooms.current:
            room.look_away()

    def on_app_focus(self, event: events.AppFocus) -> None:
        if room := self.rooms.current:
            room.look_back()

    # -- searching ---------------------------------------------------------------------------------

    def action_search(self) -> None:
        if self.screen.has_class(SEARCHING):
            self._find(-1)
        else:
            self.search("")

    def search(self, text: str) -> None:
        """Have the keys look for a text in the room, until Esc."""
        self.screen.add_class(SEARCHING)
        self._search.value = text
        self._search.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input is self._search:  # overlays have inputs too
            self._find(0)

    def on_search_wanted(self, event: Search.Wanted) -> None:
        self._find(event.by)

    def on_search_closed(self, event: Search.Closed) -> None:
        self.screen.remove_class(SEARCHING)
        self._found = ""
        self.refresh_sides()
        self._entry.focus()

    def _find(self, by: int) -> None:
        place, count = self._history.find(self._search.value, by)
        self._found = f"{place} of {count}" if count else "not found" if self._search.value else ""
        self.refresh_sides()

    def _names_here(self) -> list[str]:
        room = self.rooms.current
        people = room.people() if room else []
        return [person.name for person in people if person.address != self.agent.address]
