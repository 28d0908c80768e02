"""The log of topic messages: those that change nothing and are logged all the same, many at a time.

A DISCOVER or a BROADCAST has no unit of work of its own. Many of them share one: when a second has passed, or when
enough of them wait. A crash may lose that second. What is logged counts towards the disk quotas of its sender's key
and address. An envelope over a quota is relayed and not logged.

The hashes of an envelope are worked out when it arrives. So the event loop does not wait long for the unit.
"""

from typing import Final

from moothall.errors import RateLimited
from moothall.hall.agenda import Appointment
from moothall.hall.mesh.market import Payer
from moothall.hall.outside import Store
from moothall.hall.services import Timekeeper
from moothall.market.epoch_log import ROW, LogBooks, TopicMessage
from moothall.market.quotas import Bill, Disk
from moothall.wire.mesh.envelope import Envelope
from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.merkle import leaf

PAUSE_SECONDS: Final = 1.0
# Envelopes of one unit. The more there are, the more of them share the pages of an index that a commit writes: with
# 256 an envelope takes 9 us of SQLite, with 2,048 it takes 5. With more, others would wait longer than for a batch.
MAX_TOGETHER: Final = 2048
MAX_BYTES_TOGETHER: Final = 1024 * 1024
MAX_WAITING_BYTES: Final = 4 * 1024 * 1024  # while the store is slow; the rest is not logged

Waiting = tuple[TopicMessage, Bill]  # and who pays
Paid = dict[tuple[str, int], int]  # bytes that were logged, by address and day


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
        message = TopicMessage(envelope.sender, int(envelope.msg_type), now, keccak256(raw), leaf(raw), raw)
        self._waiting.append((message, bill))
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

        def done(answer: tuple[int, Paid]) -> None:
            logged, paid = answer
            self._writing -= size
            self.skipped += len(waiting) - logged
            for (address, day), length in paid.items():
                self._disk.charge_address(address, day, length)

        def failed(error: BaseException) -> None:
            self._writing -= size
            self.skipped += len(waiting)
            hall.log.warning("mesh_log_failed", envelopes=len(waiting), error=repr(error))

        self._store.submit(lambda books: self._write(books, waiting), done, failed)

    def _write(self, books: LogBooks, waiting: list[Waiting]) -> tuple[int, Paid]:
        """Return how many were logged, and what is charged to addresses."""
        if self._disk.limits_keys:
            waiting = self._charge_keys(books, waiting)
        books.log_messages([message for message, _ in waiting])
        paid: Paid = {}
        for message, bill in waiting:
            payer = bill.address, bill.day
            paid[payer] = paid.get(payer, 0) + len(message.envelope) + ROW
        return len(waiting), paid

    def _charge_keys(self, books: LogBooks, waiting: list[Waiting]) -> list[Waiting]:
        """Return those whose keys have not used their share of the day. The store is asked once for each key."""
        used: dict[tuple[str, int], int] = {}  # by account and day
        added: dict[tuple[str, int], int] = {}
        fitting: list[Waiting] = []
        for message, bill in waiting:
            if message.sender != self._hall_key:
                account = bill.account, bill.day
                if account not in used:
                    used[account] = books.disk_used(bill.account, bill.day)
                if self._disk.is_over(bill, used[account]):
                    continue
                size = len(message.envelope) + ROW
                used[account] += size
                added[account] = added.get(account, 0) + size
            fitting.append((message, bill))
        for (key, day), total in added.items():
            books.charge_disk(key, day, total)
        return fitting
