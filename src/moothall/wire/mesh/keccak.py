"""The one place that computes Keccak-256, so that the library behind it can change.

This is the original Keccak padding, as Ethereum has it (mesh wire 2.1). `hashlib.sha3_256` pads differently.
"""

from tiny_keccak import keccak256

__all__ = ["keccak256"]
