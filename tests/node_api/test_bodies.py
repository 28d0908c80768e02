"""What the routes take."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import NodeRefused
from moothall.node_api import bodies


@given(st.binary(min_size=32, max_size=32))
def test_ids_in_hex(raw: bytes) -> None:
    assert bodies.agent_id(raw.hex(), "recipient") == raw
    assert bodies.agent_id(raw.hex().upper(), "recipient") == raw
    assert bodies.conversation_id(raw[:16].hex()) == raw[:16]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("zz", "recipient: invalid hex"),
        ("a", "recipient: invalid hex"),
        ("aa " * 32, "recipient: invalid hex"),
        ("ä" * 64, "recipient: invalid hex"),
        ("aa", "recipient must be 32 bytes"),
        ("aa" * 33, "recipient must be 32 bytes"),
        ("", "recipient must be 32 bytes"),
    ],
)
def test_ids_that_are_none(text: str, fault: str) -> None:
    with pytest.raises(NodeRefused) as refused:
        bodies.agent_id(text, "recipient")
    assert (refused.value.status, str(refused.value)) == (400, fault)


@given(st.binary(max_size=300))
def test_payloads(raw: bytes) -> None:
    assert bodies.payload(base64.b64encode(raw).decode()) == raw


@pytest.mark.parametrize(
    ("text", "status"), [("!!", 400), ("YQ", 400), ("ä", 400), ("YQ==\n", 400), ("A" * 87_385, 413)]
)
def test_payloads_that_are_none(text: str, status: int) -> None:
    with pytest.raises(NodeRefused) as refused:
        bodies.payload(text)
    assert refused.value.status == status
    assert "payload_b64" in str(refused.value)


def test_the_longest_payload() -> None:
    assert len(bodies.payload("A" * 87_384)) == 65_538  # the node refuses what no envelope holds


@pytest.mark.parametrize(
    ("text", "content_type", "status"),
    [
        (b'{"bytes_hex":"00"}', "text/plain", 415),
        (b'{"bytes_hex":"00"}', "", 415),
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b'{"bytes_hex":"\xff"}', "application/json", 400),
        (b'{"x":' * 100_000, "application/json", 400),
        (b"{}", "application/json", 422),
        (b"[]", "application/json", 422),
        (b'{"bytes_hex":5}', "application/json", 422),
    ],
)
def test_bodies_that_do_not_fit(text: bytes, content_type: str, status: int) -> None:
    with pytest.raises(NodeRefused) as refused:
        bodies.read_body(text, content_type, bodies.SignBody)
    assert refused.value.status == status


def test_a_body_that_fits() -> None:
    text = b'{"bytes_hex":"00","more":1}'
    assert bodies.read_body(text, "Application/JSON; charset=utf-8", bodies.SignBody).bytes_hex == "00"


@pytest.mark.parametrize("amount", ["-1", "1.5", '"1"', str(2**63), str(2**64)])
def test_amounts_have_64_bits(amount: str) -> None:
    text = f'{{"recipient":"","conversation_id":"","amount_usdc_micro":{amount}}}'.encode()
    with pytest.raises(NodeRefused, match="amount_usdc_micro"):
        bodies.read_body(text, "application/json", bodies.AcceptBody)


@pytest.mark.parametrize("text", ["-1", "x", "", "1.0", "9" * 30, str(2**63), "٣"])
def test_numbers_in_a_query(text: str) -> None:
    assert bodies.number(None, "after", default=7) == 7
    assert bodies.number("12", "after", default=7) == 12
    with pytest.raises(NodeRefused, match="after must be a whole number"):
        bodies.number(text, "after", default=0)
