"""A deal between agents of two wires: what the market decides does not depend on how an agent signs.

The second wire is made up. It signs bytes as an envelope does: a header, the parties, and a payload.
"""

import json
from typing import Any

import msgspec
import pytest

from moothall.errors import InvalidSignature
from moothall.identity import PrivateKey
from moothall.identity.signatures import encode_signature
from moothall.market import clerk
from moothall.market.commands import Accept, Complete, Propose
from moothall.market.receipts import verify_receipt
from moothall.market.records import Proposal
from moothall.market.signed import AnyCommand, Sent, Signed, check_signature
from tests.identity.vectors import ALICE, BOB
from tests.market.support import Market, address, told
from tests.support.seals import HALL_ID, SEAL


def sent(key: PrivateKey, command: AnyCommand) -> Sent[AnyCommand]:
    """All that a wire has to write: which command the bytes are, and what was signed."""
    payload = msgspec.json.encode(command)
    text = b"\x01\x05" + key.public.raw + bytes(32) + len(payload).to_bytes(4, "big") + payload
    signature = key.sign_bytes(text)
    envelope = {"type": "envelope", "bytes": text.hex()}
    return Sent(command, key.public, text, signature, encode_signature(signature), envelope, foreign=True)


def ordered(key: PrivateKey, command: AnyCommand) -> Signed[AnyCommand]:
    return check_signature(sent(key, command), "INVALID_SIGNATURE")


def agentchat_deal(market: Market) -> None:
    market.propose(ALICE, BOB, "Review it", amount=2, elo_stake=20)
    market.accept(BOB, elo_stake=10)
    market.complete(BOB, proof="done")


def propose(market: Market) -> None:
    order = ordered(ALICE, Propose(to=address(BOB), task="Review it", amount=2, stake=20))
    clerk.propose(
        market.books,
        order,
        proposal_id="prop_1",
        address=address(ALICE),
        connected=BOB.public.raw,
        now=market.now,
        rules=market.rules,
    )


def accept(market: Market) -> None:
    order = ordered(BOB, Accept(deal="prop_1", stake=10))
    outcome = clerk.accept(market.books, order, now=market.now, rules=market.rules)
    (notice,) = told(outcome, ALICE)  # as Alice reads it, on the agentchat wire
    assert (notice["type"], notice["sig"], notice["acceptor_stake"]) == ("ACCEPT", order.sig, 10)


def complete(market: Market) -> None:
    order = ordered(BOB, Complete(deal="prop_1", proof="done"))
    clerk.complete(market.books, order, now=market.now, rules=market.rules, seal=SEAL)


def mixed_deal(market: Market) -> None:
    """Alice is on the agentchat wire, Bob on the other one."""
    market.propose(ALICE, BOB, "Review it", amount=2, elo_stake=20)
    accept(market)
    complete(market)


def foreign_deal(market: Market) -> None:
    propose(market)
    accept(market)
    complete(market)


def without_signatures(deal: Proposal) -> Proposal:
    return msgspec.structs.replace(
        deal, sig="", response_sig=None, completion_sig=None, signed_texts=msgspec.UNSET
    )


def receipt(market: Market) -> dict[str, Any]:
    (kept,) = market.books.kept_receipts
    body: dict[str, Any] = json.loads(kept.body)
    return body


@pytest.mark.parametrize("make", [mixed_deal, foreign_deal])
def test_the_deal_is_the_same(make: Any) -> None:
    plain, other = Market(), Market()
    agentchat_deal(plain)
    make(other)
    assert without_signatures(other.deal()) == without_signatures(plain.deal())
    assert other.books.stands == plain.books.stands
    assert other.books.entries == plain.books.entries
    assert [row.operation for row in other.books.audit] == ["propose", "accept", "complete"]


def test_the_audit_trail_keeps_what_each_wire_said() -> None:
    market = Market()
    mixed_deal(market)
    said = [json.loads(row.data)["message"]["type"] for row in market.books.audit]
    assert said == ["PROPOSAL", "envelope", "envelope"]


@pytest.mark.parametrize("make", [mixed_deal, foreign_deal])
def test_its_receipt_proves_the_signatures_and_leaves_their_meaning_to_the_hall(make: Any) -> None:
    market = Market()
    make(market)
    proof = verify_receipt(market.books.kept_receipts[0].body, [HALL_ID])
    assert proof.holds, proof.problems
    assert proof.steps == ["PROPOSAL", "ACCEPT", "COMPLETE"]
    assert "That those bytes say what the fields of the ACCEPT say." in proof.hall_word
    by_alice = "That those bytes say what the fields of the PROPOSAL say."
    assert (by_alice in proof.hall_word) == (make is foreign_deal)


@pytest.mark.parametrize("signed", ["AAAA", "", "not base64", "é"])
def test_other_bytes_are_a_contradiction(signed: str) -> None:
    market = Market()
    mixed_deal(market)
    body = receipt(market)
    body["operations"][1]["signed"] = signed
    proof = verify_receipt(json.dumps(body).encode(), [HALL_ID])
    assert any(problem.startswith("`operations[1].sig`") for problem in proof.contradictions)


def test_without_its_bytes_a_foreign_signature_proves_nothing() -> None:
    market = Market()
    mixed_deal(market)
    body = receipt(market)
    del body["operations"][1]["signed"]
    proof = verify_receipt(json.dumps(body).encode(), [HALL_ID])
    assert any(problem.startswith("`operations[1].sig`") for problem in proof.contradictions)


def test_a_signature_of_other_bytes_is_refused() -> None:
    order = sent(BOB, Accept(deal="prop_1"))
    with pytest.raises(InvalidSignature):
        check_signature(msgspec.structs.replace(order, text=order.text + b"\0"), "INVALID_SIGNATURE")
