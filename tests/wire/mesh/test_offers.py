"""Offers: the amount that is read of any payload, and terms that are never misread."""

from typing import Any

import pytest

from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.offers import Accept, Counter, Propose, decode_amount, encode_amount
from tests.support.mesh import VECTORS

VARIANTS: dict[str, dict[str, Any]] = {vector["name"]: vector for vector in VECTORS["payloads"]}
TWO = encode_amount(2)


@pytest.mark.parametrize("vector", VARIANTS["amount prefix"]["values"], ids=lambda vector: vector["amount"])
def test_amounts_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    assert encode_amount(vector["amount"]).hex() == vector["hex"]
    assert decode_amount(bytes.fromhex(vector["hex"])) == vector["amount"]


def test_members_may_come_in_any_order() -> None:
    vector = VARIANTS["COUNTER as the TypeScript SDK orders its JSON keys"]
    assert Counter.decode(bytes.fromhex(vector["hex"])) == Counter(**vector["values"])


@pytest.mark.parametrize("amount", [1 << 127, -(1 << 127) - 1])
def test_an_amount_has_128_bits(amount: int) -> None:
    with pytest.raises(ValueError, match="128 bits"):
        Propose(amount=amount).encode()


@pytest.mark.parametrize("payload", [b"", b"{}", bytes(15), b'{"amount": 9}'])
def test_a_payload_that_is_too_short_has_no_amount(payload: bytes) -> None:
    assert Propose.decode(payload) == Propose()


@pytest.mark.parametrize("rest", [b"", b"free text", b"\xff\xfe", b"[1]", b"null", b"7", b'"text"', b"{"])
def test_a_rest_that_is_no_object_is_for_the_agents(rest: bytes) -> None:
    for kind in (Propose, Counter, Accept):
        assert kind.decode(TWO + rest) == kind(amount=2)


def test_unknown_members_are_for_the_agents_too() -> None:
    found = Propose.decode(TWO + b'{"amount": 5, "colour": "red", "message": "hi"}')
    assert found == Propose(amount=2, message="hi")


@pytest.mark.parametrize(
    "terms",
    [
        b'{"role": "judge"}',
        b'{"role": "provider", "message": 5}',
        b'{"max_rounds": "2"}',
        b'{"max_rounds": 0}',
        b'{"max_rounds": 1.5}',
        b'{"max_rounds": true}',
        b'{"payment_usd_micro": -1}',
    ],
)
def test_terms_of_another_type_are_refused_and_not_guessed(terms: bytes) -> None:
    with pytest.raises(PayloadParseError):
        Propose.decode(TWO + terms)


def test_a_round_counts_from_one() -> None:
    with pytest.raises(PayloadParseError):
        Counter.decode(TWO + b'{"round": 0}')


def test_members_that_were_not_given_are_left_out() -> None:
    assert Propose(amount=2, message="é").encode() == TWO + '{"max_rounds":2,"message":"é"}'.encode()
    assert Propose(role="provider").encode()[16:] == b'{"max_rounds":2,"message":"","role":"provider"}'


def test_a_lone_surrogate_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        Accept(message="\ud800").encode()
