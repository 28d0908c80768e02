"""A whole hall, killed without warning while dozens of agents deal: what it acknowledged is a fact, what it did not
acknowledge happened wholly or not at all, and the books balance.

`tests/store/test_crash.py` kills the store alone. Here the answers travel over sockets, so that an answer sent too
early is found out. Killing a process does not empty the kernel's buffers: that a commit reaches the disk is the
business of `synchronous = FULL`, and no test of a process can show it.
"""

import asyncio
import json
import os
import random
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from moothall.identity import PrivateKey
from moothall.market.ledger import escrow_account
from moothall.market.records import AuditRow, Standing
from moothall.market.replay import replay
from moothall.store.files import DataDirectory
from tests.store.server import Server
from tests.store.support import Place
from tests.support.dealers import Diary, Ring, Told
from tests.support.server import HallProcess, run_moothall

IMPORTABLE = {"PYTHONPATH": str(Path(__file__).parent.parent)}  # this package, by the hall

AGENTS = 32
KILLS = 4
FEWEST, MOST = 100, 1300  # acknowledged steps between two kills: a thousand deals in all
A_FEW_BATCHES = 0.05  # seconds

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


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    url = request.getfixturevalue("server").new_database() if request.param == "postgres" else ""
    return Place(DataDirectory(tmp_path / "data"), url)


@pytest.fixture
def slow_hall(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HallProcess:
    """A disk as slow as most are makes the moment between the decision and its commit long enough to be hit."""
    program = tmp_path / "moothall"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tests.support.slow_commits "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr("tests.support.server.PROGRAM", str(program))
    return HallProcess(tmp_path, "--no-limits", environment={"MOOTHALL_STORE": place.url, **IMPORTABLE})


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


# -- the checker ---------------------------------------------------------------------------------------


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
    assert_acknowledged_is_kept(books, diary)
    assert_nothing_else_happened(books, diary)
    assert_whole(books)
    assert_stakes_are_held_for_open_deals_only(books)
    assert_settled_once(books)
    assert_ratings_replay(books)
    assert place.problems() == []
    return books


async def assert_the_hall_says_so(ring: Ring, books: Books) -> None:
    """Whoever comes back is shown the same: the latest deals, the rating, the stakes."""
    for dealer in ring.dealers:
        listed = (await dealer.do("LIST_PROPOSALS", limit=50))["list"]
        assert listed
        for entry in listed:
            deal = books.deals[entry["proposal_id"]]
            assert (entry["status"], entry["updated_at"]) == (deal["status"], deal["updated_at"])
        assert dealer.key is not None
        standing = books.standings[dealer.key.public.raw]
        rating = await dealer.do("GET_RATING")
        assert (rating["rating"], rating["escrowed"], rating["transactions"]) == (
            standing.rating,
            standing.escrowed,
            standing.transactions,
        )


# -- the test ------------------------------------------------------------------------------------------


def striking(hall: HallProcess, dice: random.Random) -> Callable[[], None]:
    """At the very moment of an answer, or at any moment of the next few batches."""
    if dice.randrange(2):
        return hall.process.kill
    delay = dice.uniform(0, A_FEW_BATCHES)

    def later() -> None:
        asyncio.get_running_loop().call_later(delay, hall.process.kill)

    return later


@pytest.mark.slow
async def test_a_killed_hall_keeps_what_it_acknowledged_and_nothing_by_half(
    place: Place, slow_hall: HallProcess
) -> None:
    hall = slow_hall
    dice = random.Random(f"hall killed, {place.url.partition(':')[0]}")  # noqa: S311  # where to strike
    ring = Ring([PrivateKey(os.urandom(32)) for _ in range(AGENTS)])
    for kill in range(KILLS):
        hall.start()
        try:
            await ring.come_in(hall.url)
            if kill:
                await assert_the_hall_says_so(ring, check(place, ring.diary))
            ring.diary.strike_after(dice.randrange(FEWEST, MOST), striking(hall, dice))
            await ring.deal()
            assert ring.diary.strike is None, f"the hall went by itself:\n{hall.stderr.text}"
        finally:
            await asyncio.to_thread(hall.kill)
        await ring.go()
    books = check(place, ring.diary)
    assert len(books.deals) > KILLS * FEWEST / 3
    where = ("--store", place.url) if place.url else ("--data-dir", "data")
    checked = run_moothall(hall.folder, "store", "check", *where, environ=IMPORTABLE)
    assert checked.stdout == "no problems found\n", checked.stderr
