"""The court's part of the books, in SQL. Lookups ask in the same order as those of the market (see `books`)."""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from moothall.court.books import Filing, Page
from moothall.court.panel import Experience
from moothall.court.records import Dispute, Part, SignedFile
from moothall.identity import PublicKey
from moothall.market.books import MAX_READ, what_fits
from moothall.market.records import Standing
from moothall.settings.sources import MAX_COUNTERPARTIES
from moothall.store.rows import parts_of
from moothall.store.standings import StandingBooks
from moothall.store.stored import Stored
from moothall.store.work import MARKS, is_plain, runs

# Latest deals of each side in which the counterparties of an agent are counted: a bound on what one can cost.
DEALS_LOOKED_AT: Final = MAX_COUNTERPARTIES // 2
_EXPERIENCE: Final = (
    "SELECT (SELECT count(*) FROM"  # noqa: S608
    " (SELECT recipient FROM (SELECT recipient FROM receipts WHERE proposer = ?"
    f" ORDER BY number DESC LIMIT {DEALS_LOOKED_AT}) AS proposed"
    " UNION SELECT proposer FROM (SELECT proposer FROM receipts WHERE recipient = ?"
    f" ORDER BY number DESC LIMIT {DEALS_LOOKED_AT}) AS accepted) AS others),"
    " (SELECT at FROM rating_history WHERE key = ? ORDER BY number LIMIT 1)"
)

_dispute: Final = msgspec.json.Decoder(Dispute).decode


class _Listed(Dispute, frozen=True, kw_only=True):
    """A case of an older store, whose evidence is not looked at: it need not become objects."""

    disputant_evidence: Raw = Raw(b"null")  # type: ignore[assignment]
    respondent_evidence: Raw = Raw(b"null")  # type: ignore[assignment]


_listed: Final = msgspec.json.Decoder(_Listed).decode


class CaseBooks(StandingBooks):
    """What `SqlBooks` is made of besides the other parts."""

    def case(self, dispute_id: str, *, hold: bool = True) -> Dispute | None:
        stored = self._rows.case(dispute_id)
        if stored is None:
            if not is_plain(dispute_id):
                return None
            lock = self._connection.dialect.for_update if hold else ""
            row = self._connection.execute(
                f"SELECT version, record FROM disputes WHERE id = ?{lock}",  # noqa: S608
                (dispute_id,),
            ).fetchone()
            if row is None:
                return None
            stored = Stored(row[0], _dispute(row[1]))
            self._cache.disputes[dispute_id] = stored
        return stored.record

    def cases_about(self, proposal_id: str) -> list[Dispute]:
        found = (self.case(filing.dispute_id) for filing in self.filings(proposal_id))
        return [case for case in found if case is not None]

    def filings(self, proposal_id: str) -> list[Filing]:
        if not is_plain(proposal_id):
            return []
        rows = self._query(
            "SELECT id, disputant FROM disputes WHERE proposal_id = ? ORDER BY filed_at DESC, id DESC",
            proposal_id,
        )
        return [Filing(*row) for row in rows]

    def part(self, dispute_id: str, key: bytes) -> Part | None:
        stored = self._rows.case(dispute_id)
        if stored is not None:
            return stored.record.part_of(key)
        if not is_plain(dispute_id):
            return None
        rows = self._query(
            "SELECT (SELECT role FROM case_parts WHERE dispute_id = id AND key = ?) FROM disputes WHERE id = ?",
            key,
            dispute_id,
        )
        return (rows[0][0] or "stranger") if rows else None

    def cases_of(self, key: bytes, *, limit: int = 100, open_only: bool = False) -> Page:
        query = (
            "SELECT {} FROM case_parts JOIN disputes ON id = dispute_id WHERE key = ?"  # noqa: S608
            f"{' AND is_open = 1' if open_only else ''} ORDER BY case_parts.filed_at DESC, id DESC LIMIT ?"
        )
        sizes = self._query(query.format("length(coalesce(listed, record))"), key, limit)
        fitting, truncated = what_fits(sizes, lambda row: int(row[0]), MAX_READ)
        rows = self._query(query.format("coalesce(listed, record)"), key, len(fitting))
        return Page([_listed(row[0]) for row in rows], truncated=truncated)

    def due_cases(self, now: int, limit: int = 100) -> list[str]:
        rows = self._query(
            "SELECT id FROM disputes WHERE is_open = 1 AND deadline <= ? ORDER BY deadline, id LIMIT ?",
            now,
            limit,
        )
        return [row[0] for row in rows]

    def next_case_deadline(self) -> int | None:
        earliest: int | None = self._query("SELECT min(deadline) FROM disputes WHERE is_open = 1")[0][0]
        return earliest

    def seats(self) -> list[tuple[bytes, str]]:
        rows = self._query("SELECT key, dispute_id FROM case_parts WHERE live = 1 AND role = 'arbiter'")
        return [(key, dispute_id) for key, dispute_id in rows]

    def seats_of(self, keys: Collection[bytes]) -> list[tuple[bytes, str]]:
        found: list[tuple[bytes, str]] = []
        for some in runs(keys):
            rows = self._query(
                "SELECT key, dispute_id FROM case_parts WHERE live = 1 AND role = 'arbiter'"  # noqa: S608
                f" AND key IN ({MARKS})",
                *some,
            )
            found += [(key, dispute_id) for key, dispute_id in rows]
        return found

    def panels(self, keys: Collection[bytes]) -> Mapping[bytes, int]:
        counts: dict[bytes, int] = {}
        for some in runs(keys):
            counts.update(
                self._query(
                    "SELECT key, count(*) FROM case_parts WHERE live = 1 AND role = 'arbiter'"  # noqa: S608
                    f" AND key IN ({MARKS}) GROUP BY key",
                    *some,
                )
            )
        return counts

    def qualified(self, keys: Collection[bytes], rating: int, transactions: int) -> list[Standing]:
        if transactions <= 0:  # newcomers may qualify, and they have no row
            return [standing for key in keys if (standing := self.standing(key)).rating >= rating]
        if self._cache.expects_imports(self._connection):
            for key in keys:
                # Its rating may still be one that the reference server left behind.
                if self._cache.may_be_imported(self._connection, PublicKey(key).fingerprint):
                    self.standing(key)
        found: list[Standing] = []
        for some in runs(keys):
            rows = self._query(
                "SELECT key, version, record FROM standings"  # noqa: S608
                f" WHERE rating >= ? AND transactions >= ? AND key IN ({MARKS})",
                rating,
                transactions,
                *some,
            )
            found += [self._seen_standing(*row) for row in rows]
        return found

    def experience(self, keys: Collection[bytes]) -> dict[bytes, Experience]:
        found: dict[bytes, Experience] = {}
        for key in keys:
            fingerprint = PublicKey(key).fingerprint
            ((count, since),) = self._query(_EXPERIENCE, fingerprint, fingerprint, key)
            found[key] = Experience(count, since)
        return found

    def cases_by_phase(self) -> dict[str, int]:
        return dict(self._query("SELECT phase, count(*) FROM disputes GROUP BY phase"))

    def save_case(self, case: Dispute) -> None:
        for key, _, _ in parts_of(case):
            self._rows.put_key(key)
        self._rows.put_case(case)

    def save_file(self, file: SignedFile) -> None:
        self._draft.put_case_file(file)

    def signed_file(self, dispute_id: str) -> bytes | None:
        rows = self._query("SELECT body FROM case_files WHERE dispute_id = ?", dispute_id)
        return rows[0][0] if rows else None
