"""Lists by time for the HTTP API, in SQL: deals, cases, conversations of the mesh, steps of a rating.

A list reads ids and lengths first, then the records that fit into the answer. It looks at `MAX_SCANNED`
rows at most, so that no request keeps the store's thread: a page may be short, and say where the list goes on.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from moothall.court.phases import Phase
from moothall.court.records import Dispute
from moothall.errors import InvalidMessage
from moothall.hall.api_pages import Page, Place
from moothall.market.api_books import RatingStep
from moothall.market.books import what_fits
from moothall.market.conversations import Conversation, State
from moothall.market.records import Proposal, Status
from moothall.store.work import MARKS, SqlWork, runs

MAX_SCANNED: Final = 1000  # rows that a list with a filter looks at
_FIRST: Final = Place(2**62, "")  # comes before every other
_LAST_ID: Final = b"\xff" * 17  # comes after every id of a conversation

_STATUSES: Final[tuple[Status, ...]] = (
    "pending",
    "accepted",
    "rejected",
    "completed",
    "disputed",
    "expired",
)
_OF_STATUS: Final = (
    "SELECT * FROM (SELECT created_at, id, length(record) AS size, status FROM proposals"
    " WHERE status = ? AND (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?) AS some_{n}"
)
_OF_PARTY: Final = (
    "SELECT * FROM (SELECT created_at, id, length(record) AS size, status FROM proposals"
    " WHERE {party} = ? AND is_open = {is_open} AND (created_at, id) < (?, ?)"
    " ORDER BY created_at DESC, id DESC LIMIT ?) AS {party}_{is_open}"
)
_NEWEST: Final = " ORDER BY created_at DESC, id DESC LIMIT ?"
_PARTY_BRANCHES: Final = tuple(
    _OF_PARTY.format(party=party, is_open=is_open)
    for party in ("proposer", "recipient")
    for is_open in (0, 1)
)
_CASES_OF_PART: Final = (
    "SELECT case_parts.filed_at, id, length(coalesce(listed, record)), phase FROM case_parts"
    " JOIN disputes ON id = dispute_id WHERE key = ? AND (case_parts.filed_at, dispute_id) < (?, ?)"
    " ORDER BY case_parts.filed_at DESC, dispute_id DESC LIMIT ?"
)
_ALL_CASES: Final = (
    "SELECT filed_at, id, length(coalesce(listed, record)), phase FROM disputes"
    " WHERE (filed_at, id) < (?, ?) ORDER BY filed_at DESC, id DESC LIMIT ?"
)
_CONVERSATION_BRANCHES: Final = tuple(
    "SELECT * FROM (SELECT created_at, id, length(record) AS size, state FROM conversations"  # noqa: S608
    f" WHERE {role} = ? AND is_open = {is_open} AND (created_at, id) < (?, ?)"
    f" ORDER BY created_at DESC, id DESC LIMIT ?) AS {role}_{is_open}"
    for role in ("requester", "provider", "notary")
    for is_open in (0, 1)
)
_ALL_CONVERSATIONS: Final = (
    "SELECT created_at, id, length(record), state FROM conversations"
    " WHERE (created_at, id) < (?, ?) ORDER BY created_at DESC, id DESC LIMIT ?"
)


class _ListedDeal(Proposal, frozen=True, kw_only=True, gc=False):
    """A deal whose terms are only passed on. They need not become objects."""

    terms: Raw = Raw(b"null")


class _ListedCase(Dispute, frozen=True, kw_only=True):
    """A case of an older store, whose evidence is not looked at."""

    disputant_evidence: Raw = Raw(b"null")  # type: ignore[assignment]
    respondent_evidence: Raw = Raw(b"null")  # type: ignore[assignment]


_deal: Final = msgspec.json.Decoder(_ListedDeal).decode
_case: Final = msgspec.json.Decoder(_ListedCase).decode
_conversation: Final = msgspec.json.Decoder(Conversation).decode


class ApiSql(SqlWork):
    """What `SqlBooks` is made of besides the other parts."""

    def list_deals(
        self, party: bytes | None, *, status: Status | None, after: Place | None, limit: int, most: int
    ) -> Page[Proposal]:
        start = after or _FIRST
        if party is None:
            wanted = _STATUSES if status is None else (status,)
            branches = [_OF_STATUS.format(n=number) for number, _ in enumerate(wanted)]
            asked: list[Any] = [value for each in wanted for value in (each, *start, limit + 1)]
            scanned = limit + 1
        else:
            branches = list(_PARTY_BRANCHES)
            scanned = limit + 1 if status is None else MAX_SCANNED
            asked = [party, *start, scanned] * len(branches)
        rows = self._query(" UNION ALL ".join(branches) + _NEWEST, *asked, scanned)
        chosen, more = _chosen(rows, status, scanned, limit, most)
        records = self._records("SELECT id, record FROM proposals", [row[1] for row in chosen])
        return Page([_deal(records[row[1]]) for row in chosen], more)

    def list_cases(
        self, part_of: bytes | None, *, phase: Phase | None, after: Place | None, limit: int, most: int
    ) -> Page[Dispute]:
        start = after or _FIRST
        scanned = limit + 1 if phase is None else MAX_SCANNED
        if part_of is None:
            rows = self._query(_ALL_CASES, *start, scanned)
        else:
            rows = self._query(_CASES_OF_PART, part_of, *start, scanned)
        chosen, more = _chosen(rows, phase, scanned, limit, most)
        records = self._records(
            "SELECT id, coalesce(listed, record) FROM disputes", [row[1] for row in chosen]
        )
        return Page([_case(records[row[1]]) for row in chosen], more)

    def list_conversations(
        self, party: bytes | None, *, state: State | None, after: Place | None, limit: int, most: int
    ) -> Page[Conversation]:
        start = (_FIRST.at, _LAST_ID) if after is None else (after.at, _bytes_of(after.id))
        scanned = limit + 1 if state is None else MAX_SCANNED
        if party is None:
            rows = self._query(_ALL_CONVERSATIONS, *start, scanned)
        else:
            asked = (party, *start, scanned) * len(_CONVERSATION_BRANCHES)
            rows = self._query(" UNION ALL ".join(_CONVERSATION_BRANCHES) + _NEWEST, *asked, scanned)
        chosen, more = _chosen(rows, state, scanned, limit, most)
        records = self._records("SELECT id, record FROM conversations", [row[1] for row in chosen])
        return Page([_conversation(records[row[1]]) for row in chosen], more)

    def rating_steps(self, key: bytes, *, before: int | None, limit: int) -> list[RatingStep]:
        rows = self._query(
            "SELECT number, at, rating, why FROM rating_history WHERE key = ? AND number < ?"
            " ORDER BY number DESC LIMIT ?",
            key,
            _FIRST.at if before is None else before,
            limit,
        )
        return [RatingStep(*row) for row in rows]

    def _records(self, select: str, ids: Sequence[Any]) -> dict[Any, bytes]:
        found: dict[Any, bytes] = {}
        for some in runs(ids):
            found.update(self._query(f"{select} WHERE id IN ({MARKS})", *some))
        return found


def _chosen(
    rows: Sequence[Any], wanted: str | None, scanned: int, limit: int, most: int
) -> tuple[list[Any], Place | None]:
    """Of rows (time, id, size, state): those of this state that fit, and where the list goes on."""
    matching = [row for row in rows if wanted is None or row[3] == wanted]
    fitting, _ = what_fits(matching[:limit], lambda row: int(row[2]), most)
    if len(fitting) < len(matching):
        return fitting, _place(fitting[-1])
    if len(rows) == scanned:  # there may be more behind them
        return fitting, _place(rows[-1])
    return fitting, None


def _place(row: Sequence[Any]) -> Place:
    at, record_id = row[:2]
    return Place(at, record_id if isinstance(record_id, str) else bytes(record_id).hex())


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise InvalidMessage("`after` must be the `next` of an answer from this route") from None
