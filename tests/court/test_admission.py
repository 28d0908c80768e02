"""What is found out about a step before any row is locked (agentchat wire 13: the order of errors)."""

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
    InvalidMessage,
    InvalidSignature,
    Refusal,
)
from moothall.identity import PrivateKey
from moothall.market.records import Proposal
from moothall.wire.agentchat.client import GetCase
from tests.court.books import MemoryBooks
from tests.court.support import Courtroom
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.support.cases import COMMITMENT, MESSAGES, NONCE, signed_step
from tests.support.seals import SEAL

NOW = 1_760_000_000_000
RULES = CourtRules()
Decide = Callable[..., Any]

STEPS: dict[str, Decide] = {
    "ARBITER_ACCEPT": clerk.accept,
    "ARBITER_DECLINE": lambda books, message, key, **more: clerk.decline(books, message, key, (), **more),
    "ARBITER_VOTE": clerk.vote,
    "EVIDENCE": clerk.submit_evidence,
    "DISPUTE_REVEAL": lambda books, message, key, **more: clerk.reveal(books, message, key, (), **more),
    "DISPUTE_INTENT": lambda books, message, key, **more: clerk.file_intent(
        books, message, key, (), dispute_id="disp_2", server_nonce="n", **more
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
    with pytest.raises(Refusal) as raised:
        STEPS[kind](books, MESSAGES[kind](**step), key.public, now=NOW, rules=RULES, seal=SEAL)
    return raised.value


def owner(court: Courtroom, kind: str) -> PrivateKey:
    return court.panel[0] if kind.startswith("ARBITER") else ALICE


@pytest.mark.parametrize("kind", list(STEPS))
def test_a_wrong_signature_reads_no_record_and_holds_no_row(court: Courtroom, kind: str) -> None:
    step = {**fields(court, kind), "sig": BOB.sign("something else")}
    assert isinstance(refusal(unread(court), owner(court, kind), kind, step), InvalidSignature)


@pytest.mark.parametrize("kind", ["ARBITER_ACCEPT", "ARBITER_DECLINE", "ARBITER_VOTE"])
def test_for_arbiters_the_signature_comes_before_their_part(court: Courtroom, kind: str) -> None:
    books = unread(court)
    wrong = {**fields(court, kind), "sig": "wrong"}
    assert isinstance(refusal(books, CAROL, kind, wrong), InvalidSignature)
    right = signed_step(CAROL, kind, **fields(court, kind))
    assert isinstance(refusal(books, CAROL, kind, right), DisputeNotArbiter)


@pytest.mark.parametrize("kind", ["EVIDENCE", "DISPUTE_REVEAL"])
def test_for_parties_it_comes_after_it(court: Courtroom, kind: str) -> None:
    wrong = {**fields(court, kind), "sig": "wrong"}
    assert isinstance(refusal(unread(court), CAROL, kind, wrong), DisputeNotParty)


@pytest.mark.parametrize("kind", ["EVIDENCE", "DISPUTE_REVEAL", "ARBITER_ACCEPT", "ARBITER_VOTE"])
def test_that_there_is_no_case_comes_first(court: Courtroom, kind: str) -> None:
    step = {**fields(court, kind), "sig": "wrong"}
    name = "proposal_id" if "proposal_id" in step else "dispute_id"
    assert isinstance(refusal(unread(court), CAROL, kind, {**step, name: "none"}), DisputeNotFound)


def test_what_is_too_much_is_refused_before_its_text_is_built(court: Courtroom) -> None:
    books = unread(court)
    too_much: list[tuple[PrivateKey, str, dict[str, Any]]] = [
        (ALICE, "EVIDENCE", {"items": [{}] * 11}),
        (ALICE, "EVIDENCE", {"items": [{"value": [0] * 20_000}]}),
        (court.panel[0], "ARBITER_VOTE", {"reasoning": "x" * 501}),
        (court.panel[0], "ARBITER_DECLINE", {"reason": "x" * 501}),
    ]
    for key, kind, more in too_much:
        step = {**fields(court, kind), **more, "sig": "wrong"}
        assert isinstance(refusal(books, key, kind, step), InvalidMessage)


def test_a_stranger_costs_no_record_when_it_asks_for_a_file(court: Courtroom) -> None:
    books = unread(court)
    for question in (GetCase(dispute_id=court.dispute_id), GetCase(proposal_id=court.deal_id)):
        with pytest.raises(DisputeNotParty):
            clerk.get_case(books, question, CAROL.public, now=NOW)
    with pytest.raises(DisputeNotFound):
        clerk.get_case(books, GetCase(dispute_id="none"), CAROL.public, now=NOW)
