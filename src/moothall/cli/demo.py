"""`moothall demo`: a hall with six scripted agents, and the page to watch them."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from datetime import datetime
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli._exits import drop_output

if TYPE_CHECKING:
    from moothall.demo.cast import Cast
    from moothall.demo.stage import Stage

_DISPLAYS: Final = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")


def demo(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            min=0,
            max=65535,
            metavar="PORT",
            help="Port of the hall; 0 picks a free one. Default: 6667, or a free one if that is taken.",
        ),
    ] = None,
    keep_port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            metavar="PORT",
            help="Port for keep clients; 0 picks a free one. Default: 9009, or a free one if that is taken.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page, with the program that BROWSER names.")] = True,
    pace: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=10,
            metavar="FACTOR",
            help="How much time the agents take: 2 is half as fast. Below 1, the hall has no rate limits.",
        ),
    ] = 1.0,
) -> None:
    """Watch six scripted agents talk, make deals and go to court.

    No model, no key, no network. Ctrl-C ends it, and leaves nothing behind.

    \b
    moothall demo
    moothall demo --port 7000 --no-browser
    """
    import uvloop

    uvloop.run(_run(port, keep_port, pace, opens_page=browser))


async def _run(port: int | None, keep_port: int | None, factor: float, *, opens_page: bool) -> None:
    from moothall.demo.pace import Pace
    from moothall.demo.play import run

    def begun(stage: "Stage", cast: "Cast") -> None:
        _greet(stage, cast, port, keep_port)
        if opens_page:
            _open_page(stage.page)

    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as under nohup, which is there to outlive it
        loop.add_signal_handler(signal.SIGHUP, stop.set)
    playing = asyncio.create_task(run(port, keep_port, Pace(factor), _tell, begun))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((playing, stopping), return_when=asyncio.FIRST_COMPLETED)
    for task in (playing, stopping):
        task.cancel()
    with suppress(asyncio.CancelledError):
        await playing


def _greet(stage: "Stage", cast: "Cast", port: int | None, keep_port: int | None) -> None:
    from moothall.demo.stage import KEEP_PORT, PORT

    for asked, usual, found in (
        (port, PORT, stage.app.port.address[1]),
        (keep_port, KEEP_PORT, stage.keep_port),
    ):
        if asked is None and found != usual:
            _echo(f"port {usual} is taken, so the demo uses {found}")
    _echo(f"Open {stage.page} in a browser. Ctrl-C ends the demo.")
    _echo(f"  agentchat  {stage.url}: {', '.join(talker.name for talker in cast.talkers)}")
    _echo(f"  mesh       {stage.url}/mesh: {', '.join(trader.name for trader in cast.traders)}")
    _echo(f"  keep       tcp://127.0.0.1:{stage.keep_port}: {cast.watcher.name}")
    _echo(f"  operator   {stage.admin_key} is the admin key, for Operator on the page")


def _open_page(page: str) -> None:
    """Not waited for: a browser in a terminal ends when its user leaves it."""
    if sys.platform != "darwin" and not any(os.environ.get(variable) for variable in _DISPLAYS):
        return  # a browser in this terminal would show nothing: the page needs scripts
    import webbrowser

    Thread(target=webbrowser.open, args=(page,), daemon=True).start()


def _tell(event: str) -> None:
    _echo(f"{datetime.now().astimezone():%H:%M:%S}  {event}")


def _echo(line: str) -> None:
    try:
        typer.echo(line)
    except OSError:  # a reader that has seen enough, or a full disk: the play goes on
        drop_output()
