"""What dealers were told, held against the tables: what was acknowledged is a fact, what was not acknowledged
happened wholly or not at all, and the books balance."""

import json
from base64 import b64decode
from collections import Counter
from typing import Any

import msgspec

from moothall.market.ledger import escrow_account
from moothall.market.records import AuditRow, Standing
from moothall.market.replay import replay
from tests.store.support import Place
from tests.support.dealers import Diary, Told

OPERATION = {
    "PROPOSAL": "propose",
    "ACCEPT": "accept",
    "REJECT": "reject",
    "COMPLETE": "complete",
    "DISPUTE": "dispute",
}
STATUS_AFTER = {
    "PROPOSAL": {"pending", "accepted", "rejected", "completed", "disputed"},
    "ACCEPT": {"accepted", "completed", "disputed"},
    "REJECT": {"rejected"},
    "COMPLETE": {"completed"},
    "DISPUTE": {"disputed"},
}
SETTLED = ("completed", "disputed")


class Books:
    """Everything that the tables say, read at one moment while nobody writes."""

    def __init__(self, place: Place) -> None:
        self.deals: dict[str, dict[str, Any]] = {
            deal: json.loads(record) for deal, record in place.select("SELECT id, record FROM proposals")
        }
        self.audit = [
            AuditRow(at=at, operation=operation, deal=deal, actor=actor, data=data)
            for at, operation, deal, actor, data in place.select(
                "SELECT at, operation, deal, actor, data FROM audit ORDER BY number"
            )
        ]
        self.standings: dict[bytes, Standing] = {
            key: msgspec.json.decode(record, type=Standing)
            for key, record in place.select("SELECT key, record FROM standings")
        }
        self.postings: list[tuple[str, str, str, int]] = [
            (deal, operation, account, int(amount))
            for deal, operation, account, amount in place.select(
                "SELECT deal, operation, account, amount FROM postings"
            )
        ]

    def with_status(self, *statuses: str) -> list[dict[str, Any]]:
        return [deal for deal in self.deals.values() if deal["status"] in statuses]


def _key(text: str) -> bytes:
    """As the records write it."""
    return b64decode(text)


def assert_acknowledged_is_kept(books: Books, diary: Diary) -> None:
    rows = {(row.deal, row.operation): row for row in books.audit}
    for told in diary.told:
        row = rows.get((told.deal, OPERATION[told.kind]))
        assert row is not None, f"{told.kind} of {told.deal} was acknowledged and is lost"
        assert told.deal in books.deals, f"{told.deal} was acknowledged and is lost"
        _assert_same(told, row, books.deals[told.deal])


def _assert_same(told: Told, row: AuditRow, deal: dict[str, Any]) -> None:
    """The hall keeps what it said, to the millisecond and to the point of rating."""
    answer, data = told.answer, json.loads(row.data)
    assert deal["status"] in STATUS_AFTER[told.kind], f"{told.kind} of {told.deal}: it is {deal['status']}"
    assert row.at == answer["ts"], told
    assert data["message"]["sig"] == answer["sig"], told
    if told.kind == "ACCEPT":
        stakes = (deal["proposer_stake"], deal["acceptor_stake"])
        assert stakes == (answer["proposer_stake"], answer["acceptor_stake"]), told
    if told.kind in ("COMPLETE", "DISPUTE"):
        promised = {
            who: change["newRating"] for who, change in answer["rating_changes"].items() if who != "_escrow"
        }
        kept = [move["after"]["rating"] for move in data["moves"]]
        assert sorted(promised.values()) == sorted(kept), told


def assert_nothing_else_happened(books: Books, diary: Diary) -> None:
    """Every decision was asked for, and taken once."""
    taken = Counter((row.deal, row.operation) for row in books.audit)
    assert not [step for step, times in taken.items() if times > 1]
    kinds = {operation: kind for kind, operation in OPERATION.items()}
    for deal, operation in taken:
        asked = books.deals[deal]["task"] if operation == "propose" else deal
        assert (asked, kinds[operation]) in diary.asked, f"nobody asked for {operation} of {deal}"
        assert (asked, kinds[operation]) not in diary.refused, f"{operation} of {deal} was refused"
    tasks = Counter(deal["task"] for deal in books.deals.values())
    assert not [task for task, times in tasks.items() if times > 1]


def assert_whole(books: Books) -> None:
    """A deal is where its audit rows say, whoever heard of the last one."""
    steps: dict[str, set[str]] = {}
    for row in books.audit:
        steps.setdefault(row.deal, set()).add(row.operation)
    told = {
        "pending": {"propose"},
        "accepted": {"propose", "accept"},
        "rejected": {"propose", "reject"},
        "completed": {"propose", "accept", "complete"},
        "disputed": {"propose", "accept", "dispute"},
    }
    assert steps.keys() == books.deals.keys()
    for deal, taken in steps.items():
        assert taken == told[books.deals[deal]["status"]], f"{deal} is {books.deals[deal]['status']}: {taken}"


def assert_stakes_are_held_for_open_deals_only(books: Books) -> None:
    held: Counter[str] = Counter()
    total: Counter[tuple[str, str]] = Counter()
    for deal_id, operation, account, amount in books.postings:
        total[deal_id, operation] += amount
        if account.startswith(escrow_account("")):
            held[account] += amount
    assert not [entry for entry, amount in total.items() if amount]
    owed: Counter[str] = Counter()
    put_aside: Counter[bytes] = Counter()
    for deal in books.with_status("accepted"):
        owed[escrow_account(deal["id"])] = deal["proposer_stake"] + deal["acceptor_stake"]
        put_aside[_key(deal["proposer"])] += deal["proposer_stake"]
        put_aside[_key(deal["recipient"])] += deal["acceptor_stake"]
    assert +held == +owed
    assert {key: each.escrowed for key, each in books.standings.items() if each.escrowed} == dict(+put_aside)


def assert_settled_once(books: Books) -> None:
    """Each end of a deal is one transaction of both parties, and one entry of the ledger."""
    transactions: Counter[bytes] = Counter()
    for deal in books.with_status(*SETTLED):
        transactions[_key(deal["proposer"])] += 1
        transactions[_key(deal["recipient"])] += 1
    counted = {key: each.transactions for key, each in books.standings.items() if each.transactions}
    assert counted == dict(transactions)
    entries = {(deal_id, operation) for deal_id, operation, _, _ in books.postings}
    ends = Counter(
        deal_id for deal_id, operation in entries if operation in ("complete", "dispute", "release")
    )
    assert ends == Counter(deal["id"] for deal in books.with_status(*SETTLED))


def assert_ratings_replay(books: Books) -> None:
    replayed = replay(books.audit)
    assert replayed.problems == []
    assert replayed.standings == books.standings


def check(place: Place, diary: Diary) -> Books:
    books = Books(place)
    check_books(books, diary)
    assert place.problems() == []
    return books


def check_books(books: Books, diary: Diary) -> None:
    assert_acknowledged_is_kept(books, diary)
    assert_nothing_else_happened(books, diary)
    assert_whole(books)
    assert_stakes_are_held_for_open_deals_only(books)
    assert_settled_once(books)
    assert_ratings_replay(books)
