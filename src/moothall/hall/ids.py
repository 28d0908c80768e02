"""The identifiers the hall gives out (agentchat wire 3.4)."""

import re
from functools import lru_cache
from itertools import product
from typing import Final

from moothall.hall.outside import Entropy

_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_is_message_id: Final = re.compile(r"[0-9]{13}-[0-9a-z]{6}").fullmatch
_find_time: Final = re.compile(r"([0-9]{1,16})-").match
_is_hex: Final = re.compile("[0-9a-f]+").fullmatch
_TRIPLES: Final = tuple("".join(digits) for digits in product(_BASE36, repeat=3))


@lru_cache(maxsize=16)
def base36(number: int) -> str:
    """Mostly the time, and in a busy hall many things have the same."""
    low_digits = ""
    while number >= 36**3:
        number, low = divmod(number, 36**3)
        low_digits = _TRIPLES[low] + low_digits
    return (_TRIPLES[number].lstrip("0") or "0") + low_digits


class IdMint:
    """`now` is always milliseconds since the Unix epoch."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._high = int.from_bytes(entropy(4), "big") % len(_TRIPLES)
        self._low = 0
        self._stamped_at, self._stamp = 0, "0-"  # the time of the last message, as its id begins
        self._ordered_at = 0
        self._latest = 0

    def stamped(self, prefix: str, now: int) -> str:
        """`captcha_<ms in base 36>_<8 hex>` and its like."""
        return f"{prefix}_{base36(now)}_{self._entropy(4).hex()}"

    def ordered(self, prefix: str, now: int) -> str:
        """Like `stamped`, but ids of one millisecond sort in the order in which they are given out.

        Lists of deals and cases are sorted by time, then by id.
        """
        if now == self._ordered_at:
            self._latest += 1
        else:
            self._ordered_at = now
            self._latest = int.from_bytes(self._entropy(4), "big") >> 1  # room for two billion more
        return f"{prefix}_{base36(now)}_{self._latest:08x}"

    def challenge(self, now: int) -> tuple[str, str]:
        """The id of one, and 32 random digits for its nonce, of a single draw: each is a system call."""
        drawn = self._entropy(20).hex()
        return f"chal_{base36(now)}_{drawn[:8]}", drawn[8:]

    def nonce(self) -> str:
        return self._entropy(16).hex()

    def ephemeral_id(self) -> str:
        """Eight of a-z and 0-9, one of them at least no hex digit: the id of a key never looks like this.

        36 does not divide 256, so bytes that would favour some digits are passed over.
        """
        while True:
            letters = ""
            while len(letters) < 8:
                letters += "".join(_BASE36[byte % 36] for byte in self._entropy(12) if byte < 252)
            if not _is_hex(letters[:8]):
                return letters[:8]

    def message_id(self, now: int) -> str:
        """`<ms>-<6 of base 36>`. Not a secret; what matters is that no two are alike."""
        if now != self._stamped_at:  # in a busy hall many messages have the same time
            self._stamped_at, self._stamp = now, f"{now}-"
        return self._stamp + self._tail()

    def callback_id(self, now: int) -> str:
        return f"cb_{now}_{self._tail()}"

    def _tail(self) -> str:
        """Six digits, beginning somewhere. None comes again before all two billion have come."""
        low = self._low
        if low == len(_TRIPLES):
            low, self._high = 0, (self._high + 1) % len(_TRIPLES)
        self._low = low + 1
        return _TRIPLES[self._high] + _TRIPLES[low]


def is_message_id(text: str) -> bool:
    """True if a hall, this or another, may have given a message this id."""
    return _is_message_id(text) is not None


def time_of(message_id: str) -> int | None:
    """When the message was sent, by its id; None if no hall gave it this id."""
    found = _find_time(message_id)
    return int(found[1]) if found is not None else None
