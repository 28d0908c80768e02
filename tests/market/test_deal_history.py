"""The signed steps of a deal: a reader checks each signature with what is shown."""

from base64 import b64decode
from typing import Any

import pytest
from msgspec import structs

from moothall.identity import PublicKey
from moothall.identity.signatures import decode_signature, verify
from moothall.market.deal_history import SignedStep, signed_steps
from moothall.market.receipts import REDACTED
from moothall.market.records import Proposal
from tests.identity.vectors import ALICE, BOB
from tests.market.support import Market, address


def holds(step: SignedStep) -> bool:
    signature = decode_signature(step.sig)
    assert step.signed is not None
    assert signature is not None
    return verify(PublicKey.from_pem(step.key).raw, b64decode(step.signed), signature)


def deal_after(*steps: str, **fields: Any) -> Proposal:
    market = Market()
    market.propose(ALICE, BOB, **fields)
    for step in steps:
        market.now += 1000
        getattr(market, step)(ALICE if step == "dispute" else BOB)
    return market.deal()


@pytest.mark.parametrize(
    ("taken", "kinds"),
    [
        ((), ["PROPOSAL"]),
        (("reject",), ["PROPOSAL", "REJECT"]),
        (("accept",), ["PROPOSAL", "ACCEPT"]),
        (("accept", "complete"), ["PROPOSAL", "ACCEPT", "COMPLETE"]),
        (("accept", "dispute"), ["PROPOSAL", "ACCEPT", "DISPUTE"]),
    ],
)
def test_every_signature_holds_for_the_bytes_that_are_shown(taken: tuple[str, ...], kinds: list[str]) -> None:
    fields = {"amount": 1.5, "currency": "SOL", "payment_code": "p", "expires": 300, "elo_stake": 25}
    steps = signed_steps(deal_after(*taken, **fields))
    assert [step.type for step in steps] == kinds
    assert all(holds(step) and step.follows for step in steps)
    assert [step.by for step in steps[:2]] == [address(ALICE), address(BOB)][: len(steps)]
    assert steps[0].fields == {"to": address(BOB), "task": "Review it", **fields}


def test_a_task_without_its_secret_is_not_what_was_signed() -> None:
    deal = structs.replace(deal_after(), task=f"use {REDACTED}token]")
    (step,) = signed_steps(deal)
    assert step.signed is None


def test_a_task_that_only_looks_so_can_be_checked() -> None:
    (step,) = signed_steps(deal_after(task=f"say {REDACTED}"))
    assert holds(step)


def test_bytes_of_another_wire_are_shown_as_they_were_signed() -> None:
    deal = structs.replace(deal_after(), signed_texts={"PROPOSAL": b"\xa1\x00"})
    (step,) = signed_steps(deal)
    assert step.signed is not None
    assert (b64decode(step.signed), step.follows) == (b"\xa1\x00", False)
