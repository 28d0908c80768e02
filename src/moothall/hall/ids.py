"""The identifiers the hall gives out (agentchat wire 3.4)."""

from itertools import product
from typing import Final

from moothall.hall.outside import Entropy

_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TRIPLES: Final = tuple("".join(digits) for digits in product(_BASE36, repeat=3))
_TAILS: Final = len(_TRIPLES) ** 2  # six digits in base 36
_STRIDE: Final = 1_500_450_271  # prime to 36**6: the tails walk through all values before one repeats


def base36(number: int) -> str:
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _BASE36[digit] + digits
        if not number:
            return digits


class IdMint:
    """`now` is always milliseconds since the Unix epoch."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._tail = int.from_bytes(entropy(8), "big") % _TAILS

    def stamped(self, prefix: str, now: int) -> str:
        """`chal_<ms in base 36>_<8 hex>` and its like."""
        return f"{prefix}_{base36(now)}_{self._entropy(4).hex()}"

    def nonce(self) -> str:
        return self._entropy(16).hex()

    def ephemeral_id(self) -> str:
        """Eight of a-z and 0-9; 36 does not divide 256, so bytes that would favour some are passed over."""
        letters = ""
        while len(letters) < 8:
            letters += "".join(_BASE36[byte % 36] for byte in self._entropy(12) if byte < 252)
        return letters[:8]

    def message_id(self, now: int) -> str:
        """`<ms>-<6 of base 36>`. Not a secret, so a walk over all tails is enough, and cannot collide."""
        return f"{now}-{self.tail()}"

    def callback_id(self, now: int) -> str:
        return f"cb_{now}_{self.tail()}"

    def tail(self) -> str:
        self._tail = (self._tail + _STRIDE) % _TAILS
        high, low = divmod(self._tail, len(_TRIPLES))
        return _TRIPLES[high] + _TRIPLES[low]
