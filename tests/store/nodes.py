"""Node processes on one file, and the process that keeps it: to be killed, one or the other."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event
from typing import Any

from moothall.store.files import DataDirectory
from moothall.store.opening import keep_store, open_store
from moothall.store.supervised import Ends, Supervised, line
from moothall.store.turn_keeper import TurnKeeper
from tests.store.dealer import deal_for_ever, end_at_once
from tests.store.support import PATIENCE, Log, Place, propose

processes = get_context("forkserver")


class Node:
    """A process that opens the store as a node, and runs `main` with a pipe to tell what it did."""

    def __init__(self, place: Place, name: str, main: Callable[..., None]) -> None:
        self.name = name
        self.told, telling = processes.Pipe(duplex=False)
        self._ours, theirs = line()
        self.process: BaseProcess = processes.Process(
            target=main, args=(place.directory.path, place.url, name, telling, theirs), daemon=True
        )
        self.process.start()
        telling.close()
        theirs.close()

    async def join(self, keeper: TurnKeeper) -> None:
        await keeper.admit(self.name, self._ours)

    async def hear(self) -> str:
        async with asyncio.timeout(PATIENCE):
            return (await asyncio.to_thread(self.told.recv_bytes)).decode()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def rest(self) -> list[str]:
        """What it had said before it was killed."""
        said: list[str] = []
        with suppress(EOFError, OSError):
            while True:
                said.append(self.told.recv_bytes().decode())
        self.told.close()
        return said


def stop_in_transaction(folder: Path, url: str, name: str, told: Connection, ends: Ends) -> None:
    """Write rows of a unit, say so, and go no further."""

    async def main() -> None:
        supervised = Supervised(ends, end_at_once)
        store = open_store(DataDirectory(folder), url, Log(), hall=name, supervised=supervised)

        def work(books: Any) -> None:
            propose("prop_never")(books)
            assert books.counts() == {"pending": 1}  # the row is written
            told.send_bytes(b"inside")
            Event().wait()

        store.submit(work, lambda _: None, lambda _: None)
        await asyncio.Event().wait()

    asyncio.run(main())


def keep_for_ever(folder: Path, names: list[str], tellings: list[Connection]) -> None:
    """The process that keeps the file, with nodes that deal."""

    async def main() -> None:
        log = Log()
        directory = DataDirectory(folder)
        directory.claim()
        kept = keep_store(directory, "", log)
        keeper = TurnKeeper(kept.changed, lambda name: None, log)
        nodes: list[BaseProcess] = []
        for name, telling in zip(names, tellings, strict=True):
            ours, theirs = line()
            node = processes.Process(target=deal_for_ever, args=(folder, "", name, telling, theirs))
            node.start()
            nodes.append(node)
            theirs.close()
            telling.close()
            await keeper.admit(name, ours)
        await asyncio.Event().wait()

    asyncio.run(main())
