"""What the books hold of each key, in SQL: its rating and record, its skills, its entries in the ledger.

Lookups ask in the same order as those of deals (see `books`).
"""

from collections.abc import Collection
from typing import Final

import msgspec

from moothall.identity import PublicKey
from moothall.market import ledger
from moothall.market.books import Leader
from moothall.market.records import Entry, RatingPoint, Registration, Revoked, Standing
from moothall.store.row_cache import RowCache
from moothall.store.stored import Stored
from moothall.store.unit_rows import UnitRows
from moothall.store.work import MARKS, SqlWork, runs

_standing: Final = msgspec.json.Decoder(Standing).decode
_registration: Final = msgspec.json.Decoder(Registration).decode

# FEEDBACK of the mesh makes a standing too. A key that has neither a deal nor moved points is not ranked.
_LEADERS: Final = (
    "SELECT key, rating, transactions FROM standings WHERE transactions > 0 OR rating <> 1200"
    " ORDER BY rating DESC, transactions DESC, key LIMIT ?"
)


class StandingBooks(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    _cache: RowCache
    _rows: UnitRows
    _careful: bool

    def standing(self, key: bytes) -> Standing:
        """Read without a lock, because most are not changed. A change based on an old version fails when it is
        written. The parties of a deal are locked together with it."""
        stored = self._rows.standing(key)
        if stored is None:
            lock = self._connection.dialect.for_update if self._careful else ""
            row = self._connection.execute(
                f"SELECT version, record FROM standings WHERE key = ?{lock}",  # noqa: S608
                (key,),
            ).fetchone()
            stored = Stored(0, Standing(key=key)) if row is None else Stored(row[0], _standing(row[1]))
            self._cache.standings[key] = stored
        if stored.version == 0:
            self._bind(key)
            stored = self._rows.standing(key) or stored
        return stored.record

    def standings_of(self, keys: Collection[bytes]) -> dict[bytes, Standing]:
        """A search reads thousands: with a statement for each it would keep a store's thread for seconds."""
        unknown = [] if self._careful else [key for key in keys if self._rows.standing(key) is None]
        for some in runs(unknown):
            rows = self._query(
                f"SELECT key, version, record FROM standings WHERE key IN ({MARKS})",  # noqa: S608
                *some,
            )
            for row in rows:
                self._seen_standing(*row)
            for key in some:
                self._cache.standings.setdefault(key, Stored(0, Standing(key=key)))
        return {key: self.standing(key) for key in sorted(keys)}

    def missed(self) -> set[str]:
        return set(self._cache.unclaimed(self._connection))

    def leaders(self, limit: int) -> list[Leader]:
        return [Leader(*row) for row in self._query(_LEADERS, limit)]

    def history(self, key: bytes, limit: int = 100) -> list[tuple[int, int, str]]:
        rows = self._query(
            "SELECT at, rating, why FROM rating_history WHERE key = ? ORDER BY number DESC LIMIT ?",
            key,
            limit,
        )
        return [(at, rating, why) for at, rating, why in rows]

    def registration(self, key: bytes, *, hold: bool = False) -> Registration | None:
        for shelf in (self._draft.registrations, self._before.registrations):
            if key in shelf:
                return shelf[key]
        lock = self._connection.dialect.for_update if hold else ""
        row = self._connection.execute(
            f"SELECT record FROM registrations WHERE key = ?{lock}",  # noqa: S608
            (key,),
        ).fetchone()
        return None if row is None else _registration(row[0])

    # -- saving --------------------------------------------------------------------------------------

    def save_standing(self, standing: Standing) -> None:
        self._rows.put_standing(standing)

    def save_point(self, point: RatingPoint) -> None:
        self._rows.put_point(point)

    def save_registration(self, registration: Registration) -> None:
        self._rows.put_key(registration.key)
        self._draft.put_registration(registration, self.standing(registration.key).rating)

    def save_revoked(self, revoked: Revoked) -> None:
        self._draft.remove_registration(revoked.key)

    def save_entry(self, entry: Entry) -> None:
        """Once per (book, deal, operation). Repetitions are rare, so only the second try looks for one."""
        if not (self._rows.has_entry(entry) or (self._careful and self._is_posted(entry))):
            self._draft.put_entry(entry)

    def _is_posted(self, entry: Entry) -> bool:
        row = self._connection.execute(
            "SELECT 1 FROM postings WHERE book = ? AND deal = ? AND operation = ? LIMIT 1",
            (entry.book, entry.deal, entry.operation),
        ).fetchone()
        return row is not None

    # -- what is known already -----------------------------------------------------------------------

    def _seen_standing(self, key: bytes, version: int, record: bytes) -> Standing:
        standing = _standing(record)
        if self._rows.standing(key) is None:
            self._cache.standings[key] = Stored(version, standing)
        return standing

    def _bind(self, key: bytes) -> None:
        """What the reference server knew about this key by 16 digits of its hash, if anything."""
        if not self._cache.expects_imports(self._connection):
            return  # before a hash is computed: a search asks for hundreds of newcomers
        fingerprint = PublicKey(key).fingerprint
        if not self._cache.may_be_imported(self._connection, fingerprint):
            return
        rows = self._query(
            "SELECT standing, registration FROM imported WHERE fingerprint = ? AND bound_to IS NULL",
            fingerprint,
        )
        if not rows:
            return
        standing, registration = rows[0]
        self._rows.put_key(key)
        self._draft.put_bound(fingerprint, key)
        if standing is not None:
            bound = msgspec.structs.replace(_standing(standing), key=key)
            self._draft.put_standing(bound, None)
            self.save_entry(ledger.opening(key, bound.rating, bound.updated or 0))
        if registration is not None and self.registration(key) is None:
            self.save_registration(msgspec.structs.replace(_registration(registration), key=key))
