"""Unmasking what WebSocket clients send (RFC 6455, 5.3).

The fast way is a C function of the `websockets` package, which is not a part of its documented interface: this
module alone knows it. A version without it, or a platform without the compiled wheel, gets the slower one below.
"""

try:
    from websockets.speedups import apply_mask
except ImportError:

    def apply_mask(data: bytes | bytearray | memoryview, mask: bytes | bytearray) -> bytes:
        """`data` with the four bytes of `mask` laid over it, again and again."""
        size = len(data)
        pattern = mask * (size // 4) + mask[: size % 4]
        return (int.from_bytes(data) ^ int.from_bytes(pattern)).to_bytes(size)


__all__ = ["apply_mask"]
