"""What is found out about a step before any row is locked: the signature first, then the sender's part."""

from collections.abc import Callable
from typing import Any

import pytest

from moothall.court import clerk
from moothall.court.books import Books
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.errors import (
    DisputeNotArbiter,
    DisputeNotFound,
    DisputeNotParty,
    InvalidSignature,
    Refusal,
)
from moothall.identity import PrivateKey
from moothall.market.records import Proposal
from tests.court.books import MemoryBooks
from tests.court.support import Courtroom
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cases import COMMITMENT, MESSAGES, NONCE, signed_step
from tests.support.orders import order
from tests.support.seals import SEAL
from tests.support.world import World, assert_refused

NOW = 1_760_000_000_000
RULES = CourtRules()
Decide = Callable[..., Any]

STEPS: dict[str, Decide] = {
    "ARBITER_ACCEPT": clerk.accept,
    "ARBITER_DECLINE": lambda books, order, **more: clerk.decline(books, order, (), **more),
    "ARBITER_VOTE": clerk.vote,
    "EVIDENCE": clerk.submit_evidence,
    "DISPUTE_REVEAL": lambda books, order, **more: clerk.reveal(books, order, (), **more),
    "DISPUTE_INTENT": lambda books, order, **more: clerk.file_intent(
        books, order, (), dispute_id="disp_2", server_nonce="n", **more
    ),
}


class Unlocked(MemoryBooks):
    """Books whose cases and deals nobody may read: what a unit asks for before it is let in is not among them."""

    def case(self, dispute_id: str, *, hold: bool = True) -> Dispute | None:
        raise AssertionError("a case was read")

    def proposal(self, proposal_id: str, **more: Any) -> Proposal | None:
        raise AssertionError("a deal was read")

    def part(self, dispute_id: str, key: bytes) -> Any:
        case = MemoryBooks.case(self, dispute_id)
        return None if case is None else case.part_of(key)


@pytest.fixture
def court() -> Courtroom:
    """With a case whose panel has been asked."""
    court = Courtroom(judges=4)
    court.reveal()
    return court


def unread(court: Courtroom) -> Books:
    books = Unlocked()
    books.records, books.by_deal = court.world.books.records, court.world.books.by_deal
    return books


def fields(court: Courtroom, kind: str) -> dict[str, Any]:
    more: dict[str, dict[str, Any]] = {
        "ARBITER_VOTE": {"verdict": "mutual", "reasoning": ""},
        "EVIDENCE": {"items": [], "statement": ""},
    }
    if kind == "DISPUTE_REVEAL":
        return {"proposal_id": court.deal_id, "nonce": NONCE}
    if kind == "DISPUTE_INTENT":
        return {"proposal_id": court.deal_id, "reason": "late", "commitment": COMMITMENT}
    return {"dispute_id": court.dispute_id, **more.get(kind, {})}


def refusal(books: Books, key: PrivateKey, kind: str, step: dict[str, Any]) -> Refusal:
    def take() -> None:
        given = order(MESSAGES[kind](**step), key.public, RULES)
        STEPS[kind](books, given, now=NOW, rules=RULES, seal=SEAL)

    with pytest.raises(Refusal) as raised:
        take()
    return raised.value


def owner(court: Courtroom, kind: str) -> PrivateKey:
    return court.panel[0] if kind.startswith("ARBITER") else ALICE


