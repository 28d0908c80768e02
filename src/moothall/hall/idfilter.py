"""A small memory of many ids that may say yes too often, and never says no wrongly (a Bloom filter).

Most ids that a hall has never seen are recognised as new without asking the store.
"""

from typing import Final

# With three probes, fewer than one new id in a hundred looks known when all are there
_BITS_PER_ID: Final = 16
_FACTOR: Final = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: spreads what is close
_WORD: Final = 2**64 - 1


class IdFilter:
    def __init__(self, capacity: int) -> None:
        width = min(32, max(10, (capacity * _BITS_PER_ID - 1).bit_length()))
        self._mask = (1 << width) - 1
        self._shift = 64 - width
        self._bits = bytearray(1 << width >> 3)

    def add(self, agent_id: str) -> bool:
        """True if it was not there: then it is new for certain."""
        bits, is_new = self._bits, False
        for place in self._places(agent_id):
            byte, bit = place >> 3, 1 << (place & 7)
            if not bits[byte] & bit:
                bits[byte] |= bit
                is_new = True
        return is_new

    def __contains__(self, agent_id: str) -> bool:
        bits = self._bits
        return all(bits[place >> 3] >> (place & 7) & 1 for place in self._places(agent_id))

    def _places(self, agent_id: str) -> tuple[int, int, int]:
        """Three parts of one product: an id is a piece of a hash, so there is little to spread."""
        product = int(agent_id, 16) * _FACTOR & _WORD
        mask = self._mask
        return product & mask, product >> 20 & mask, product >> self._shift
