"""Proofs of the mesh's log: they hold offline, and for nothing but what was proven."""

import json
from binascii import a2b_base64, b2a_base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.identity.seals import key_id
from moothall.market.epoch_proof import proof_of, sealed_epoch, verify_proof
from moothall.wire.mesh import merkle
from moothall.wire.mesh.msg_types import MsgType
from tests.identity.vectors import ALICE, BOB, NOW_MS
from tests.support.envelopes import CONVERSATION, sent
from tests.support.seals import HALL, SEAL

EPOCH = NOW_MS // 86_400_000
HALLS = (key_id(HALL.public),)
LOG = [
    sent(ALICE, MsgType.PROPOSE, b"{}", to=BOB, conversation_id=CONVERSATION, nonce=nonce)[1]
    for nonce in range(1, 6)
]


def made(index: int = 2, *, size: int = len(LOG), is_closed: bool = True) -> dict[str, Any]:
    leaves = list(map(merkle.leaf, LOG[:size]))
    record = sealed_epoch(EPOCH, size, merkle.root(leaves), is_closed=is_closed, at=NOW_MS, seal=SEAL)
    return proof_of(LOG[index], index, merkle.prove(leaves, index), record)


def body(proof: dict[str, Any]) -> bytes:
    return json.dumps(proof).encode()


@given(st.integers(1, len(LOG)), st.data())
def test_every_envelope_of_a_log_is_proven(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    proof = verify_proof(body(made(index, size=size)), HALLS)
    assert proof.problems == []
    assert proof.hall == HALL.public
    assert proof.steps == ["PROPOSE"]
    assert ALICE.public.raw.hex() in proof.proven[0]


def test_it_says_what_rests_on_the_word_of_the_hall() -> None:
    assert len(verify_proof(body(made()), HALLS).hall_word) == 3
    still_open = verify_proof(body(made(is_closed=False)), HALLS)
    assert still_open.holds
    assert any("had not ended" in sentence for sentence in still_open.hall_word)


def test_an_unknown_hall_proves_only_what_the_sender_signed() -> None:
    proof = verify_proof(body(made()))
    assert not proof.holds
    assert proof.contradictions == []
    assert len(proof.proven) == 1


def forged(raw: bytes) -> str:
    """The same envelope with another nonce: its signature does not fit."""
    at = raw.index(CONVERSATION) - 2
    return b2a_base64(raw[:at] + bytes((raw[at] ^ 1,)) + raw[at + 1 :], newline=False).decode()


CHANGES: dict[str, Any] = {
    "envelope": forged(a2b_base64(made()["envelope"])),
    "hash": "0" * 64,
    "leaf": "0" * 64,
    "index": 3,
    "siblings": made()["siblings"][::-1],
    "type": "receipt",
}


@pytest.mark.parametrize("member", CHANGES)
def test_a_changed_proof_does_not_hold(member: str) -> None:
    proof = verify_proof(body({**made(), member: CHANGES[member]}), HALLS)
    assert proof.contradictions


@pytest.mark.parametrize(
    "change", [{"root": "0" * 64}, {"envelopes": 4}, {"epoch": EPOCH + 1}, {"closed": False}, {"at": 0}]
)
def test_the_record_of_an_epoch_is_what_the_hall_signed(change: dict[str, Any]) -> None:
    proof = made()
    assert not verify_proof(body({**proof, "epoch": {**proof["epoch"], **change}}), HALLS).holds


def test_padding_is_no_envelope() -> None:
    """An index that the epoch does not have is refused, whatever its siblings are."""
    proof = {**made(), "index": 5}
    assert any("`index`" in problem for problem in verify_proof(body(proof), HALLS).contradictions)


@pytest.mark.parametrize(
    "text", [b"", b"null", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"type": "mesh_proof"}']
)
def test_what_is_no_proof_does_not_hold(text: bytes) -> None:
    assert not verify_proof(text, HALLS).holds


@given(
    st.dictionaries(
        st.sampled_from(sorted(made())), st.recursive(st.none() | st.integers() | st.text(), st.lists)
    )
)
def test_nothing_in_a_proof_raises(members: dict[str, Any]) -> None:
    changed = {**made(), **members}
    assert verify_proof(body(changed), HALLS).holds == (changed == made())