class Untouched:
    """Books that say which of them was opened."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was asked before the signature was checked")


class GuardedStore:
    """From when it is `guarded`, no unit of work may read or lock anything."""

    def __init__(self, books: MemoryBooks) -> None:
        self._books = books
        self.guarded = False
        self.units = 0

    def submit(self, work: Any, done: Any, failed: Any) -> None:
        self.units += 1
        try:
            result = work(Untouched() if self.guarded else self._books)
        except Refusal as refusal:
            failed(refusal)
        else:
            done(result)


DEAL = {"proposal_id": "prop_1"}
CASE = {"dispute_id": "disp_1"}
SIGNED: dict[str, dict[str, Any]] = {
    "PROPOSAL": {"task": "review"},
    "ACCEPT": DEAL,
    "REJECT": DEAL,
    "COMPLETE": DEAL,
    "DISPUTE": {**DEAL, "reason": "late"},
    "REGISTER_SKILLS": {"skills": [{"capability": "c"}]},
    "DISPUTE_INTENT": {**DEAL, "reason": "late", "commitment": COMMITMENT},
    "DISPUTE_REVEAL": {**DEAL, "nonce": NONCE},
    "EVIDENCE": {**CASE, "items": [], "statement": ""},
    "ARBITER_ACCEPT": CASE,
    "ARBITER_DECLINE": CASE,
    "ARBITER_VOTE": {**CASE, "verdict": "mutual", "reasoning": ""},
}


@pytest.mark.parametrize("quota", [0, 1000])
@pytest.mark.parametrize("kind", SIGNED)
def test_a_wrong_signature_is_refused_before_any_row_is_read(kind: str, quota: int) -> None:
    """Of market and court alike, and whether or not the disk is metered."""
    books = MemoryBooks()
    store = GuardedStore(books)
    world = World(books=books, store=store, disk_quota_per_key=quota)
    alice, bob = world.agent("alice", key=ALICE), world.agent("bob", key=BOB)
    store.guarded, before = True, store.units
    to = {"to": bob.id} if kind == "PROPOSAL" else {}
    world.send(alice, kind, **to, **SIGNED[kind], sig=BOB.sign("something else"))
    assert_refused(alice, "INVALID_SIGNATURE")
    assert store.units == before + 1


@pytest.mark.parametrize("kind", list(STEPS))
def test_a_wrong_signature_is_refused_whoever_sends_it(court: Courtroom, kind: str) -> None:
    wrong = {**fields(court, kind), "sig": "wrong"}
    for key in (owner(court, kind), CAROL):
        assert isinstance(refusal(unread(court), key, kind, wrong), InvalidSignature)


@pytest.mark.parametrize("kind", ["ARBITER_ACCEPT", "ARBITER_DECLINE", "ARBITER_VOTE"])
def test_arbiters_are_told_from_others_without_the_record(court: Courtroom, kind: str) -> None:
    right = signed_step(CAROL, kind, **fields(court, kind))
    assert isinstance(refusal(unread(court), CAROL, kind, right), DisputeNotArbiter)


@pytest.mark.parametrize("kind", ["EVIDENCE", "DISPUTE_REVEAL"])
def test_parties_are_told_from_others_without_the_record(court: Courtroom, kind: str) -> None:
    right = signed_step(CAROL, kind, **fields(court, kind))
    assert isinstance(refusal(unread(court), CAROL, kind, right), DisputeNotParty)


@pytest.mark.parametrize("kind", ["EVIDENCE", "DISPUTE_REVEAL", "ARBITER_ACCEPT", "ARBITER_VOTE"])
def test_that_there_is_no_case_comes_before_the_part(court: Courtroom, kind: str) -> None:
    wanted = fields(court, kind)
    name = "proposal_id" if "proposal_id" in wanted else "dispute_id"
    step = signed_step(CAROL, kind, **{**wanted, name: "none"})
    assert isinstance(refusal(unread(court), CAROL, kind, step), DisputeNotFound)


def test_what_is_too_much_is_refused_before_its_text_is_built(
    court: Courtroom, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unexpected(*_: object) -> None:
        raise AssertionError("a text was built")

    monkeypatch.setattr("moothall.market.agentchat.signed_text", unexpected)
    too_much: list[tuple[PrivateKey, str, dict[str, Any]]] = [
        (ALICE, "DISPUTE_INTENT", {"reason": "x" * 4097}),
        (ALICE, "EVIDENCE", {"items": [{}] * 11}),
        (ALICE, "EVIDENCE", {"items": [{"value": [0] * 20_000}]}),
        (court.panel[0], "ARBITER_VOTE", {"reasoning": "x" * 501}),
        (court.panel[0], "ARBITER_DECLINE", {"reason": "x" * 501}),
    ]
    for key, kind, more in too_much:
        guest = court.guests[key]
        guest.read()
        court.world.send(guest, kind, **{**fields(court, kind), **more, "sig": "wrong"})
        assert_refused(guest, "INVALID_MSG")


def test_a_stranger_costs_no_record_when_it_asks_for_a_file(court: Courtroom) -> None:
    books = unread(court)
    with pytest.raises(DisputeNotParty):
        clerk.get_case(books, court.dispute_id, None, CAROL.public.raw)
    with pytest.raises(DisputeNotParty):
        clerk.get_case(books, None, court.deal_id, CAROL.public.raw)
    with pytest.raises(DisputeNotFound):
        clerk.get_case(books, "none", None, CAROL.public.raw)
