"""`moothall listen`: every message on standard output, for people or, as JSON lines, for programs."""

import asyncio
import json
import os
import stat
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from moothall.cli._addresses import channel_name, hall_url
from moothall.cli._answerers import Answerers
from moothall.cli._completion import ChannelsArgument
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Url, Visit, seconds
from moothall.cli._exits import tell
from moothall.errors import ConnectionLost, MoothallError, ReplyTimeout, UsageError
from moothall.tui.printable import indented, one_line, shown_name
from moothall.wire.agentchat.names import SERVER

if TYPE_CHECKING:
    from moothall import Agent, FloorChange, Gap, Message, Welcome

DEFAULT_CHANNEL: Final = "general"
REMEMBERED: Final = 200  # ids; what a channel repeats at most
MARGIN: Final = " " * 9  # as wide as the time


def listen(
    channels: ChannelsArgument = None,
    as_json: AsJson = False,
    limit: Annotated[
        int | None, typer.Option("-m", "--max", metavar="N", min=1, help="End after N messages.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="First what the channels remember.")] = False,
    events: Annotated[
        bool,
        typer.Option("--events", help="With --json: also presence, claims, and your deals and disputes."),
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", callback=seconds, help="End with exit code 5 after SECONDS of silence."
        ),
    ] = None,
) -> None:
    """Print what is said in channels, until Ctrl-C.

    The channel is #general if none is named; what is said to you directly is printed too. A lost connection
    is taken up again, and what was said meanwhile is caught up as far as the hall remembers.

    \b
    moothall listen
    moothall listen general builds --json | jq -r .content
    moothall listen --json --events -i alice.json | jq -r .type
    moothall listen -m 1 --timeout 30 wss://hall.example.org general
    """
    if events and not as_json:
        raise UsageError("--events is for programs: add --json")
    rooms = [channel_name(word) for word in channels or [DEFAULT_CHANNEL]]
    visit = Visit(url, name, identity, DEFAULT_TIMEOUT if timeout is None else timeout)
    printer = Printer(as_json=as_json, limit=limit)
    with suppress(KeyboardInterrupt):
        asyncio.run(_listen(visit, rooms, printer, history=history, events=events, silence=timeout))


class Printer:
    """Writes each message out at once, up to a limit."""

    def __init__(self, *, as_json: bool, limit: int | None) -> None:
        self._as_json = as_json
        self._left = limit
        self.answerers: Answerers | None = None  # a line below the messages
        self._shown: deque[str] = deque(maxlen=REMEMBERED)
        self.last = 0.0  # when something was written, by the clock of the loop

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def show(self, message: "Message") -> None:
        if self.is_done or message.id in self._shown:
            return  # what was missed comes twice: as missed, and as what the channel repeats
        if message.id is not None:
            self._shown.append(message.id)
        self._write(_json_line(message.raw) if self._as_json else as_text(message))

    def show_event(self, frame: Mapping[str, Any]) -> None:
        if not self.is_done:
            self._write(_json_line(frame))

    def _write(self, text: str) -> None:
        self.last = asyncio.get_running_loop().time()
        if self._left is not None:
            self._left -= 1
        self.clear()
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
        if self.answerers is not None:
            self.answerers.show()

    def attach(self, agent: "Agent") -> None:
        """Show who is answering, too. JSON is for programs, which read no line that disappears."""
        if not self._as_json:
            self.answerers = answerers = Answerers(agent)

            @agent.on_floor
            async def changed(change: "FloorChange") -> None:
                answerers.changed(change)

    def clear(self) -> None:
        """Make room for a line of another kind."""
        if self.answerers is not None:
            self.answerers.hide()


def _json_line(frame: Mapping[str, Any]) -> str:
    return json.dumps(frame)  # what is outside ASCII is escaped, so it cannot steer a terminal


def as_text(message: "Message") -> str:
    """`12:03:59 #general alice✓: hello`, or `12:03:59 #general * @server: hello`: no agent's name has a star."""
    if message.sender == SERVER:
        name = f"* {SERVER}"
    else:
        name = shown_name(message.sender_name) + ("✓" if message.verified else "")
    where = "(to you)" if message.is_dm else one_line(message.to)
    return f"{message.ts.astimezone():%H:%M:%S} {where} {name}: {indented(message.content, MARGIN)}"


async def _listen(
    visit: Visit,
    rooms: list[str],
    printer: Printer,
    *,
    history: bool,
    events: bool,
    silence: float | None,
) -> None:
    url = hall_url(visit.url)
    agent = visit.agent()
    heard = agent.messages(*rooms, dms=True, replay=history, server=True)
    printer.attach(agent)
    with Ending() as ending:

        @agent.on_gap
        async def catch_up(gap: "Gap") -> None:
            for message in gap.missed:
                printer.show(message)
            if gap.warning:
                printer.clear()
                tell(gap.warning)
            if printer.is_done:
                ending.now()

        async def stream(frame: dict[str, Any]) -> None:
            printer.show_event(frame)
            if printer.is_done:
                ending.now()

        if events:
            for kind in _event_types():
                agent.on_event(kind)(stream)
        _tell_of_connections(agent, url, printer)
        _when_reader_leaves(ending.now)
        try:
            async with agent.connected(url):
                printer.last = asyncio.get_running_loop().time()
                while not printer.is_done:
                    printer.show(await next_message(heard, silence, printer))
        finally:
            printer.clear()


def _event_types() -> list[str]:
    from moothall.cli._listen_events import event_types

    return event_types()


def _tell_of_connections(agent: "Agent", url: str, printer: Printer) -> None:
    """A line on standard error for each: connected, disconnected, reconnected."""
    from moothall.client.dialling import shown_url

    how = "connected"

    @agent.on_connect
    async def tell_arrival(welcome: "Welcome") -> None:
        nonlocal how
        printer.clear()
        tell(one_line(f"{how} to {shown_url(url)} as {welcome.id} ({shown_name(welcome.name)})"))
        how = "reconnected"

    @agent.on_disconnect
    async def tell_loss(error: MoothallError) -> None:
        if isinstance(error, ConnectionLost):  # anything else ends the command, which says so itself
            printer.clear()
            tell(one_line(f"disconnected: {error}; reconnecting"))


async def next_message(heard: "AsyncIterator[Message]", silence: float | None, printer: Printer) -> "Message":
    """The next message. Raises ReplyTimeout when nothing was written for so many seconds of silence."""
    waiting = asyncio.ensure_future(anext(heard))
    try:
        while not waiting.done():
            now = asyncio.get_running_loop().time()
            patience = None if silence is None else printer.last + silence - now
            if patience is not None and patience <= 0:
                raise ReplyTimeout(f"nothing was said for {silence:g} s; a longer --timeout waits longer")
            await asyncio.wait((waiting,), timeout=patience)
        return waiting.result()
    finally:
        waiting.cancel()


class Ending:
    """A block that `now` ends: it is cancelled wherever it waits, and the code after it goes on."""

    def __enter__(self) -> Self:
        self._task = asyncio.current_task()
        self._ended = False
        return self

    def now(self) -> None:
        if self._task is not None and not self._ended:
            self._ended = True
            self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> bool:
        task, self._task = self._task, None
        if not self._ended or task is None:
            return False
        task.uncancel()
        return kind is asyncio.CancelledError


def _when_reader_leaves(leave: Callable[[], None]) -> None:
    """A pipe whose other end is closed says so at once, long before there is something to write."""
    with suppress(OSError, ValueError):  # standard output may be no file at all
        descriptor, loop = sys.stdout.fileno(), asyncio.get_running_loop()

        def reader_left() -> None:
            loop.remove_reader(descriptor)  # it would say so again and again
            leave()

        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            loop.add_reader(descriptor, reader_left)
