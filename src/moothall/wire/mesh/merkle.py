"""The Merkle tree over the envelopes of an epoch (mesh wire 12).

A leaf is the hash of a zero byte and an envelope, a node that of a one byte and its two children: so no
envelope can pass for a node. Leaves are filled up on the right with 32 zero bytes to a power of two. A tree
keeps one hash per level, so that a log of any length has its root at any time; a proof needs the leaves.
"""

from collections.abc import Sequence
from typing import Final

from moothall.wire.mesh.keccak import keccak256

_PADDING: Final = bytes(32)


def leaf(envelope: bytes) -> bytes:
    return keccak256(b"\x00" + envelope)


def _node(left: bytes, right: bytes) -> bytes:
    return keccak256(b"\x01" + left + right)


class Tree:
    """Leaves are added one by one; the root is worked out when it is asked for."""

    __slots__ = ("_complete", "_leaves")

    def __init__(self) -> None:
        self._leaves = 0
        self._complete: list[
            bytes
        ] = []  # by level, the last subtree that is complete; used if its bit is set

    @property
    def size(self) -> int:
        """The number of leaves."""
        return self._leaves

    def add(self, leaf: bytes) -> None:
        level = 0
        while self._leaves >> level & 1:
            leaf = _node(self._complete[level], leaf)
            level += 1
        self._complete[level : level + 1] = [leaf]
        self._leaves += 1

    def root(self) -> bytes:
        if not self._leaves:
            return _PADDING
        padding = _PADDING
        edge: bytes | None = None  # the subtree at the right end, which is not complete
        depth = (self._leaves - 1).bit_length()
        for level in range(depth):
            if self._leaves >> level & 1:
                edge = _node(self._complete[level], padding if edge is None else edge)
            elif edge is not None:
                edge = _node(edge, padding)
            padding = _node(padding, padding)
        return self._complete[depth] if edge is None else edge


def root(leaves: Sequence[bytes]) -> bytes:
    tree = Tree()
    for each in leaves:
        tree.add(each)
    return tree.root()


def prove(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The siblings of a leaf, from the leaf to the root. Raises IndexError if there is no such leaf."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"there is no leaf {index} among {len(leaves)}")
    proof: list[bytes] = []
    level = list(leaves)
    padding = _PADDING
    while len(level) > 1:
        if len(level) % 2:
            level.append(padding)
        proof.append(level[index ^ 1])
        level = [_node(*level[place : place + 2]) for place in range(0, len(level), 2)]
        padding = _node(padding, padding)
        index >>= 1
    return proof


def is_proven(envelope: bytes, index: int, proof: Sequence[bytes], root: bytes) -> bool:
    """True if the envelope is the one at `index` of the log that has this root."""
    if index < 0 or index >> len(proof):
        return False
    found = leaf(envelope)
    for sibling in proof:
        found = _node(sibling, found) if index & 1 else _node(found, sibling)
        index >>= 1
    return found == root
