"""A small memory of many ids that may say yes too often, and never says no wrongly (a Bloom filter).

Most ids that a hall has never seen are recognised as new without asking the store.
"""

from typing import Final

_BITS_PER_ID: Final = (
    16  # with three probes, fewer than one new id in a hundred looks known when all are there
)
_FACTOR: Final = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: spreads what is close
_WORD: Final = 2**64 - 1


class IdFilter:
    def __init__(self, capacity: int) -> None:
        self._width = max(10, (capacity * _BITS_PER_ID - 1).bit_length())
        self._bits = bytearray(1 << self._width >> 3)

    def add(self, agent_id: str) -> None:
        bits = self._bits
        for place in self._places(agent_id):
            bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, agent_id: str) -> bool:
        bits = self._bits
        return all(bits[place >> 3] >> (place & 7) & 1 for place in self._places(agent_id))

    def _places(self, agent_id: str) -> tuple[int, int, int]:
        first = int(agent_id, 16) * _FACTOR & _WORD
        second = (first ^ first >> 29) * _FACTOR & _WORD
        third = (second ^ second >> 31) * _FACTOR & _WORD
        shift = 64 - self._width
        return first >> shift, second >> shift, third >> shift
