"""Signals of other halls on the same PostgreSQL: LISTEN, on a thread and a connection of its own.

A signal says that something has changed, and where to look; what it is comes from the store. A connection that was
lost may have cost signals, and so an empty one is heard when there is a new one.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

import psycopg

from moothall.store.postgres import PAUSE, PostgresConnection, connect
from moothall.store.work import CHANNEL

WAIT: Final = 0.25  # seconds until the thread looks whether it is to end
# A server that vanished without a word is noticed when it does not answer.
CHECK_SECONDS: Final = 10.0


class Signals:
    def __init__(self, url: str, hall: str, heard: Callable[[str], None]) -> None:
        """`heard` is called on the running loop, with what any other hall than `hall` signals."""
        self._url = url
        self._hall = hall
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="signals", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """A thread that is waiting for a server which does not answer ends by itself, later."""
        self._closing.set()
        self._thread.join(2 * WAIT)

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection = connect(self._url)
            except psycopg.Error:
                self._closing.wait(PAUSE)  # the pulses of the hall say what is wrong
                continue
            try:
                self._listen(connection)
            except psycopg.Error:
                self._closing.wait(PAUSE)
            finally:
                connection.close()

    def _listen(self, connection: PostgresConnection) -> None:
        connection.listen(CHANNEL)
        self._tell("")
        checked = monotonic()
        while not self._closing.is_set():
            for payload in connection.signals(WAIT):
                sender, _, signal = payload.partition(" ")
                if sender != self._hall:
                    self._tell(signal)
            if monotonic() - checked > CHECK_SECONDS:
                connection.execute("SELECT 1")
                checked = monotonic()

    def _tell(self, signal: str) -> None:
        if not self._closing.is_set():
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._heard, signal)
