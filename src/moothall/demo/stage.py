"""The hall of the demo: a real one, with data in a folder that is removed at the end."""

import json
import os
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from time import time
from typing import Final

from moothall import logs
from moothall.app import App
from moothall.demo.cast import CHANNELS, GENERAL, HOST
from moothall.demo.folder import own_folder, remove_stale
from moothall.demo.pace import Pace
from moothall.errors import UsageError
from moothall.known_halls import PATH_VARIABLE, KnownHalls, Pin
from moothall.market.credit_books import deposit
from moothall.market.credits import MILLIONTHS
from moothall.settings import Settings
from moothall.store.books import StoreBooks
from moothall.store.once import run_once
from moothall.store.opening import connect

NAME: Final = "moothall demo"
PORT: Final = 6667
KEEP_PORT: Final = 9009
CREDITS: Final = 1000  # of each agent of the mesh: what they pay, they get back in the next round
_NOTE: Final = "introduced.json"  # in the folder of a demo
MOTD: Final = "Six scripted agents play here. Join, and speak with them: one of them answers."


class Stage:
    """An open hall, and a folder for all that is written."""

    def __init__(self, app: App, folder: Path) -> None:
        self.app = app
        self.folder = folder
        self.url = app.url

    @property
    def page(self) -> str:
        """The address for the browser."""
        return f"{self.url.replace('ws', 'http', 1)}/"

    @property
    def keep_port(self) -> int:
        if self.app.keep is None:
            raise UsageError("the hall of the demo has no keep port")
        return self.app.keep.address[1]

    @property
    def admin_key(self) -> str:
        """For the operator's desk on the page. It ends with this hall."""
        return self.app.settings.admin_key

    def issue_credits(self, key: bytes) -> None:
        """As `moothall ledger deposit` does it."""

        def work(books: StoreBooks) -> None:
            deposit(books, key, CREDITS * MILLIONTHS, f"demo-{key.hex()[:8]}", now=int(time() * 1000))

        with closing(connect(self.app.settings.data_dir, "")) as connection:
            run_once(connection, "", work)


@asynccontextmanager
async def opened(port: int | None, keep_port: int | None, pace: Pace) -> AsyncIterator[Stage]:
    """A hall on these ports of loopback. Without a port it is the usual one, or a free one if that is taken.

    Raises SettingsError if a port that was asked for is taken.
    """
    remove_stale(_leave)
    with own_folder() as folder:
        settings = Settings(
            host=HOST,
            port=_usual(PORT) if port is None else port,
            keep_port=_usual(KEEP_PORT) if keep_port is None else keep_port,
            data_dir=folder / "hall",
            server_name=NAME,
            motd=MOTD,
            admin_key=secrets.token_urlsafe(12),
            default_channels=CHANNELS,
            keep_channel=GENERAL,
            buffer_size=100,
            idle_prompts=False,
            public_deals=True,
            public_cases=True,
            court_response_timeout=120.0,  # a case that a visitor files finds no panel: it ends soon
            no_limits=pace.is_hasty,
            log_level="warning",
        )
        async with App(settings, logs.configure(settings)) as app:
            with _introduced(app, folder), _own_known_halls(folder):
                yield Stage(app, folder)


def _usual(port: int) -> int:
    """The port if it is free, else 0, which picks one."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return 0
    return port


@contextmanager
def _introduced(app: App, folder: Path) -> Iterator[None]:
    """The user's own programs may know another hall at this port. They meet this one while it is here.

    What has to be undone then is noted in the folder, for the case that this demo is killed.
    """
    halls, port, key = KnownHalls(), app.port.address[1], app.hall.public_key
    with suppress(OSError, UsageError):  # a damaged file, which the programs tell of
        former = halls.at_own_port(port)
        note = {
            "path": str(halls.path.absolute()),
            "port": port,
            "key": key,
            "former": former and former._asdict(),
        }
        (folder / _NOTE).write_text(json.dumps(note), encoding="utf-8")
        halls.meet_own_hall(port, key)
    try:
        yield
    finally:
        _leave(folder)


def _leave(folder: Path) -> None:
    """The hall of the demo in this folder is gone: its place is what it was before."""
    with suppress(
        OSError, UsageError, ValueError, TypeError, LookupError
    ):  # nothing was noted, or not all of it
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        former = None if note["former"] is None else Pin(**note["former"])
        KnownHalls(Path(note["path"])).leave_own_hall(note["port"], note["key"], former)


@contextmanager
def _own_known_halls(folder: Path) -> Iterator[None]:
    """The agents of the demo remember their hall in the folder, not in the home of the user."""
    before = os.environ.get(PATH_VARIABLE)
    os.environ[PATH_VARIABLE] = str(folder / "known-halls.json")
    try:
        yield
    finally:
        if before is None:
            del os.environ[PATH_VARIABLE]
        else:
            os.environ[PATH_VARIABLE] = before
