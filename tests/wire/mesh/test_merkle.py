"""The Merkle tree: the vectors, and a tree that is built in one piece."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.keccak import keccak256
from moothall.wire.mesh.merkle import Tree, is_proven, leaf, prove, root
from tests.support.mesh import VECTORS

MERKLE = VECTORS["merkle"]
LOG = [bytes.fromhex(vector["envelope_cbor_hex"]) for vector in VECTORS["envelopes"][:13]]
LEAVES = [bytes.fromhex(each) for each in MERKLE["leaves"]]


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_leaves_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    assert leaf(bytes.fromhex(vector["envelope_cbor_hex"])).hex() == vector["merkle_leaf_hex"]


def test_the_root_is_that_of_the_vectors() -> None:
    assert list(map(leaf, LOG)) == LEAVES
    assert root(LEAVES).hex() == MERKLE["root"]


@pytest.mark.parametrize("vector", MERKLE["small"], ids=lambda vector: f"{len(vector['inputs_hex'])} leaves")
def test_small_trees_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    assert root([leaf(bytes.fromhex(each)) for each in vector["inputs_hex"]]).hex() == vector["root"]


@pytest.mark.parametrize("vector", MERKLE["proofs"], ids=lambda vector: f"leaf {vector['index']}")
def test_proofs_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    index, proof = vector["index"], [bytes.fromhex(each) for each in vector["proof"]]
    assert prove(LEAVES, index) == proof
    assert is_proven(LOG[index], index, proof, bytes.fromhex(MERKLE["root"]))


def at_once(leaves: list[bytes]) -> bytes:
    """The definition, word by word."""
    size = 1
    while size < len(leaves):
        size *= 2
    level = leaves + [bytes(32)] * (size - len(leaves))
    while len(level) > 1:
        level = [
            keccak256(b"\x01" + left + right) for left, right in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0]


@pytest.mark.parametrize("size", range(70))
def test_a_tree_that_grows_has_the_root_of_one_made_at_once(size: int) -> None:
    leaves = [leaf(bytes((number,))) for number in range(size)]
    tree = Tree()
    for number, each in enumerate(leaves):
        assert tree.root() == at_once(leaves[:number])
        assert tree.size == number
        tree.add(each)
    assert tree.root() == at_once(leaves)


@given(st.lists(st.binary(max_size=20), min_size=1, max_size=40), st.data())
def test_a_proof_holds_for_its_envelope_and_place_alone(log: list[bytes], data: st.DataObject) -> None:
    leaves = list(map(leaf, log))
    index = data.draw(st.integers(0, len(log) - 1))
    proof, top = prove(leaves, index), root(leaves)
    assert is_proven(log[index], index, proof, top)
    assert not is_proven(log[index] + b"\0", index, proof, top)
    other = data.draw(st.integers(-100, 100))
    assert is_proven(log[index], other, proof, top) == (
        0 <= other < len(log) and log[other] == log[index] and prove(leaves, other) == proof
    )
    for place in range(len(proof)):
        changed = [*proof[:place], keccak256(proof[place]), *proof[place + 1 :]]
        assert not is_proven(log[index], index, changed, top)


def test_a_node_is_no_envelope() -> None:
    left, right = LEAVES[:2]
    assert not is_proven(left + right, 0, [], root([left, right]))
    assert not is_proven(b"\x01" + left + right, 0, [], root([left, right]))


@pytest.mark.parametrize("index", [-1, 13])
def test_there_is_no_such_leaf(index: int) -> None:
    with pytest.raises(IndexError, match="among 13"):
        prove(LEAVES, index)
