"""The Merkle tree over the envelopes of an epoch (mesh wire 12).

A leaf is the hash of a zero byte and an envelope, a node that of a one byte and its two children: so no
envelope can pass for a node. Leaves are filled up on the right with 32 zero bytes to a power of two. A tree
keeps one hash per level, so that a log of any length has its root at any time. A proof is made in one pass over all
leaves, with a tree for each of its siblings: leaves need not fit into memory either.
"""

from collections.abc import Iterable, Sequence
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

    def copy(self) -> "Tree":
        other = Tree()
        other._leaves, other._complete = self._leaves, self._complete[:]
        return other

    def root(self) -> bytes:
        return self.filled(depth(self._leaves))

    def filled(self, levels: int) -> bytes:
        """The root if the leaves are filled up to this number of levels, at least as many as they need."""
        padding = _PADDING
        edge: bytes | None = None  # the subtree at the right end, which is not complete
        for level in range(levels):
            if self._leaves >> level & 1:
                edge = _node(self._complete[level], padding if edge is None else edge)
            elif edge is not None:
                edge = _node(edge, padding)
            padding = _node(padding, padding)
        if edge is not None:
            return edge
        return self._complete[levels] if self._leaves else padding


def depth(leaves: int) -> int:
    """The number of levels above so many leaves: as many siblings are in a proof."""
    return max(0, leaves - 1).bit_length()


def root(leaves: Sequence[bytes]) -> bytes:
    tree = Tree()
    for each in leaves:
        tree.add(each)
    return tree.root()


def prove(leaves: Iterable[bytes], index: int) -> list[bytes]:
    """The siblings of a leaf, from the leaf to the root. Raises IndexError if there is no such leaf.

    The sibling at each level is the root of a subtree. Each of the other leaves is in one of these subtrees, at the
    level of the highest bit in which its index differs.
    """
    subtrees: list[Tree] = []
    size = 0
    for place, each in enumerate(leaves):
        size += 1
        if place != index:
            level = (place ^ index).bit_length() - 1
            subtrees += [Tree() for _ in range(level + 1 - len(subtrees))]
            subtrees[level].add(each)
    if not 0 <= index < size:
        raise IndexError(f"there is no leaf {index} among {size}")
    subtrees += [Tree() for _ in range(depth(size) - len(subtrees))]
    return [subtree.filled(level) for level, subtree in enumerate(subtrees)]


def root_above(leaf: bytes, index: int, proof: Iterable[bytes]) -> bytes:
    """The root of the tree in which the leaf at `index` has these siblings."""
    for sibling in proof:
        leaf = _node(sibling, leaf) if index & 1 else _node(leaf, sibling)
        index >>= 1
    return leaf


def is_proven(envelope: bytes, index: int, proof: Sequence[bytes], root: bytes) -> bool:
    """True if the envelope is the one at `index` of the log that has this root."""
    if index < 0 or index >> len(proof):
        return False
    return root_above(leaf(envelope), index, proof) == root
