"""Events for integrations (agentchat wire 12.10)."""

import hashlib
import hmac
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moothall.market import hooks
from moothall.market.movement import Share
from moothall.market.settlement import settle
from tests.identity.vectors import ALICE, BOB
from tests.market.support import Market, address

OFFER = {
    "from_agent": address(ALICE),
    "to_agent": address(BOB),
    "proposer_stake": 25,
    "acceptor_stake": 10,
    "total_stake": 35,
    "task": "Review it",
    "amount": 1.5,
    "currency": "SOL",
}


def dealt() -> Market:
    market = Market()
    market.propose(ALICE, BOB, amount=1.5, currency="SOL", expires=60, elo_stake=25)
    market.accept(BOB, elo_stake=10)
    return market


def body(market: Market, name: str) -> dict[str, Any]:
    event = market.books.events[f"prop_1/{name}"]
    assert (event.name, event.at) == (name, market.now)
    decoded: dict[str, Any] = msgspec.json.decode(event.body)
    assert decoded.pop("id") == event.id
    assert (decoded.pop("event"), decoded.pop("timestamp")) == (name, market.now)
    assert decoded.pop("proposal_id") == "prop_1"
    return decoded


def test_escrow_created() -> None:
    market = dealt()
    expires = market.now + 60_000
    assert body(market, "escrow:created") == {**OFFER, "expires": expires, "escrow_id": "prop_1"}


def test_escrow_released() -> None:
    market = dealt()
    market.now += 60_000
    market.expire()
    released = body(market, "escrow:released")
    assert released == {**OFFER, "expires": market.now, "escrow_id": "prop_1", "reason": "expired"}


def test_settlement_completion() -> None:
    market = dealt()
    market.complete(BOB, proof="tx:1")
    settled = body(market, "settlement:completion")
    assert settled.items() >= OFFER.items()
    assert (settled["completed_by"], settled["completion_proof"]) == (address(BOB), "tx:1")
    assert settled["settlement"] == "returned"
    assert settled["stakes_returned"] == {"proposer": 25, "acceptor": 10}
    assert settled["rating_changes"][address(ALICE)]["newRating"] == 1208


def test_settlement_dispute() -> None:
    market = dealt()
    market.dispute(BOB)
    settled = body(market, "settlement:dispute")
    assert settled.items() >= OFFER.items()
    assert (settled["disputed_by"], settled["dispute_reason"]) == (address(BOB), "not delivered")
    assert settled["settlement"] == "transferred"
    assert (settled["transferred_to"], settled["transferred_amount"]) == (address(BOB), 25)
    assert settled["rating_changes"][address(ALICE)]["newRating"] == 1200 - 16 - 25


def test_settlement_verdict() -> None:
    market = dealt()
    share = Share(address=address(ALICE), standing=market.standing(ALICE), earned=-8, staked=25)
    movement = settle(market.deal(), "verdict", [share], market.now)
    event = hooks.hook_event(
        hooks.settlement_verdict(market.deal(), "disp_1", "mutual", movement, market.now)
    )
    market.books.events[event.id] = event
    assert body(market, "settlement:verdict") == {
        "dispute_id": "disp_1",
        "verdict": "mutual",
        "rating_changes": {
            address(ALICE): {"oldRating": 1200, "newRating": 1167, "change": -33, "transactions": 1}
        },
    }


def test_a_webhook_signature_is_plain_hmac_sha256() -> None:
    secret, content = b"s3cret", b'{"event":"escrow:created"}'
    digest = hmac.new(secret, content, hashlib.sha256).hexdigest()
    assert hooks.body_signature(secret, content) == f"sha256={digest}"


@given(st.binary(), st.binary(), st.binary(max_size=64))
def test_another_body_or_another_secret_has_another_signature(
    one: bytes, other: bytes, secret: bytes
) -> None:
    same = hooks.body_signature(secret, one) == hooks.body_signature(secret, other)
    assert same == (one == other)
    assert hooks.body_signature(b"x" + secret, one) != hooks.body_signature(b"y" + secret, one)
