"""What the hall keeps and signs is the same, byte for byte, from one version to the next.

`tests/vectors/kept.json` has the audit rows, receipts, case files and events of one fixed story: deals that end in
every way, and cases with a verdict and with a fallback. A change of it needs a new version of the format.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from moothall.court import clerk
from moothall.court.panel import Candidate
from moothall.court.rules import CourtRules
from moothall.court.verify import verify_case
from moothall.identity import PrivateKey
from moothall.market.receipts import verify_receipt
from tests.court.books import MemoryBooks
from tests.court.support import rated
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import Market, address
from tests.support.cases import ARBITERS, COMMITMENT, MESSAGES, NONCE, signed_step
from tests.support.orders import order
from tests.support.seals import HALL_ID, SEAL

VECTOR = Path(__file__).parent.parent / "vectors" / "kept.json"
JUDGES = ARBITERS[:5]
RULES = CourtRules()
ITEM = {"kind": "commit", "label": "Größe", "value": 1.0, "more": {"kind": [1e21, None, True]}}


class Story(Market):
    """Deals and cases with fixed ids, at fixed times."""

    books: MemoryBooks

    def __init__(self) -> None:
        super().__init__()
        self.books = MemoryBooks()
        for key in JUDGES:
            rated(self.books, key)
        self.present = [Candidate(key.public.raw, address(key)) for key in JUDGES]

    def step(self, key: PrivateKey, kind: str, decide: Any, *others: Any, **fields: Any) -> None:
        more: dict[str, Any] = {
            name: fields.pop(name) for name in ("server_nonce", "new_id") if name in fields
        }
        if "new_id" in more:
            more["dispute_id"] = more.pop("new_id")
        self.now += 1
        message = MESSAGES[kind](**signed_step(key, kind, **fields))
        given = order(message, key.public)
        decide(self.books, given, *others, now=self.now, rules=RULES, seal=SEAL, **more)

    def file(self, key: PrivateKey, deal: str, dispute_id: str) -> None:
        self.step(
            key,
            "DISPUTE_INTENT",
            clerk.file_intent,
            self.present,
            proposal_id=deal,
            reason="nothing | came",
            commitment=COMMITMENT,
            new_id=dispute_id,
            server_nonce="5e" * 16,
        )
        self.step(key, "DISPUTE_REVEAL", clerk.reveal, self.present, proposal_id=deal, nonce=NONCE)

    def arbiters(self, dispute_id: str) -> list[PrivateKey]:
        case = self.books.case(dispute_id)
        assert case is not None
        keys = {key.public.raw: key for key in JUDGES}
        return [keys[slot.arbiter] for slot in case.slots if slot.status != "declined"]

    def decline(self, dispute_id: str) -> None:
        key = self.arbiters(dispute_id)[0]
        self.step(
            key, "ARBITER_DECLINE", clerk.decline, self.present, dispute_id=dispute_id, reason="no time"
        )

    def judge(self, dispute_id: str, *verdicts: str) -> None:
        for key in self.arbiters(dispute_id):
            self.step(key, "ARBITER_ACCEPT", clerk.accept, dispute_id=dispute_id)
        for key in (ALICE, BOB):
            self.step(
                key,
                "EVIDENCE",
                clerk.submit_evidence,
                dispute_id=dispute_id,
                items=[ITEM],
                statement="see here",
            )
        for key, verdict in zip(self.arbiters(dispute_id), verdicts, strict=False):
            self.step(
                key,
                "ARBITER_VOTE",
                clerk.vote,
                dispute_id=dispute_id,
                verdict=verdict,
                reasoning=f"so {verdict}",
            )
        if len(verdicts) < 3:
            self.now += RULES.vote_period
            clerk.lapse(self.books, dispute_id, now=self.now, rules=RULES, seal=SEAL)

    def kept(self) -> dict[str, list[str]]:
        return {
            "audit": [
                " ".join((str(row.at), row.operation, row.deal, (row.actor or b"").hex(), row.data.decode()))
                for row in self.books.audit
            ],
            "receipts": [receipt.body.decode() for receipt in self.books.kept_receipts],
            "cases": [body.decode() for body in self.books.files.values()],
            "events": [event.body.decode() for event in self.books.events.values()],
        }


@pytest.fixture(scope="module")
def story() -> Story:
    told = Story()
    told.register(ALICE, {"capability": "Prüfung", "rate": 1.5, "currency": "SOL"}, {"capability": "tests"})
    plain = {"amount": 1.5, "currency": "SOL", "payment_code": "pay|alice", "terms": {"b": 1, "a": [1.0]}}
    told.propose(ALICE, BOB, 'Say "hello"', expires=300.5, elo_stake=25, capability="review", **plain)
    told.accept(BOB, elo_stake=10, payment_code="pay-bob")
    told.complete(BOB, proof="tx:1")
    told.propose(BOB, ALICE)
    told.reject(ALICE, "prop_2", reason=0.5)
    told.propose(CAROL, ALICE, elo_stake=7.0)
    told.accept(ALICE, "prop_3", elo_stake=0)
    told.dispute(CAROL, "prop_3", reason="no | answer")
    told.propose(ALICE, CAROL, expires=60, elo_stake=5)
    told.accept(CAROL, "prop_4", elo_stake=6)
    told.now += 60_000
    told.expire()
    for number, verdicts in enumerate((("disputant",) * 3, ("respondent", "respondent"), ()), start=5):
        told.propose(ALICE, BOB, elo_stake=3, capability="review")
        told.accept(BOB, f"prop_{number}", elo_stake=4)
        told.file(BOB if number == 6 else ALICE, f"prop_{number}", f"disp_{number}")
        told.decline(f"disp_{number}")
        told.judge(f"disp_{number}", *verdicts)
    told.propose(ALICE, BOB)
    told.accept(BOB, "prop_8")
    told.present = told.present[:3]
    told.file(ALICE, "prop_8", "disp_8")
    told.decline("disp_8")
    told.complete(ALICE, "prop_8")
    return told


@pytest.mark.parametrize("kind", ["audit", "receipts", "cases", "events"])
def test_it_is_kept_as_before(story: Story, kind: str) -> None:
    assert story.kept()[kind] == json.loads(VECTOR.read_text())[kind]


def test_what_was_kept_before_still_verifies() -> None:
    before = json.loads(VECTOR.read_text())
    for body in before["receipts"]:
        assert verify_receipt(body.encode(), [HALL_ID]).holds
    for body in before["cases"]:
        assert verify_case(json.loads(body), [HALL_ID]).holds
