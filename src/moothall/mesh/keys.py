"""The key of an agent of the mesh, and where its nonces, and what it has seen, are kept."""

import os
from pathlib import Path
from typing import NamedTuple

from moothall.client.identities import load_identity
from moothall.identity import Identity, PrivateKey
from moothall.identity.keyfile import load_seed
from moothall.identity.signatures import SEED_BYTES


class MeshKey(NamedTuple):
    key: PrivateKey
    name: str | None  # that the key file has
    nonces: Path | None = None  # None if the key is not in a file
    marks: Path | None = None  # likewise


def load_key(
    given: str | os.PathLike[str] | Identity | PrivateKey | None, name: str | None, *, create: bool
) -> MeshKey:
    """The key in an identity file or in a file of 32 bytes, a key that is given, or a new one.

    Raises KeyFileMissing or KeyFileError.
    """
    if given is None:
        return MeshKey(PrivateKey(os.urandom(SEED_BYTES)), None)
    if isinstance(given, Identity):
        return MeshKey(given.key, given.name)
    if isinstance(given, PrivateKey):
        return MeshKey(given, None)
    path = Path(given).expanduser()
    beside = path.with_name(f"{path.name}.nonce"), path.with_name(f"{path.name}.seen")
    seed = load_seed(path)
    if seed is not None:
        return MeshKey(seed, None, *beside)
    identity = load_identity(path, name, create=create)
    assert identity is not None  # noqa: S101  # a path was given
    return MeshKey(identity.key, identity.name, *beside)
