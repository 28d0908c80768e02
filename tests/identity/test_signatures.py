import base64
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity.signatures import (
    decode_signature,
    encode_signature,
    expand,
    sign,
    sign_expanded,
    verify,
)
from tests.identity.curve import (
    BASE,
    ORDER,
    SMALL_ORDER,
    Point,
    forged,
    secret_scalar,
    spellings_of_small_order,
)
from tests.identity.vectors import SEEDS, VECTORS

seeds = st.binary(min_size=32, max_size=32)


def signed_vectors() -> Iterator[Any]:
    for section, entries in VECTORS.items():
        for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
            if isinstance(entry, dict) and entry.keys() >= {"signer", "signing_text"}:
                signature = entry.get("sig") or entry["signature"]
                yield pytest.param(
                    entry["signer"], entry["signing_text"].encode(), signature, id=f"{section}-{number}"
                )


@pytest.mark.parametrize(("signer", "text", "signature"), list(signed_vectors()))
def test_signature_vectors(signer: str, text: bytes, signature: str) -> None:
    raw = sign(SEEDS[signer], text)
    assert encode_signature(raw) == signature
    assert decode_signature(signature) == raw
    assert verify(expand(SEEDS[signer])[32:], text, raw)


@given(seeds, st.binary(max_size=200))
def test_signatures_are_those_of_another_library(seed: bytes, message: bytes) -> None:
    other = Ed25519PrivateKey.from_private_bytes(seed)
    assert expand(seed)[32:] == other.public_key().public_bytes_raw()
    assert sign(seed, message) == sign_expanded(expand(seed), message) == other.sign(message)


@given(seeds, st.binary(max_size=80), st.integers(0, 63), st.integers(1, 255))
def test_a_changed_signature_or_message_does_not_verify(
    seed: bytes, message: bytes, at: int, flip: int
) -> None:
    key, signature = expand(seed)[32:], sign(seed, message)
    changed = bytearray(signature)
    changed[at] ^= flip
    assert verify(key, message, signature)
    assert not verify(key, message, bytes(changed))
    assert not verify(key, message + b"\0", signature)


@given(st.binary(max_size=70), st.binary(max_size=200), st.binary(max_size=130))
def test_any_bytes_are_merely_not_a_signature(key: bytes, message: bytes, signature: bytes) -> None:
    assert verify(key, message, signature) is False


def test_a_signature_has_no_second_spelling_as_a_number() -> None:
    seed = SEEDS["alice"]
    signature = sign(seed, b"deal")
    larger = int.from_bytes(signature[32:], "little") + ORDER
    assert not verify(expand(seed)[32:], b"deal", signature[:32] + larger.to_bytes(32, "little"))


def test_the_curve_of_these_tests_is_that_of_ed25519() -> None:
    secret = secret_scalar(SEEDS["alice"])
    key = BASE.times(secret).encoded()
    assert key == expand(SEEDS["alice"])[32:]
    assert verify(key, b"deal", forged(secret, key, BASE.times(7).encoded(), 7, b"deal"))
    assert len(spellings_of_small_order()) == 14


@pytest.mark.parametrize("key", spellings_of_small_order(), ids=bytes.hex)
def test_a_key_of_small_order_signs_nothing(key: bytes) -> None:
    # With such a key, signatures without a secret would fit a message.
    for commitment in spellings_of_small_order():
        assert not verify(key, b"anything", commitment + bytes(32))
    assert not verify(key, b"anything", forged(0, key, BASE.times(7).encoded(), 7, b"anything"))


@pytest.mark.parametrize("commitment", spellings_of_small_order(), ids=bytes.hex)
def test_a_commitment_of_small_order_is_refused(commitment: bytes) -> None:
    secret = secret_scalar(SEEDS["alice"])
    key = BASE.times(secret).encoded()
    assert not verify(key, b"deal", forged(secret, key, commitment, 0, b"deal"))


@pytest.mark.parametrize("small", SMALL_ORDER[1:], ids=lambda small: small.encoded().hex())
def test_what_a_lenient_check_would_take_is_refused(small: Point) -> None:
    """A verifier that multiplies by eight does not see `small`; others do, so the signer could deny it all."""
    secret = secret_scalar(SEEDS["alice"])
    key = BASE.times(secret).encoded()
    commitment = (BASE.times(7) + small).encoded()
    assert not verify(key, b"deal", forged(secret, key, commitment, 7, b"deal"))


@pytest.mark.parametrize("small", SMALL_ORDER[1:], ids=lambda small: small.encoded().hex())
def test_other_verifiers_agree_about_keys_of_mixed_order(small: Point) -> None:
    secret = secret_scalar(SEEDS["alice"])
    key = (BASE.times(secret) + small).encoded()
    other = Ed25519PublicKey.from_public_bytes(key)
    answers = set()
    for message in (b"%d" % number for number in range(64)):
        signature = forged(secret, key, BASE.times(7).encoded(), 7, message)
        try:
            other.verify(signature, message)
        except InvalidSignature:
            expected = False
        else:
            expected = True
        answers.add(expected)
        assert verify(key, message, signature) is expected
    assert answers == {True, False}  # one in eight, four or two passes


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_seed_has_32_bytes(length: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        sign(bytes(length), b"")


@given(st.binary(min_size=64, max_size=64))
def test_lenient_spellings_decode_to_the_same_signature(signature: bytes) -> None:
    text = encode_signature(signature)
    assert text == base64.b64encode(signature).decode()
    url_safe = base64.urlsafe_b64encode(signature).decode()
    wrapped = f" {text[:40]}\r\n\t{text[40:]} \n"
    for spelling in (text, url_safe, text.rstrip("="), url_safe.rstrip("="), wrapped):
        assert decode_signature(spelling) == signature


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "=" * 88,
        "A" * 84,
        "A" * 85 + "==",
        "A" * 87 + "=",
        "A" * 43 + "=" + "A" * 42 + "==",
        "A" * 85 + "*==",
        "A" * 85 + "\xe9==",
        "A" * 85 + "\ud83d==",
        "A" * 85 + "\0==",
        "A" * 1_000_000,
    ],
)
def test_what_is_not_64_bytes_is_no_signature(text: str) -> None:
    assert decode_signature(text) is None


@given(st.text(st.characters(exclude_categories=()), max_size=100))
def test_any_text_decodes_to_64_bytes_or_nothing(text: str) -> None:
    signature = decode_signature(text)
    assert signature is None or len(signature) == 64
