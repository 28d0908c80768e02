"""The log of topic messages: those that change nothing and are logged all the same, a few at a time.

A DISCOVER or a BROADCAST has no unit of work of its own. Many of them share one: when a second has passed, or when
enough of them wait. A crash may lose that second. What is logged counts towards the disk quotas of its sender's key
and address. An envelope over a quota is relayed and not logged.
"""

from typing import Final

from moothall.errors import RateLimited
from moothall.hall.agenda import Appointment
from moothall.hall.mesh.market import Payer
from moothall.hall.outside import Store
from moothall.hall.services import Timekeeper
from moothall.market.epoch_log import ROW, LogBooks
from moothall.market.quotas import Bill, Disk
from moothall.wire.mesh.envelope import Envelope

PAUSE_SECONDS: Final = 1.0
# Envelopes of one unit. The more there are, the more of them share the pages of an index that a commit writes: with
# 64 an envelope takes 20 us of the store, with 256 it takes 12.
MAX_TOGETHER: Final = 256
MAX_BYTES_TOGETHER: Final = 256 * 1024
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024  # while the store is slow; the rest is not logged

Waiting = tuple[Envelope, bytes, int, Bill]  # the time in ms, and who pays


class Recorder:
    def __init__(
        self, store: Store[LogBooks], disk: Disk, *, hall_key: bytes = b"", is_on: bool = True
    ) -> None:
        """What `hall_key` signed has no quota. `is_on` is the setting `mesh_log`."""
        self._store = store
        self._disk = disk
        self._hall_key = hall_key
        self._is_on = is_on
        self._waiting: list[Waiting] = []
        self._bytes = 0  # of those that wait here
        self._writing = 0  # bytes on their way into the store
        self._planned: Appointment | None = None
        self.skipped = 0  # envelopes that were not logged, for a quota or a slow store

    def record(self, hall: Timekeeper, envelope: Envelope, raw: bytes, payer: Payer) -> None:
        if not self._is_on:
            return
        now = hall.timestamp()
        try:
            bill = self._disk.open_bill(envelope.sender, payer.address, now, is_loopback=payer.is_loopback)
        except RateLimited:
            self.skipped += 1
            return
        if self._bytes + self._writing + len(raw) > MAX_WAITING_BYTES:
            self.skipped += 1
            return
        self._waiting.append((envelope, raw, now, bill))
        self._bytes += len(raw)
        if len(self._waiting) >= MAX_TOGETHER or self._bytes >= MAX_BYTES_TOGETHER:
            self.flush(hall)
        elif self._planned is None:
            self._planned = hall.agenda.at(hall.now() + PAUSE_SECONDS, lambda: self.flush(hall))

    def flush(self, hall: Timekeeper) -> None:
        """Hand over what waits: at the latest before the store is closed."""
        if self._planned is not None:
            hall.agenda.cancel(self._planned)
            self._planned = None
        if not self._waiting:
            return
        waiting, size = self._waiting, self._bytes
        self._waiting, self._bytes = [], 0
        self._writing += size

        def done(logged: list[tuple[Bill, int]]) -> None:
            self._writing -= size
            self.skipped += len(waiting) - len(logged)
            for bill, length in logged:
                self._disk.pay(bill, length)

        def failed(error: BaseException) -> None:
            self._writing -= size
            self.skipped += len(waiting)
            hall.log.warning("mesh_log_failed", envelopes=len(waiting), error=repr(error))

        self._store.submit(lambda books: self._write(books, waiting), done, failed)

    def _write(self, books: LogBooks, waiting: list[Waiting]) -> list[tuple[Bill, int]]:
        """Return what is charged to addresses: as many as were logged."""
        logged = []
        for envelope, raw, at, bill in waiting:
            if self._disk.limits_keys and envelope.sender != self._hall_key:
                if self._disk.is_full(books, bill):
                    continue
                books.charge_disk(bill.account, bill.day, len(raw) + ROW)
            books.log(envelope, raw, at, belongs=False)
            logged.append((bill, len(raw) + ROW))
        return logged
