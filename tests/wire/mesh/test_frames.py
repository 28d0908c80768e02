"""Frames: the vectors, and logs that a crash cut off."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.envelope import MAX_ENVELOPE
from moothall.wire.mesh.frames import ACK, HEADER, frame, frames
from tests.support.mesh import VECTORS

BILATERAL = [vector for vector in VECTORS["envelopes"] if vector["route"] == "bilateral"]


@pytest.mark.parametrize("vector", BILATERAL, ids=lambda vector: vector["name"])
def test_requests_are_framed_as_the_vectors_say(vector: dict[str, Any]) -> None:
    request = bytes.fromhex(vector["bilateral_request_frame_hex"])
    assert frame(bytes.fromhex(vector["envelope_cbor_hex"])) == request
    assert [envelope.hex() for envelope in frames(request)] == [vector["envelope_cbor_hex"]]


def test_the_answer_is_that_of_the_vectors() -> None:
    assert VECTORS["bilateral_ack_frame_hex"] == ACK.hex()


def test_a_log_is_that_of_the_vectors() -> None:
    log = bytes.fromhex(VECTORS["epoch_log"]["first_two_entries_hex"])
    entries = [bytes.fromhex(vector["envelope_cbor_hex"]) for vector in VECTORS["envelopes"][:2]]
    assert list(frames(log)) == entries
    assert b"".join(map(frame, entries)) == log


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.data())
def test_a_log_that_was_cut_off_has_the_envelopes_before_the_cut(
    envelopes: list[bytes], data: st.DataObject
) -> None:
    log = b"".join(map(frame, envelopes))
    cut = data.draw(st.integers(0, len(log)))
    found = list(frames(log[:cut]))
    assert found == envelopes[: len(found)]
    rest = cut - sum(HEADER + len(envelope) for envelope in found)
    assert found == envelopes or rest < HEADER + len(envelopes[len(found)])


@pytest.mark.parametrize("size", [0, MAX_ENVELOPE + 1])
def test_no_envelope_has_this_length(size: int) -> None:
    with pytest.raises(ValueError, match="65,536"):
        frame(bytes(size))
    assert list(frames(frame(b"a") + size.to_bytes(HEADER, "little") + bytes(size))) == [b"a"]


def test_the_largest_envelope_has_a_frame() -> None:
    assert list(frames(frame(bytes(MAX_ENVELOPE)))) == [bytes(MAX_ENVELOPE)]
