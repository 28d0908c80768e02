"""Public keys in the form of libp2p."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p.faults import MalformedMessage
from moothall.p2p.keys import decode_key, encode_key
from moothall.wire.mesh.peer_ids import peer_id_bytes

AGENT = bytes(range(32))


def test_the_form_is_the_one_in_a_peer_id() -> None:
    assert encode_key(AGENT).hex() == "08011220" + AGENT.hex()
    assert b"\x00\x24" + encode_key(AGENT) == peer_id_bytes(AGENT)
    assert decode_key(encode_key(AGENT)) == AGENT


@pytest.mark.parametrize(
    "form",
    [
        "",
        "0801",
        "08001220" + "00" * 32,
        "08021221" + "00" * 33,
        "0801121f" + "00" * 31,
        "12220801" + "00" * 32,
    ],
)
def test_other_keys_are_refused(form: str) -> None:
    with pytest.raises(MalformedMessage):
        decode_key(bytes.fromhex(form))


@given(st.binary(max_size=60))
def test_random_bytes_are_refused_or_a_key(data: bytes) -> None:
    with suppress(MalformedMessage):
        assert len(decode_key(data)) == 32
