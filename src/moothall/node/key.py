"""The key file of a node: the 32 bytes of its seed, for its owner alone (mesh wire 1).

Other tools write the seed and the public key, 64 bytes. Such a file is read too.
"""

import os
import shlex
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.errors import KeyFileError
from moothall.identity import PrivateKey
from moothall.identity.keyfile import put_file
from moothall.identity.signatures import KEY_BYTES, SEED_BYTES

_OTHERS: Final = 0o077


def load_or_create(path: Path) -> bytes:
    """The seed in a key file, which is made if there is none. Raises KeyFileError."""
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):  # another process was faster
                put_file(os.urandom(SEED_BYTES), path, overwrite=False)
        return _load(path)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from None


def _load(path: Path) -> bytes:
    # A named pipe in this place must not hang the program.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        is_key = stat.S_ISREG(status.st_mode) and status.st_size in (SEED_BYTES, SEED_BYTES + KEY_BYTES)
        if not is_key:
            raise KeyFileError(
                f"{path} is not a key file of a node, which has {SEED_BYTES} bytes: name another file"
            )
        if status.st_mode & _OTHERS:
            raise KeyFileError(
                f"{path} holds a private key that other users can reach: chmod 600 {shlex.quote(str(path))}"
            )
        content = file.read()
    seed, public = content[:SEED_BYTES], content[SEED_BYTES:]
    if public and PrivateKey(seed).public.raw != public:
        raise KeyFileError(
            f"{path}: the second half is not the public key of the first: restore it from a backup"
        )
    return seed
