"""Rows as they were last committed, so that a deal that is being dealt with is not read again and again.

On SQLite this lives until another process writes to the file (`data_version` tells). On PostgreSQL
other halls write all the time, so it lives for one unit of work; only what never changes outlives that.
"""

from itertools import islice
from typing import Any, Final

from moothall.court.records import Dispute
from moothall.market.conversations import Conversation
from moothall.market.credits import Escrow
from moothall.market.records import Proposal, Standing
from moothall.store.dialect import Connection
from moothall.store.rows import LARGE, Draft
from moothall.store.stored import Stored

MAX_REMEMBERED: Final = 10_000  # rows of each kind; when there are more, the older half is forgotten
MAX_KEYS: Final = 100_000
MAX_CASES: Final = 100  # each may hold a mebibyte of evidence


class RowCache:
    __slots__ = (
        "_unbound",
        "closed_epoch",
        "conversations",
        "disputes",
        "escrows",
        "keys",
        "large",
        "proposals",
        "standings",
    )

    def __init__(self) -> None:
        self.proposals: dict[str, Stored[Proposal]] = {}
        self.standings: dict[bytes, Stored[Standing]] = {}
        self.disputes: dict[str, Stored[Dispute]] = {}
        self.conversations: dict[bytes, Stored[Conversation]] = {}
        self.escrows: dict[bytes, Stored[Escrow]] = {}
        self.large: set[str] = set()  # proposals that are forgotten after the next commit
        self.keys: dict[bytes, None] = {}  # that have their row: such a row stays for ever
        self.closed_epoch: int | None = None  # of the mesh's log, the last that has ended; None: ask
        self._unbound: set[str] | None = None

    def absorb(self, committed: Draft) -> None:
        self.proposals.update(committed.proposals)
        self.standings.update(committed.standings)
        self.disputes.update(committed.disputes)
        self.conversations.update(committed.conversations)
        self.escrows.update(committed.escrows)
        self.keys.update(dict.fromkeys(committed.keys))
        if committed.closed_epoch is not None:
            self.closed_epoch = committed.closed_epoch
        for proposal_id in self.large | committed.large:
            self.proposals.pop(proposal_id, None)
        self.large.clear()
        _shorten(self.proposals, MAX_REMEMBERED)
        _shorten(self.standings, MAX_REMEMBERED)
        _shorten(self.disputes, MAX_CASES)
        _shorten(self.conversations, MAX_REMEMBERED)
        _shorten(self.escrows, MAX_REMEMBERED)
        _shorten(self.keys, MAX_KEYS)

    def remember(self, proposal: Stored[Proposal], size: int) -> None:
        """As it was read. A large one only until the next commit: ten thousand of them would be gigabytes."""
        self.proposals[proposal.record.id] = proposal
        if size > LARGE:
            self.large.add(proposal.record.id)

    def forget(self) -> None:
        """Forget everything that another hall may have changed."""
        self.proposals.clear()
        self.large.clear()
        self.standings.clear()
        self.disputes.clear()
        self.escrows.clear()
        self.closed_epoch = None
        self.conversations.clear()

    def clear(self) -> None:
        """Forget everything: another process has written to the file."""
        self.forget()
        self.keys.clear()
        self._unbound = None

    def may_be_imported(self, connection: Connection, fingerprint: str) -> bool:
        """No import adds to these after the first start, so a fingerprint that is not here never will be."""
        return fingerprint in self.unclaimed(connection)

    def expects_imports(self, connection: Connection) -> bool:
        """True if any is left that `may_be_imported` would name."""
        return bool(self.unclaimed(connection))

    def unclaimed(self, connection: Connection) -> set[str]:
        """Fingerprints of imported rows; some may have been claimed since this was read first."""
        if self._unbound is None:
            rows = connection.execute("SELECT fingerprint FROM imported WHERE bound_to IS NULL").fetchall()
            self._unbound = {row[0] for row in rows}
        return self._unbound


def _shorten(rows: dict[Any, Any], most: int) -> None:
    if len(rows) > most:
        for key in list(islice(rows, len(rows) // 2)):
            del rows[key]
