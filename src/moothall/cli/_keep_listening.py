"""What `moothall keep listen` does once its flags are read."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final

import typer

from moothall.cli.keep import Errand, described, refuse_errors
from moothall.errors import ReplyTimeout
from moothall.keep import AsyncKeepClient, Message
from moothall.tui.printable import indented, one_line

MARGIN: Final = " " * 9  # as wide as the time


def listen_until_silence(errand: Errand, *, as_json: bool, limit: int | None, silence: float | None) -> None:
    with suppress(KeyboardInterrupt), _telling():
        asyncio.run(_listen(errand, as_json=as_json, limit=limit, silence=silence))


async def _listen(errand: Errand, *, as_json: bool, limit: int | None, silence: float | None) -> None:
    client = AsyncKeepClient(errand.host, errand.port, errand.private_key(), errand.timeout, errand.src)
    try:
        with errand.explained():
            await client.connect()
            answer = await client.send("listening")  # the first packet is what registers a name
        refuse_errors(answer, errand.src)
        typer.echo(f"listening as {errand.src}", err=True)
        messages = client.messages()
        shown = 0
        while limit is None or shown < limit:
            message = await _next(messages, silence)
            typer.echo(json.dumps(described(message.packet)) if as_json else as_text(message))
            shown += 1
    finally:
        await client.disconnect()


async def _next(messages: AsyncIterator[Message], silence: float | None) -> Message:
    try:
        return await asyncio.wait_for(anext(messages), silence)
    except TimeoutError:
        raise ReplyTimeout(f"nothing was said for {silence:g} s; a longer --timeout waits longer") from None


def as_text(message: Message) -> str:
    """`12:03:59 bot:alice✓: hello`"""
    name = one_line(message.src) + ("✓" if message.verified else "")
    return f"{datetime.now().astimezone():%H:%M:%S} {name}: {indented(message.body, MARGIN)}"


@contextmanager
def _telling() -> Iterator[None]:
    """The SDK logs what it lives through; a person is told in a line."""
    log, teller = logging.getLogger("moothall.keep"), _Teller()
    log.addHandler(teller)
    try:
        yield
    finally:
        log.removeHandler(teller)


class _Teller(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(one_line(record.getMessage()), err=True)
