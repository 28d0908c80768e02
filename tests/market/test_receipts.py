"""A receipt proves a deal to somebody who knows nobody here, and a forged one does not."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.redaction import Redactor
from moothall.identity import PublicKey
from moothall.market import clerk
from moothall.market.receipts import verify_receipt
from moothall.wire.agentchat import client
from tests.identity.vectors import ALICE, BOB, CAROL
from tests.market.support import Market, address, signed, told

scalars = st.none() | st.integers(-(10**30), 10**30) | st.floats(-1e300, 1e300) | st.booleans()
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


def receipt(completer: Any = BOB, **fields: Any) -> dict[str, Any]:
    market = Market()
    market.propose(
        ALICE, BOB, **{"amount": 1.5, "currency": "SOL", "expires": 300, "elo_stake": 25, **fields}
    )
    market.accept(BOB, payment_code="pay-bob", elo_stake=10)
    market.now += 1000
    market.complete(completer, proof="tx:abc123")
    body: dict[str, Any] = msgspec.json.decode(market.books.kept_receipts[0].body)
    return body


def problems(body: Any) -> list[str]:
    return verify_receipt(msgspec.json.encode(body))


@pytest.mark.parametrize("completer", [ALICE, BOB], ids=["by proposer", "by recipient"])
def test_a_receipt_holds_with_public_keys_alone(completer: Any) -> None:
    assert problems(receipt(completer)) == []


@given(amount=scalars | texts, currency=scalars | texts, code=scalars | texts, task=texts, terms=texts)
def test_whatever_was_signed_can_be_checked(
    amount: Any, currency: Any, code: Any, task: str, terms: str
) -> None:
    body = receipt(amount=amount, currency=currency, payment_code=code, task=f"do {task}", terms=terms)
    assert problems(body) == []


@pytest.mark.parametrize("expires", [0, 60, 60.0, 0.25, 86_400])
def test_whatever_deadline_was_signed_can_be_checked(expires: Any) -> None:
    market = Market()
    market.propose(ALICE, BOB, expires=expires)
    market.accept(BOB)
    market.complete(ALICE)
    assert verify_receipt(market.books.kept_receipts[0].body) == []


def test_a_receipt_is_the_message_the_time_and_the_operations() -> None:
    market = Market()
    market.propose(ALICE, BOB)
    market.accept(BOB)
    outcome = market.complete(ALICE)
    body = msgspec.json.decode(market.books.kept_receipts[0].body)
    operations = body.pop("operations")
    assert body.pop("stored_at") == market.now
    assert body == told(outcome, ALICE)[0]
    assert [operation["type"] for operation in operations] == ["PROPOSAL", "ACCEPT", "COMPLETE"]
    assert PublicKey.from_pem(operations[0]["key"]) == ALICE.public


def test_the_line_for_the_reference_is_the_message_its_time_and_the_proof() -> None:
    market = Market()
    market.propose(ALICE, BOB)
    market.accept(BOB)
    outcome = market.complete(ALICE)
    line = market.books.kept_receipts[0].body
    assert line.endswith(b"}")
    assert b"\n" not in line  # `receipts.jsonl` takes it as it is
    body = msgspec.json.decode(line)
    assert len(body.pop("operations")) == 3
    assert body == {**told(outcome, BOB)[0], "stored_at": market.now}


FORGERIES: dict[str, tuple[list[Any], Any]] = {
    "the task": (["operations", 0, "task"], "Something else"),
    "the amount": (["operations", 0, "amount"], 15),
    "the deadline": (["operations", 0, "expires"], 301),
    "the proposer's stake": (["operations", 0, "elo_stake"], 26),
    "the acceptor's stake": (["operations", 1, "elo_stake"], 11),
    "the payment code": (["operations", 1, "payment_code"], "pay-mallory"),
    "the proof": (["operations", 2, "proof"], "tx:other"),
    "the proof in the message": (["proof"], "tx:other"),
    "the stakes in the message": (["elo_stakes", "acceptor"], 11),
    "the proposer's key": (["operations", 0, "key"], CAROL.public.pem),
    "the acceptor's key": (["operations", 1, "key"], CAROL.public.pem),
    "the completer's key": (["operations", 2, "key"], CAROL.public.pem),
    "who completed": (["completed_by"], "@b8de75d1"),
    "who proposed": (["from"], "@00000000"),
    "who accepted": (["to"], "@00000000"),
    "the deal": (["proposal_id"], "prop_2"),
    "the status": (["status"], "disputed"),
    "the signature in the message": (["sig"], "A" * 88),
}


@pytest.mark.parametrize("forged", FORGERIES)
def test_a_forgery_is_noticed(forged: str) -> None:
    body = receipt()
    path, value = FORGERIES[forged]
    target: Any = body
    for step in path[:-1]:
        target = target[step]
    assert target[path[-1]] != value
    target[path[-1]] = value
    assert problems(body)


# Each of these is rightly signed by its key; it only belongs to another story.


def test_a_completion_of_another_deal_is_noticed() -> None:
    body = receipt()
    sig = BOB.sign("COMPLETE|prop_2|tx:abc123")
    body["operations"][2].update(proposal_id="prop_2", sig=sig)
    body["sig"] = sig
    assert problems(body) == ["COMPLETE is about another deal"]


def test_an_acceptance_of_another_deal_is_noticed() -> None:
    body = receipt()
    body["operations"][1].update(proposal_id="prop_2", sig=BOB.sign("ACCEPT|prop_2|pay-bob|10"))
    assert problems(body) == ["ACCEPT is about another deal"]


def test_a_proposal_to_somebody_else_is_noticed() -> None:
    body = receipt()
    to = address(CAROL)
    body["operations"][0].update(to=to, sig=ALICE.sign(f"{to}|Review it|1.5|SOL||300|25"))
    assert problems(body) == ["the proposal was made to somebody else"]


def test_a_completion_by_a_stranger_is_noticed() -> None:
    body = receipt()
    sig = CAROL.sign("COMPLETE|prop_1|tx:abc123")
    body["operations"][2].update(key=CAROL.public.pem, sig=sig)
    body["sig"] = sig
    assert problems(body) == ["COMPLETE is by neither party"]


def test_a_deal_with_oneself_is_noticed() -> None:
    body = receipt(BOB)
    to = address(BOB)
    body["from"] = to
    body["operations"][0].update(key=BOB.public.pem, sig=BOB.sign(f"{to}|Review it|1.5|SOL||300|25"))
    assert problems(body) == ["both parties are one"]


def test_a_receipt_names_its_parties_by_long_ids_too() -> None:
    market = Market()
    long = f"@{BOB.public.agent_id(16)}"
    message = signed(client.Proposal(to=long, task="t", sig="-"), ALICE)
    clerk.propose(
        market.books,
        market.checked(message, ALICE),
        proposal_id="prop_1",
        address=f"@{ALICE.public.agent_id(16)}",
        recipient=BOB.public.raw,
        task="t",
        now=market.now,
    )
    market.accept(BOB)
    market.complete(ALICE)
    assert verify_receipt(market.books.kept_receipts[0].body) == []


def test_a_redacted_task_cannot_be_checked_and_says_why() -> None:
    market = Market()
    task = "use sk-" + "a1" * 20
    redacted, _ = Redactor({}).redact(task)
    message = signed(client.Proposal(to=address(BOB), task=task, sig="-"), ALICE)
    clerk.propose(
        market.books,
        market.checked(message, ALICE),
        proposal_id="prop_1",
        address=address(ALICE),
        recipient=BOB.public.raw,
        task=redacted,
        now=market.now,
    )
    market.accept(BOB)
    market.complete(ALICE)
    found = verify_receipt(market.books.kept_receipts[0].body)
    assert len(found) == 2
    assert "took a secret out" in found[1]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 5000, b'{"type":"COMPLETE"}', b'{"type":"MSG"}'],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_receipt_is_a_problem_not_an_error(body: bytes) -> None:
    assert len(verify_receipt(body)) == 1


@pytest.mark.parametrize("key", ["", "not a key", ALICE.to_pem()])
def test_a_key_that_cannot_be_read_is_a_problem(key: str) -> None:
    body = receipt()
    body["operations"][1]["key"] = key
    [problem] = problems(body)
    assert "PRIVATE" not in problem


def test_operations_in_another_order_are_no_receipt() -> None:
    body = receipt()
    body["operations"].reverse()
    assert len(problems(body)) == 1
    del body["operations"]
    assert len(problems(body)) == 1
