"""Peer ids: the vectors, and what is none."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.peer_ids import agent_id_of, base58, message_id, peer_id, peer_id_bytes
from tests.support.mesh import VECTORS

A = VECTORS["keys"]["A"]


@pytest.mark.parametrize("key", VECTORS["keys"].values(), ids=VECTORS["keys"])
def test_peer_ids_are_those_of_the_vectors(key: dict[str, Any]) -> None:
    agent = bytes.fromhex(key["agent_id"])
    assert peer_id(agent) == key["libp2p_peer_id"]
    assert peer_id_bytes(agent).hex() == key["peer_id_bytes_hex"]
    assert agent_id_of(key["libp2p_peer_id"]) == agent_id_of(peer_id_bytes(agent)) == agent


def test_the_message_id_is_that_of_the_vectors() -> None:
    vector = VECTORS["gossipsub"]
    author = peer_id_bytes(agent_id_of(vector["from_peer"]))
    assert message_id(author, int(vector["seqno"])).decode() == vector["message_id_utf8"]
    seqno = int.from_bytes(bytes.fromhex(vector["seqno_wire_hex"]), "big")
    assert message_id(author, seqno).decode() == vector["message_id_utf8"]


@given(st.binary(min_size=32, max_size=32) | st.sampled_from((bytes(32), b"\xff" * 32)))
def test_every_agent_has_one(agent: bytes) -> None:
    text = peer_id(agent)
    assert text.startswith("12D3KooW")
    assert agent_id_of(text) == agent_id_of(peer_id_bytes(agent)) == agent


@given(st.text(max_size=60) | st.text("12D3KoWabz", min_size=52, max_size=52) | st.binary(max_size=60))
def test_others_are_refused(peer: str | bytes) -> None:
    with pytest.raises(ValueError, match="not the peer id"):
        agent_id_of(peer)


@pytest.mark.parametrize(
    "peer",
    ["1" + "z" * 51, "2" + A["libp2p_peer_id"][1:], A["libp2p_peer_id"] + "1", "1" + A["libp2p_peer_id"]],
)
def test_near_misses_are_refused(peer: str) -> None:
    with pytest.raises(ValueError, match="not the peer id"):
        agent_id_of(peer)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_an_agent_id_has_32_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        peer_id(bytes(size))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"\0", "1"),
        (b"\0\0\1", "112"),
        (b"hello world", "StV1DL6CwTryKyV"),
        (bytes.fromhex("73696d706c792061206c6f6e6720737472696e67"), "2cFupjhnEsSn59qHXstmK2ffpLv2"),
    ],
)
def test_base58(data: bytes, text: str) -> None:
    assert base58(data) == text
