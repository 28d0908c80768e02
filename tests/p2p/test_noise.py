"""Noise XX, against the published vector."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.faults import HandshakeFailed
from moothall.p2p.noise import Cipher, KeyPair, NoiseXX

VECTOR = json.loads((Path(__file__).parent.parent / "vectors" / "noise_xx.json").read_text())
MESSAGES = [
    (bytes.fromhex(each["payload"]), bytes.fromhex(each["ciphertext"])) for each in VECTOR["messages"]
]


def side(role: str, *, prologue: bytes | None = None) -> NoiseXX:
    return NoiseXX(
        initiator=role == "init",
        static=KeyPair(bytes.fromhex(VECTOR[f"{role}_static"])),
        ephemeral=KeyPair(bytes.fromhex(VECTOR[f"{role}_ephemeral"])),
        prologue=bytes.fromhex(VECTOR[f"{role}_prologue"]) if prologue is None else prologue,
    )


def ciphers(noise: NoiseXX) -> tuple[Cipher, Cipher]:
    assert noise.ciphers is not None
    return noise.ciphers


def test_the_published_vector() -> None:
    initiator, responder = side("init"), side("resp")
    turns = [(initiator, responder), (responder, initiator), (initiator, responder)]
    for (writer, reader), (payload, ciphertext) in zip(turns, MESSAGES, strict=False):
        assert writer.write(payload) == ciphertext
        assert reader.read(ciphertext) == payload
    assert initiator.remote_static == responder._static.public
    assert responder.remote_static == initiator._static.public
    (sending, receiving), (answering, hearing) = ciphers(initiator), ciphers(responder)
    for index, (payload, ciphertext) in enumerate(MESSAGES[3:]):
        writes, reads = (sending, hearing) if index % 2 else (answering, receiving)
        assert writes.encrypt(payload) == ciphertext
        assert reads.decrypt(ciphertext) == payload


@given(st.integers(0, 2), st.data())
def test_a_changed_message_ends_the_handshake(which: int, data: st.DataObject) -> None:
    """The first message is not encrypted; the second shows that it was changed."""
    initiator, responder = side("init"), side("resp")
    failed = False
    for index, (writer, reader) in enumerate(
        [(initiator, responder), (responder, initiator), (initiator, responder)]
    ):
        message = bytearray(writer.write(b"payload"))
        if index == which:
            message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.sampled_from([1, 2, 64]))
        try:
            reader.read(bytes(message))
        except HandshakeFailed:
            failed = True
            break
    assert failed
    assert responder.ciphers is None


@given(st.binary(max_size=200), st.integers(0, 1))
def test_random_messages_end_the_handshake(message: bytes, which: int) -> None:
    reader = side("resp") if which == 0 else side("init")
    if which:
        reader.write(b"")
        with pytest.raises(HandshakeFailed):
            reader.read(message)
    elif len(message) < 32:
        with pytest.raises(HandshakeFailed, match="cut off"):
            reader.read(message)


def test_both_sides_need_the_same_prologue() -> None:
    initiator, responder = side("init"), side("resp", prologue=b"another")
    responder.read(initiator.write(b""))
    with pytest.raises(HandshakeFailed):
        initiator.read(responder.write(b""))


@pytest.mark.parametrize("key", [bytes(32), b"\x01" + bytes(31)])
def test_keys_of_small_order_are_refused(key: bytes) -> None:
    responder = side("resp")
    responder.read(key)
    with pytest.raises(HandshakeFailed, match="small order"):
        responder.write(b"")


def test_a_cipher_takes_messages_in_order_and_once() -> None:
    sending, receiving = Cipher(bytes(32)), Cipher(bytes(32))
    first, second = sending.encrypt(b"one"), sending.encrypt(b"two")
    assert receiving.decrypt(second) is None
    assert receiving.decrypt(first) == b"one"
    assert receiving.decrypt(first) is None
    assert receiving.decrypt(second) == b"two"
    assert receiving.decrypt(b"short") is None
