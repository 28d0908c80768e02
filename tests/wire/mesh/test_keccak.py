"""Keccak-256: the vectors, and a second implementation that is as slow as it is short."""

from hashlib import sha3_256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.keccak import keccak256
from tests.support.mesh import VECTORS

RATE = 136  # bytes of a block
LANES = [(x, y) for x in range(5) for y in range(5)]
MASK = (1 << 64) - 1


def turn(lane: int, by: int) -> int:
    return (lane << by | lane >> (64 - by)) & MASK if by else lane


def permute(state: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    register = 1
    for _ in range(24):
        columns = [state[x, 0] ^ state[x, 1] ^ state[x, 2] ^ state[x, 3] ^ state[x, 4] for x in range(5)]
        for x, y in LANES:
            state[x, y] ^= columns[x - 1] ^ turn(columns[(x + 1) % 5], 1)
        x, y, lane = 1, 0, state[1, 0]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            lane, state[x, y] = state[x, y], turn(lane, (step + 1) * (step + 2) // 2 % 64)
        rows = dict(state)
        for x, y in LANES:
            state[x, y] = rows[x, y] ^ (~rows[(x + 1) % 5, y] & rows[(x + 2) % 5, y])
        for j in range(7):
            register = (register << 1 ^ (register >> 7) * 0x171) & 0xFF
            if register & 2:
                state[0, 0] ^= 1 << (1 << j) - 1
    return state


def slowly(data: bytes, suffix: int) -> bytes:
    padded = bytearray(data + bytes((suffix,)) + bytes(-(len(data) + 1) % RATE))
    padded[-1] |= 0x80
    state = dict.fromkeys(LANES, 0)
    for block in range(0, len(padded), RATE):
        for lane in range(RATE // 8):
            start = block + lane * 8
            state[lane % 5, lane // 5] ^= int.from_bytes(padded[start : start + 8], "little")
        permute(state)
    return b"".join(state[lane, 0].to_bytes(8, "little") for lane in range(4))


@pytest.mark.parametrize("vector", VECTORS["keccak"], ids=lambda vector: vector["input_hex"] or "empty")
def test_digests_are_those_of_the_vectors(vector: dict[str, str]) -> None:
    assert keccak256(bytes.fromhex(vector["input_hex"])).hex() == vector["digest"]


@pytest.mark.parametrize("size", [0, 1, 135, 136, 137, 271, 272, 273, 1000])
def test_padding_is_keccaks_and_not_that_of_sha3(size: int) -> None:
    data = bytes(range(256)) * 4
    assert keccak256(data[:size]) == slowly(data[:size], suffix=0x01)
    assert sha3_256(data[:size]).digest() == slowly(data[:size], suffix=0x06)


@given(st.binary(max_size=300))
def test_two_implementations_agree(data: bytes) -> None:
    assert keccak256(data) == slowly(data, suffix=0x01)
