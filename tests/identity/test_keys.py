import copy
import json
import pickle
import subprocess
import sys
import traceback
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa, x25519
from hypothesis import example, given
from hypothesis import strategies as st

from moothall.errors import InvalidKey
from moothall.identity import PrivateKey, PublicKey
from moothall.identity.keys import MAX_PEM_LENGTH, expanded
from moothall.identity.signatures import expand
from tests.identity.vectors import ALICE, BOB, SEEDS, VECTORS

PEM = ALICE.public.pem
DIGITS = PEM.splitlines()[1]

seeds = st.binary(min_size=32, max_size=32)
any_text = st.text(st.characters(exclude_categories=()), max_size=300)


def pem(der: bytes, label: str = "PUBLIC KEY") -> str:
    return f"-----BEGIN {label}-----\n{b64encode(der).decode()}\n-----END {label}-----\n"


def spki(key: Any) -> str:
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return str(public.decode())


def pkcs8(key: Any) -> str:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return str(private.decode())


def refusal(text: str) -> str:
    with pytest.raises(InvalidKey) as caught:
        PublicKey.from_pem(text)
    return str(caught.value)


# ids


@pytest.mark.parametrize("vector", VECTORS["keys"], ids=lambda vector: vector["name"])
def test_key_vectors(vector: dict[str, str]) -> None:
    key = PrivateKey(bytes.fromhex(vector["ed25519_seed_hex"])).public
    assert key.raw.hex() == vector["public_raw_hex"]
    assert key.pem == vector["public_spki_pem"]
    assert key.fingerprint == vector["fingerprint"]
    assert key.agent_id() == vector["agent_id_8"]
    assert key.agent_id(16) == vector["agent_id_16"]
    assert PublicKey.from_pem(vector["public_spki_pem"]) == key


@pytest.mark.parametrize(
    "variant", VECTORS["pem_text_variants"]["variants"], ids=lambda variant: variant["label"]
)
def test_every_spelling_of_one_key_has_one_id(variant: dict[str, str]) -> None:
    key = PublicKey.from_pem(variant["pem"])
    assert key == ALICE.public
    assert key.pem == PEM
    assert key.fingerprint == ALICE.public.fingerprint


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"my key:\n{PEM}thanks\n", id="text around"),
        pytest.param(f"\n\n  {PEM}", id="white space before"),
        pytest.param(PEM.replace("\n", "\n    "), id="indented"),
        pytest.param(PEM.replace(DIGITS, DIGITS[:30] + "\n" + DIGITS[30:]), id="wrapped"),
        pytest.param(PEM.replace("3Ds=", "3Dt="), id="spare bits set in the last digit"),
        pytest.param(PEM + BOB.public.pem, id="two keys: the first counts, as in the reference"),
    ],
)
def test_tolerated_spellings(text: str) -> None:
    assert PublicKey.from_pem(text).pem == PEM


@given(seeds)
def test_keys_are_those_of_another_library(seed: bytes) -> None:
    other = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
    ours = PrivateKey(seed)
    assert ours.public.pem == spki(other)
    assert ours.to_pem() == pkcs8(other)
    assert PublicKey.from_pem(spki(other)) == ours.public
    assert PrivateKey.from_pem(pkcs8(other)) == ours


@given(st.binary(min_size=32, max_size=32))
def test_a_public_key_reads_back_and_is_named_after_its_text(raw: bytes) -> None:
    key = PublicKey(raw)
    assert PublicKey.from_pem(key.pem).raw == raw
    assert key.fingerprint == sha256(key.pem.encode()).hexdigest()[:16]


@pytest.mark.parametrize("length", [0, 7, 17, -1])
def test_an_id_has_8_to_16_digits(length: int) -> None:
    with pytest.raises(ValueError, match="8 to 16"):
        ALICE.public.agent_id(length)


# the key as a value


def test_equal_keys_are_one_member_of_a_set() -> None:
    assert {ALICE.public, PublicKey(ALICE.public.raw), BOB.public} == {ALICE.public, BOB.public}
    assert ALICE.public != ALICE.public.raw


def test_a_public_key_can_be_copied_and_pickled() -> None:
    key = ALICE.public
    for twin in (copy.copy(key), copy.deepcopy(key), pickle.loads(pickle.dumps(key))):  # noqa: S301
        assert twin == key
        assert twin.fingerprint == key.fingerprint


@pytest.mark.parametrize("key", [ALICE.public, ALICE], ids=["public", "private"])
def test_a_key_does_not_change(key: PublicKey | PrivateKey) -> None:
    for attempt in ("raw", "pem", "fingerprint", "public", "_secret", "colour"):
        with pytest.raises(AttributeError):
            setattr(key, attempt, b"")
        with pytest.raises(AttributeError):
            delattr(key, attempt)
    assert ALICE.public.pem == PEM


def test_a_public_key_checks_signatures_of_text() -> None:
    signature = ALICE.sign("caf\xe9 \ud83d")
    assert ALICE.public.verifies("caf\xe9 \ufffd", signature)
    assert not BOB.public.verifies("caf\xe9 \ufffd", signature)
    assert not ALICE.public.verifies("cafe", signature)
    assert not ALICE.public.verifies("caf\xe9 \ufffd", "no signature")


# what is not a key


@pytest.mark.parametrize("text", [ALICE.to_pem(), PEM + ALICE.to_pem(), f"oops {ALICE.to_pem()}"])
def test_a_private_key_sent_by_mistake_is_refused_and_not_repeated(text: str) -> None:
    message = refusal(text)
    assert "private key" in message
    assert "secret" in message
    assert_secret(message, SEEDS["alice"])


