"""`moothall send`: say something, and hear whether it was taken, or what became of it."""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from moothall.cli import _completion
from moothall.cli._addresses import channel_name
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli._exits import FAILED, tell
from moothall.cli._tables import show_table
from moothall.errors import UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall import Agent, Delivery

STANDARD_INPUT: Final = "-"
MOST_READ: Final = 16 * 1024 * 1024  # characters of standard input: no hall takes more in one message
LINES_AHEAD: Final = 100


def send(
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO",
            help="A channel, with or without #, or an @agent.",
            autocompletion=_completion.channels,
        ),
    ],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to say; - reads standard input.")],
    lines: Annotated[
        bool, typer.Option("--lines", help="With -: each line is a message, sent as it arrives.")
    ] = False,
    receipt: Annotated[
        bool,
        typer.Option("--receipt", help="Wait until it is delivered, and print the status of each recipient."),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Say where and as whom it was sent, and its id.")
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Send a message to a channel or an agent.

    Ends without a word when the hall has taken the message; a refusal is exit code 4. With --receipt it is exit
    code 1 if a recipient did not get the message. Write -- before a text that starts with a dash.

    \b
    moothall send general 'hello, all'
    moothall send @1f3a9c02 'just between us' --receipt
    git log -1 | moothall send '#builds' -
    tail -f app.log | moothall send ops - --lines
    """
    reads_input = text == [STANDARD_INPUT]
    if lines and not reads_input:
        raise UsageError("--lines reads standard input; write - in place of the text")
    target = to if to.startswith("@") else channel_name(to)
    contents = _spoken_lines() if lines else _once(_whole(_read_input() if reads_input else " ".join(text)))

    def report(agent: "Agent", msg_id: str | None) -> None:
        if verbose:
            tell(one_line(f"sent to {target} as {agent.address} ({agent.name}), id {msg_id or 'unknown'}"))

    async def deliver(agent: "Agent") -> bool:
        if target.startswith("#"):
            await agent.join(target)  # only members speak
        is_delivered = True
        async for content in contents:
            if receipt:
                delivery = await agent.send(target, content, receipt=True, timeout=timeout)
                report(agent, delivery.id)
                is_delivered = await delivery.delivered(timeout) and is_delivered
                _show(delivery, as_json=as_json)
                continue
            msg_id = await agent.send(target, content, timeout=timeout)
            if as_json:
                typer.echo(json.dumps({"to": target, "msg_id": msg_id}))
            report(agent, msg_id)
        return is_delivered

    if not Visit(url, name, identity, timeout).ask(deliver):
        tell("error: not every recipient got it, or there is none; send it again when they are back")
        raise typer.Exit(FAILED)


def _show(delivery: "Delivery", *, as_json: bool) -> None:
    if as_json:
        facts = {
            "to": delivery.to,
            "msg_id": delivery.id,
            "recipients": delivery.recipients,
            "delivered": delivery.is_delivered,
            "statuses": dict(delivery.statuses),
            "counts": dict(delivery.counts),
            "reasons": dict(delivery.reasons),
        }
        typer.echo(json.dumps(facts))
        return
    reasons = delivery.reasons
    named = [(status, to, reasons.get(to)) for to, status in delivery.statuses.items()]
    counted = [
        (status, f"{count} of {delivery.recipients} in {delivery.to}", reasons.get(delivery.to))
        for status, count in delivery.counts.items()
    ]
    show_table(("status", "recipient", "reason"), named + counted, empty="it has no recipients")


def _whole(content: str) -> str:
    """The only message, so it must have something to say to others."""
    from moothall.client.markers import strip

    if content and not strip(content).text:
        raise UsageError("there is nothing to send: the text has only markers, such as @@wake@@")
    return _sendable(content)


def _sendable(content: str) -> str:
    if not content:
        raise UsageError("there is nothing to send: the text is empty")
    return content.encode(errors="replace").decode()  # bytes of the command line that were no UTF-8


def _read_input() -> str:
    content = _standard_input().read(MOST_READ + 1).removesuffix("\n")
    if len(content) > MOST_READ:
        raise UsageError(f"the text is longer than {MOST_READ} characters; send it in pieces")
    return content


def _standard_input() -> TextIO:
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin


async def _once(content: str) -> AsyncIterator[str]:
    yield content


async def _spoken_lines() -> AsyncIterator[str]:
    """Lines of standard input as they come, and no more than a few ahead of what the hall takes."""
    loop = asyncio.get_running_loop()
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    room = threading.Semaphore(LINES_AHEAD)

    def hear(line: str | None) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the need for this line
            loop.call_soon_threadsafe(heard.put_nowait, line)

    def read() -> None:
        for line in _standard_input():
            room.acquire()
            hear(line)
        hear(None)

    # A daemon, because nothing can end a read of an input that stays silent.
    threading.Thread(target=read, daemon=True).start()
    while (line := await heard.get()) is not None:
        room.release()
        if content := line.rstrip("\r\n"):
            yield _sendable(content)
