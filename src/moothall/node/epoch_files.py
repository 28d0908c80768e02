"""The files of the epoch log: `zerox1-epoch-{epoch}.cbor`, as the reference writes them (mesh wire 12).

The store has the log. The files follow it: what was committed is appended soon after. So a file may lack its end
after a crash, and is completed at the next start. A file that says something else than the store is set aside.
"""

import asyncio
from io import SEEK_END, FileIO
from itertools import groupby
from pathlib import Path
from typing import Final

from moothall.errors import NodeRefused
from moothall.hall.outside import Log, Store
from moothall.market.node_books import LogRow
from moothall.node.desk import Books
from moothall.node.units import done
from moothall.store.files import DataDirectory
from moothall.wire.mesh.epochs import log_name
from moothall.wire.mesh.frames import frame

AT_ONCE: Final = 500  # envelopes in one piece
REPAIRED: Final = 2  # epochs, the latest: a crash at the end of one may leave both files short


class EpochFiles:
    def __init__(self, store: Store[Books], directory: DataDirectory, log: Log) -> None:
        self._store = store
        self._directory = directory
        self._log = log
        self._number = 0  # of the last envelope that is in a file
        self._changed = asyncio.Event()
        self._is_closing = False
        self._follower: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Complete the latest files, then follow the log. Raises OSError."""
        for epoch in reversed(await done(self._store, lambda books: books.logged_epochs(REPAIRED))):
            await self._repair(epoch)
        self._follower = asyncio.create_task(self._follow())

    def changed(self) -> None:
        """Envelopes were committed."""
        self._changed.set()

    async def close(self) -> None:
        """Write what was committed. The store must still be open."""
        if self._follower is not None:
            self._is_closing = True
            self._changed.set()
            await self._follower

    async def _follow(self) -> None:
        while not self._is_closing:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._append_new()
            except (
                OSError,
                NodeRefused,
            ) as error:  # the next envelope tries again, and so does the next start
                self._log.warning("epoch_file_not_written", error=repr(error))

    async def _append_new(self) -> None:
        while rows := await self._rows(self._number):
            for epoch, some in groupby(rows, lambda row: row.epoch):
                together = list(some)
                await asyncio.to_thread(_append, self._directory.path / log_name(epoch), together)
                self._number = together[-1].number

    async def _rows(self, after: int, epoch: int | None = None) -> list[LogRow]:
        return await done(self._store, lambda books: books.log_after(after, AT_ONCE, epoch=epoch))

    async def _repair(self, epoch: int) -> None:
        """Make the file of an epoch what the log says."""
        path = self._directory.path / log_name(epoch)
        if not await self._completed(path, epoch):
            kept = await asyncio.to_thread(self._directory.set_aside, path.name)
            self._log.warning("epoch_file_replaced", file=path.name, kept=kept)
            await self._completed(path, epoch)

    async def _completed(self, path: Path, epoch: int) -> bool:
        """False if the file has something else than the log."""
        with await asyncio.to_thread(_open, path) as file:
            number = 0
            while rows := await self._rows(number, epoch):
                if not await asyncio.to_thread(_complete, file, rows):
                    return False
                number = rows[-1].number
            self._number = max(self._number, number)
            return not file.read(1)


def _open(path: Path) -> FileIO:
    path.touch(mode=0o600)
    return path.open("r+b", buffering=0)


def _append(path: Path, rows: list[LogRow]) -> None:
    """All of them, or none: what a full disk took of them is removed."""
    with _open(path) as file:
        end = file.seek(0, SEEK_END)
        try:
            _write(file, b"".join(frame(row.envelope) for row in rows))
        except OSError:
            file.truncate(end)
            raise


def _complete(file: FileIO, rows: list[LogRow]) -> bool:
    """Read these rows from where the file is now, and write those that it lacks. False if it has others."""
    wanted = b"".join(frame(row.envelope) for row in rows)
    start = file.tell()
    found = file.read(len(wanted))
    if not wanted.startswith(found):
        return False
    file.seek(start + len(found))
    _write(file, wanted[len(found) :])
    return True


def _write(file: FileIO, data: bytes) -> None:
    while data:
        data = data[file.write(data) :]
