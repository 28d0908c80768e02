"""`moothall listen`: every message on standard output, for people or, as JSON lines, for programs."""

import asyncio
import json
import os
import stat
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final, Self

import typer

from moothall.cli.addresses import channel_name, hall_url
from moothall.cli.completion import ChannelsArgument
from moothall.cli.connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Url, Visit, seconds
from moothall.cli.exits import tell
from moothall.errors import ConnectionLost, MoothallError, ReplyTimeout
from moothall.tui.printable import indented, one_line, shown_name

if TYPE_CHECKING:
    from moothall import Gap, Message

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
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", callback=seconds, help="End with exit code 5 after such a silence."),
    ] = None,
) -> None:
    """Print what is said in channels, until Ctrl-C.

    The channel is #general if none is named; what is said to you directly is printed too. A lost connection
    is taken up again, and what was said meanwhile is caught up as far as the hall remembers.

    \b
    moothall listen
    moothall listen general builds --json | jq -r .content
    moothall listen -m 1 --timeout 30 wss://hall.example.org general
    """
    rooms = [channel_name(word) for word in channels or [DEFAULT_CHANNEL]]
    visit = Visit(url, name, identity, DEFAULT_TIMEOUT if timeout is None else timeout)
    printer = Printer(as_json=as_json, limit=limit)
    with suppress(KeyboardInterrupt):
        asyncio.run(_listen(visit, rooms, printer, history=history, silence=timeout))


class Printer:
    """Writes each message out at once, up to a limit."""

    def __init__(self, *, as_json: bool, limit: int | None) -> None:
        self._as_json = as_json
        self._left = limit
        self._shown: deque[str] = deque(maxlen=REMEMBERED)

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def show(self, message: "Message") -> None:
        if self.is_done or message.id in self._shown:
            return  # what was missed comes twice: as missed, and as what the channel repeats
        if message.id is not None:
            self._shown.append(message.id)
        if self._left is not None:
            self._left -= 1
        # JSON with everything outside ASCII escaped cannot steer a terminal either.
        text = json.dumps(message.raw) if self._as_json else as_text(message)
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def as_text(message: "Message") -> str:
    """`12:03:59 #general alice✓: hello`"""
    name = shown_name(message.sender_name) + ("✓" if message.verified else "")
    where = "(to you)" if message.is_dm else one_line(message.to)
    return f"{message.ts.astimezone():%H:%M:%S} {where} {name}: {indented(message.content, MARGIN)}"


async def _listen(
    visit: Visit, rooms: list[str], printer: Printer, *, history: bool, silence: float | None
) -> None:
    url = hall_url(visit.url)
    agent = visit.agent()
    heard = agent.messages(*rooms, dms=True, replay=history)
    with Ending() as ending:

        @agent.on_gap
        async def catch_up(gap: "Gap") -> None:
            for message in gap.missed:
                printer.show(message)
            if not gap.complete:
                tell("more may have been said meanwhile than the hall remembers")
            if printer.is_done:
                ending.now()

        @agent.on_disconnect
        async def tell_loss(error: MoothallError) -> None:
            if isinstance(error, ConnectionLost):  # anything else ends the command, which says so itself
                tell("the connection is lost; trying to get it back")

        _when_reader_leaves(ending.now)
        async with agent.connected(url):
            while not printer.is_done:
                printer.show(await _next(heard, silence))


async def _next(heard: "AsyncIterator[Message]", silence: float | None) -> "Message":
    try:
        return await asyncio.wait_for(anext(heard), silence)
    except ReplyTimeout:
        raise  # the hall did not answer, which is another silence
    except TimeoutError:
        raise ReplyTimeout(f"nothing was said for {silence:g} s; a longer --timeout waits longer") from None


class Ending:
    """A block that somebody else may end: it is cancelled wherever it waits, and the code after it goes on."""

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
