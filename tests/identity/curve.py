"""The curve of Ed25519 in plain integers, for keys and signatures that no honest signer makes.

Slow, and not safe against timing: only for tests.
"""

from dataclasses import dataclass
from hashlib import sha512
from typing import Final

PRIME: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_D: Final = -121665 * pow(121666, -1, PRIME) % PRIME
_ROOT: Final = pow(2, (PRIME - 1) // 4, PRIME)  # of -1


@dataclass(frozen=True)
class Point:
    x: int
    y: int

    def __add__(self, other: "Point") -> "Point":
        product = _D * self.x * other.x * self.y * other.y
        return Point(
            (self.x * other.y + self.y * other.x) * pow(1 + product, -1, PRIME) % PRIME,
            (self.y * other.y + self.x * other.x) * pow(1 - product, -1, PRIME) % PRIME,
        )

    def times(self, factor: int) -> "Point":
        result, power = NEUTRAL, self
        while factor:
            if factor & 1:
                result += power
            power, factor = power + power, factor >> 1
        return result

    def encoded(self) -> bytes:
        return (self.y | (self.x & 1) << 255).to_bytes(32, "little")


NEUTRAL: Final = Point(0, 1)


def point(y: int, odd: int) -> Point | None:
    """The point with this y and parity of x, or None if the curve has no such point."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * _ROOT % PRIME
    if x * x % PRIME != square:
        return None
    return Point(PRIME - x if x & 1 != odd and x else x, y)


def _base() -> Point:
    found = point(4 * pow(5, -1, PRIME) % PRIME, 0)
    assert found is not None
    return found


def _small_order() -> list[Point]:
    """The eight points whose eightfold is the neutral one."""
    for y in range(2, 100):
        found = point(y, 0)
        if found is not None and found.times(4 * ORDER) != NEUTRAL:  # it has a part of order eight
            return [found.times(ORDER * number) for number in range(8)]
    raise AssertionError("a quarter of all points would do")


BASE: Final = _base()
SMALL_ORDER: Final = _small_order()


def spellings_of_small_order() -> list[bytes]:
    """All that lenient decoders read as a point of small order: also a y not reduced, and a sign for x = 0."""
    return sorted(
        {
            (y | odd << 255).to_bytes(32, "little")
            for small in SMALL_ORDER
            for y in (small.y, small.y + PRIME)
            for odd in ((0, 1) if small.x == 0 else (small.x & 1,))
            if y < 2**255
        }
    )


def secret_scalar(seed: bytes) -> int:
    clamped = int.from_bytes(sha512(seed).digest()[:32], "little") & ((1 << 254) - 8)
    return clamped | 1 << 254


def forged(secret: int, key: bytes, commitment: bytes, nonce: int, message: bytes) -> bytes:
    """The signature with a commitment and a key that the signer chose freely, and `nonce` for its scalar part."""
    challenge = int.from_bytes(sha512(commitment + key + message).digest(), "little")
    return commitment + ((nonce + challenge * secret) % ORDER).to_bytes(32, "little")