@pytest.mark.parametrize("label", ["RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_every_kind_of_private_key_is_recognised(label: str) -> None:
    assert "private key" in refusal(pem(b"der", label))


def test_other_kinds_of_key_are_refused() -> None:
    assert "Ed25519" in refusal(spki(rsa.generate_private_key(65537, 2048)))
    assert "Ed25519" in refusal(spki(x25519.X25519PrivateKey.from_private_bytes(bytes(32))))


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param(PEM.replace("PUBLIC KEY", "CERTIFICATE"), id="certificate"),
        pytest.param(PEM.replace("BEGIN", "BEGAN"), id="no begin"),
        pytest.param(PEM.replace("-----END", "-----FIN"), id="no end"),
        pytest.param(PEM.replace("\n", "\0", 1), id="NUL inside"),
        pytest.param(PEM + "\0", id="NUL after"),
        pytest.param(PEM + "caf\xe9", id="not ASCII"),
        pytest.param(PEM + "\ud83d", id="lone surrogate"),
        pytest.param(PEM.replace("3Ds=", "3Ds"), id="padding missing"),
        pytest.param(PEM.replace("3Ds=", "3D=="), id="31 bytes"),
        pytest.param(PEM.replace("3Ds=", "3Dss"), id="33 bytes"),
        pytest.param(PEM.replace("MCow", "MCox"), id="other DER"),
        pytest.param(PEM.replace("YMCM", "YM*M"), id="not base64"),
        pytest.param(PEM + " " * MAX_PEM_LENGTH, id="huge"),
        pytest.param("-----BEGIN PUBLIC KEY-----" * 300, id="many begins"),
        pytest.param(pem(ALICE.public.raw), id="raw key without DER"),
        pytest.param(DIGITS, id="digits only"),
    ],
)
def test_garbage_is_refused(text: str) -> None:
    assert refusal(text)


@given(any_text, any_text, st.binary(max_size=60))
@example("", "", b"")
def test_any_text_is_a_key_or_refused(before: str, after: str, der: bytes) -> None:
    for text in (before, before + PEM[:40] + after + PEM[-26:], before + pem(der) + after):
        try:
            assert PublicKey.from_pem(text).raw in der
        except InvalidKey:
            continue


@given(st.integers(0, len(PEM) - 1), st.characters(exclude_categories=()))
def test_one_changed_character_gives_the_same_key_another_key_or_none(at: int, character: str) -> None:
    try:
        key = PublicKey.from_pem(PEM[:at] + character + PEM[at + 1 :])
    except InvalidKey:
        return
    assert PublicKey.from_pem(key.pem) == key


@pytest.mark.parametrize("length", [0, 31, 33])
def test_keys_have_32_bytes(length: int) -> None:
    with pytest.raises(InvalidKey, match="32 bytes"):
        PublicKey(bytes(length))
    with pytest.raises(InvalidKey, match="32 bytes"):
        PrivateKey(bytes(length))


@pytest.mark.parametrize(
    "text",
    [
        "",
        PEM,
        pem(b"\x30\x00", "PRIVATE KEY"),
        pem(b"secret", "ENCRYPTED PRIVATE KEY"),
        ALICE.to_pem().replace("MC4C", "MC*C"),
        ALICE.to_pem() + "\0",
        ALICE.to_pem() + "\xe9",
        pkcs8(x25519.X25519PrivateKey.from_private_bytes(bytes(32))),
    ],
)
def test_what_is_not_an_ed25519_private_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidKey) as caught:
        PrivateKey.from_pem(text)
    assert_secret(str(caught.value), SEEDS["alice"])


# secrecy


def assert_secret(shown: str, seed: bytes) -> None:
    body = PrivateKey(seed).to_pem().splitlines()[1]
    for spelling in (
        seed.hex(),
        b64encode(seed).decode().rstrip("="),
        body,
        repr(seed)[2:-1],
        str(list(seed)),
    ):
        assert spelling.lower() not in shown.lower()


def test_a_private_key_shows_its_fingerprint_only() -> None:
    for shown in (repr(ALICE), str(ALICE), f"{ALICE}", f"{ALICE!r}", f"{[ALICE]}", "%s" % ALICE):  # noqa: UP031
        assert ALICE.public.fingerprint in shown
        assert_secret(shown, SEEDS["alice"])


def test_a_private_key_has_no_dictionary_to_dump() -> None:
    with pytest.raises(TypeError):
        vars(ALICE)
    with pytest.raises(TypeError):
        json.dumps(ALICE)
    assert_secret(repr(ALICE.public), SEEDS["alice"])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_private_key_is_not_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="key file"):
        pickle.dumps([ALICE], protocol=protocol)


def test_copying_a_private_key_makes_no_second_one() -> None:
    assert copy.copy(ALICE) is ALICE
    assert copy.deepcopy([ALICE])[0] is ALICE


def test_a_traceback_does_not_show_the_key() -> None:
    # Even when one that prints local variables meets a key in use.
    key = PrivateKey(SEEDS["alice"])
    try:
        key.sign(None)  # type: ignore[arg-type]
    except (AttributeError, TypeError) as error:  # TypeError: of the compiled build
        shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
    assert "PrivateKey(" in shown
    assert_secret(shown, SEEDS["alice"])


def test_private_keys_compare_by_what_they_sign_for() -> None:
    assert PrivateKey(SEEDS["alice"]) == ALICE
    assert {ALICE, PrivateKey(SEEDS["alice"])} == {ALICE}
    assert ALICE != BOB
    assert ALICE.public != ALICE


def test_importing_the_package_does_not_load_cryptography() -> None:
    # It would cost every agent's start a tenth of a second.
    program = "import sys, moothall.identity; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@given(seeds)
def test_a_host_of_the_mesh_gets_the_expanded_secret(seed: bytes) -> None:
    assert expanded(PrivateKey(seed)) == expand(seed)
