"""The key of an agent of the mesh: an identity file, the 32 bytes of a node, a key, or a new one."""

from pathlib import Path

import pytest

from moothall import Identity, KeyFileError, KeyFileMissing, PrivateKey
from moothall.identity import load
from moothall.mesh.keys import MeshKey, load_key

SEED = bytes(range(32))


def test_an_identity_file(tmp_path: Path) -> None:
    path = tmp_path / "alice.json"
    made = load_key(path, "alice", create=True)
    assert load(path).key == made.key
    again = load_key(str(path), None, create=False)
    assert (again.key, again.name, again.nonces) == (made.key, "alice", tmp_path / "alice.json.nonce")


def test_the_file_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "zerox1-identity.key"
    path.write_bytes(SEED)
    path.chmod(0o600)
    found = load_key(path, None, create=False)
    assert (found.key, found.nonces) == (PrivateKey(SEED), tmp_path / "zerox1-identity.key.nonce")
    assert found.marks == tmp_path / "zerox1-identity.key.seen"
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_key(path, None, create=False)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KeyFileMissing):
        load_key(tmp_path / "none", None, create=False)


def test_a_file_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(SEED + b"\n")
    path.chmod(0o600)
    with pytest.raises(KeyFileError):
        load_key(path, None, create=False)


def test_a_key_that_is_given_has_no_file() -> None:
    assert load_key(PrivateKey(SEED), None, create=False) == MeshKey(PrivateKey(SEED), None)
    assert load_key(Identity(PrivateKey(SEED), "al"), None, create=False) == MeshKey(PrivateKey(SEED), "al")


def test_without_one_a_key_is_made() -> None:
    assert load_key(None, None, create=False).key != load_key(None, None, create=False).key
