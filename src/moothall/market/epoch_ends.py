"""The ends of epochs: the hall signs the root of a day's log, and counts the day's risk, when the day is over.

An epoch is read a piece at a time, so that other work of the store goes on in between. The last unit of work holds
the log, takes what came in the meantime and ends the epoch. An epoch that is over when the hall starts is ended
then. Several halls on one store may try: the first one to commit ends the epoch for all.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from moothall.hall.outside import Store
from moothall.hall.services import Caretaker
from moothall.identity.seals import Seal
from moothall.market.behaviour import Risk, RiskCount
from moothall.market.epoch_log import Act, ClosedEpoch, Leaf, LogBooks, epoch_at
from moothall.market.epoch_proof import sealed_epoch
from moothall.wire.mesh.epochs import EPOCH_SECONDS
from moothall.wire.mesh.merkle import Tree

LEAVES_AT_ONCE: Final = 500  # a hash and a half each
ACTS_AT_ONCE: Final = 50  # some have their envelope, which may have 64 KB
MAX_AGENTS: Final = 50_000  # whose risk is counted: they take some 30 MB for as long as that takes
GRACE_MS: Final = 10_000  # after the end, for units of work that were waiting for the store
RETRY_SECONDS: Final = 60.0  # after the store failed

_DAY_MS: Final = EPOCH_SECONDS * 1000


class EpochRecord(Struct, frozen=True):
    """What the store keeps of an epoch that has ended."""

    sealed: dict[str, Any]
    risk: Risk


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(EpochRecord).decode


def read_record(closed: ClosedEpoch) -> EpochRecord:
    return _decode(closed.record)


class _Ending:
    """What was read so far of an epoch that is over."""

    def __init__(self, epoch: int, hall_key: bytes) -> None:
        self.epoch = epoch
        self.tree = Tree()
        self.number = 0  # of the last leaf
        self.count = RiskCount(epoch, hall_key, most=MAX_AGENTS)
        self.act = 0  # the number of the last one


class EpochEnds:
    def __init__(self, store: Store[LogBooks], seal: Seal) -> None:
        self._store = store
        self._seal = seal
        self.latest: Risk | None = None  # of the last epoch that has ended

    def open(self, hall: Caretaker) -> None:
        def found(closed: ClosedEpoch | None) -> None:
            if closed is not None:
                self.latest = read_record(closed).risk
            self._look(hall)

        self._store.submit(
            lambda books: books.closed_epoch(), found, lambda error: self._try_again(hall, error)
        )

    def _look(self, hall: Caretaker) -> None:
        """End what is over, then wait for the end of this epoch."""
        if hall.is_closing:
            return

        def found(epoch: int | None) -> None:
            now = hall.timestamp()
            if epoch is not None and _is_over(epoch, now):
                self._read_leaves(hall, _Ending(epoch, bytes.fromhex(self._seal.hall_key)))
                return
            wait = (epoch_at(now - GRACE_MS) + 1) * _DAY_MS + GRACE_MS - now
            hall.agenda.at(hall.now() + wait / 1000, lambda: self._look(hall))

        self._store.submit(
            lambda books: books.first_open_epoch(), found, lambda error: self._try_again(hall, error)
        )

    def _read_leaves(self, hall: Caretaker, ending: _Ending) -> None:
        if hall.is_closing:
            return

        def read(leaves: list[Leaf]) -> None:
            for leaf in leaves:
                ending.tree.add(leaf.hash)
                ending.number = leaf.number
            if len(leaves) == LEAVES_AT_ONCE:
                self._read_leaves(hall, ending)
            else:
                self._read_acts(hall, ending)

        self._store.submit(
            lambda books: books.leaves(ending.epoch, after=ending.number, limit=LEAVES_AT_ONCE),
            read,
            lambda error: self._try_again(hall, error),
        )

    def _read_acts(self, hall: Caretaker, ending: _Ending) -> None:
        if hall.is_closing:
            return

        def read(acts: list[Act]) -> None:
            ending.count.add(acts)
            if len(acts) == ACTS_AT_ONCE:
                ending.act = acts[-1].number
                self._read_acts(hall, ending)
            else:
                self._end(hall, ending, ending.count.finished())

        self._store.submit(
            lambda books: books.acts(ending.epoch, after=ending.act, limit=ACTS_AT_ONCE),
            read,
            lambda error: self._try_again(hall, error),
        )

    def _end(self, hall: Caretaker, ending: _Ending, risk: Risk) -> None:
        if hall.is_closing:
            return
        at = hall.timestamp()

        def ended(closed: ClosedEpoch | None) -> None:
            if closed is not None:
                self.latest = read_record(closed).risk
                hall.log.info(
                    "mesh_epoch_closed",
                    epoch=closed.epoch,
                    envelopes=closed.envelopes,
                    root=closed.root.hex(),
                    flagged=risk.flagged,
                )
            self._look(hall)

        self._store.submit(
            lambda books: self._closed(books, ending, risk, at),
            ended,
            lambda error: self._try_again(hall, error),
        )

    def _closed(self, books: LogBooks, ending: _Ending, risk: Risk, at: int) -> ClosedEpoch | None:
        """None if envelopes came in between that were numbered before others: then all is read again."""
        books.hold_log()
        if (closed := books.closed_epoch(ending.epoch)) is not None:
            return closed
        tree = ending.tree.copy()
        for leaf in books.leaves(ending.epoch, after=ending.number, limit=LEAVES_AT_ONCE):
            tree.add(leaf.hash)
        if tree.size != books.count_logged(ending.epoch):
            return None
        root = tree.root()
        sealed = sealed_epoch(ending.epoch, tree.size, root, is_closed=True, at=at, seal=self._seal)
        closed = ClosedEpoch(ending.epoch, tree.size, root, _encode(EpochRecord(sealed, risk)))
        books.close_epoch(closed)
        return closed

    def _try_again(self, hall: Caretaker, error: BaseException) -> None:
        hall.log.warning("mesh_epoch_failed", error=repr(error))
        hall.agenda.at(hall.now() + RETRY_SECONDS, lambda: self._look(hall))


def _is_over(epoch: int, now: int) -> bool:
    return now >= (epoch + 1) * _DAY_MS + GRACE_MS
