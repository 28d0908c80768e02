"""The book `credits` in SQL: balances, escrows, and the envelopes that authorised entries.

A balance is added to, and never replaced, so the treasury gets the fees of many deals at once. A statement that
would leave an account below zero changes no row: its unit runs again, and reads the balance that is there now. So
two halls on one database cannot spend the same credits. An escrow has a version, like a deal.
"""

from typing import Final

import msgspec

from moothall.market import ledger
from moothall.market.credit_books import JournalEntry
from moothall.market.credits import EXTERNAL, TREASURY, Authority, Escrow, Posted
from moothall.market.records import Entry, Posting
from moothall.store.dialect import Row
from moothall.store.standings import StandingBooks
from moothall.store.stored import Stored
from moothall.store.work import MARKS, is_plain, runs

_escrow: Final = msgspec.json.Decoder(Escrow).decode
_encode: Final = msgspec.json.Encoder().encode

_ORDER: Final = " ORDER BY at DESC, deal DESC, operation DESC LIMIT ?"
_EARLIER: Final = "book = 'credits' AND (at, deal, operation) < (?, ?, ?)"
_JOURNAL: Final = f"SELECT DISTINCT at, deal, operation FROM postings WHERE {_EARLIER}{_ORDER}"  # noqa: S608
_JOURNAL_OF: Final = f"SELECT at, deal, operation FROM postings WHERE account = ? AND {_EARLIER}{_ORDER}"  # noqa: S608
_POSTINGS: Final = (
    f"SELECT deal, operation, account, amount FROM postings WHERE book = 'credits' AND deal IN ({MARKS})"  # noqa: S608
    " ORDER BY deal, operation, account"
)
_AUTHORITIES: Final = (
    f"SELECT deal, operation, envelope, sender, nonce FROM authorisations WHERE deal IN ({MARKS})"  # noqa: S608
)
_TOTALS: Final = (
    "SELECT CASE WHEN account LIKE 'agent:%' THEN 'agents' WHEN account LIKE 'escrow:%' THEN 'escrows'"
    " ELSE account END AS holder, sum(amount) FROM balances GROUP BY holder"
)
_LATEST: Final = (2**62, "", "")  # comes after every entry


class CreditSql(StandingBooks):
    """What `SqlBooks` is made of besides the other parts."""

    def balance(self, account: str) -> int:
        if not is_plain(account):
            return 0
        lock = self._connection.dialect.for_update if self._careful else ""
        row = self._connection.execute(
            f"SELECT amount FROM balances WHERE account = ?{lock}",  # noqa: S608
            (account,),
        ).fetchone()
        waiting = [draft.moved.get(account, 0) for draft in (self._before, self._draft)]
        return (0 if row is None else int(row[0])) + sum(waiting)

    def is_guarded(self, account: str) -> bool:
        return bool(self._query("SELECT 1 FROM balances WHERE account = ? AND is_guarded = 1", account))

    def guard(self, account: str) -> None:
        self._change("UPDATE balances SET is_guarded = 1 WHERE account = ? AND is_guarded = 0", account)

    def totals(self) -> dict[str, int]:
        found = {"agents": 0, "escrows": 0, TREASURY: 0, EXTERNAL: 0}
        found.update((holder, int(total)) for holder, total in self._query(_TOTALS))
        return found

    def escrow(self, conversation_id: bytes) -> Escrow | None:
        stored = self._rows.escrow(conversation_id)
        if stored is None:
            lock = self._connection.dialect.for_update if self._careful else ""
            row = self._connection.execute(
                f"SELECT version, record FROM escrows WHERE conversation_id = ?{lock}",  # noqa: S608
                (conversation_id,),
            ).fetchone()
            if row is None:
                return None
            stored = self._cache.escrows[conversation_id] = Stored(row[0], _escrow(row[1]))
        return stored.record

    def posted(self, deal: str, operation: str) -> Entry | None:
        if not is_plain(deal):
            return None
        rows = self._query(
            "SELECT account, amount, at FROM postings"
            " WHERE book = 'credits' AND deal = ? AND operation = ? ORDER BY account",
            deal,
            operation,
        )
        if not rows:
            return None
        postings = tuple(Posting(account, amount) for account, amount, _ in rows)
        return Entry(book=ledger.CREDITS, deal=deal, operation=operation, postings=postings, at=rows[0][2])

    def journal(
        self, account: str | None = None, *, limit: int = 100, before: Entry | None = None
    ) -> list[JournalEntry]:
        place = _LATEST if before is None else (before.at, before.deal, before.operation)
        if account is None:
            found = self._query(_JOURNAL, *place, limit)
        else:
            found = self._query(_JOURNAL_OF, account, *place, limit) if is_plain(account) else []
        postings: dict[tuple[str, str], list[Posting]] = {}
        authorities: dict[tuple[str, str], Authority] = {}
        for deals in runs(dict.fromkeys(deal for _, deal, _ in found)):
            for deal, operation, holder, amount in self._query(_POSTINGS, *deals):
                postings.setdefault((deal, operation), []).append(Posting(holder, amount))
            for deal, operation, envelope, sender, nonce in self._query(_AUTHORITIES, *deals):
                authorities[deal, operation] = Authority(envelope, sender, int(nonce))
        return [_listed(row, postings[row[1:]], authorities.get(row[1:])) for row in found]

    # -- saving --------------------------------------------------------------------------------------

    def save_escrow(self, escrow: Escrow) -> None:
        for key in (escrow.requester, escrow.provider, escrow.notary):
            if key is not None:
                self._rows.put_key(key)
        known = self._rows.escrow(escrow.conversation_id)
        version = 1 if known is None else known.version + 1
        row = (escrow.conversation_id, int(escrow.settled is None), version, _encode(escrow))
        self._draft.rows["escrows"][escrow.conversation_id] = row
        self._draft.escrows[escrow.conversation_id] = Stored(version, escrow)

    def save_posted(self, posted: Posted) -> None:
        if posted.entry is None:
            return  # it was saved before
        self.save_escrow(posted.escrow)
        self.save_entry(posted.entry)
        entry, authority = posted.entry, posted.authority
        self._draft.added["authorisations"].append(
            (entry.deal, entry.operation, authority.envelope, authority.sender, str(authority.nonce))
        )


def _listed(row: Row, postings: list[Posting], authority: Authority | None) -> JournalEntry:
    at, deal, operation = row
    entry = Entry(book=ledger.CREDITS, deal=deal, operation=operation, postings=tuple(postings), at=at)
    return JournalEntry(entry, authority)
