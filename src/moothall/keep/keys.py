"""A key that stays the same from one run to the next.

The file is PKCS#8 in PEM, as `openssl genpkey -algorithm ed25519` writes it, or an identity file of ours: one
key is one agent on every wire.
"""

import json
import logging
import os
import shlex
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from moothall.errors import KeyFileError, KeyFileMissing

log: Final = logging.getLogger("moothall.keep")
MAX_FILE_BYTES: Final = 1 << 20

_OTHERS: Final = 0o077


def key_from_file(path: Path | str, *, create: bool = False) -> Ed25519PrivateKey:
    """The key in this file.

    With `create`, a file that is not there is made, readable by its owner alone, and the log says so. Raises
    KeyFileMissing when there is no file, KeyFileError when it cannot be used.
    """
    path = Path(path).expanduser()
    try:
        if not os.path.lexists(path):
            if not create:
                raise KeyFileMissing(
                    f"there is no key file {path}: check the path, or make a key with"
                    f" `moothall identity new {shlex.quote(str(path))}`"
                )
            with suppress(FileExistsError):  # another program that started at the same moment was first
                _put(_pem(Ed25519PrivateKey.generate()), path)
                log.warning("made a new key: %s", path)
        content = _read(path)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror or error}") from None
    key = _parse(content)
    if key is None:
        raise KeyFileError(f"{path} holds no Ed25519 private key in PEM, nor a whole identity")
    return key


def _read(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a named pipe must not hang the program
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path} is not a regular file")
        content = file.read(MAX_FILE_BYTES)
    if status.st_mode & _OTHERS:
        if b"PRIVATE KEY" not in content:  # a file of the system, perhaps, that others have to read
            raise KeyFileError(f"{path} holds no private key, and other users can reach it")
        remedy = f"chmod 600 {shlex.quote(str(path))}"
        raise KeyFileError(f"{path} holds a private key that other users can reach: {remedy}")
    return content


def _parse(content: bytes) -> Ed25519PrivateKey | None:
    """None rather than an error, whose context could hold the key."""
    try:
        key = load_pem_private_key(_from_identity(content), password=None)
    except (ValueError, TypeError, RecursionError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, Ed25519PrivateKey) else None


def _from_identity(content: bytes) -> bytes:
    """The PEM in an identity file (agentchat wire 3.5); anything else as it is."""
    if not content.lstrip().startswith(b"{"):
        return content
    fields = json.loads(content)
    return str(fields.get("privateKey", fields.get("privkey"))).encode()


def _pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _put(content: bytes, path: Path) -> None:
    """In one step, and never in the place of another file. mkstemp creates with 0600."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    waiting = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        path.hardlink_to(waiting)
    finally:
        waiting.unlink(missing_ok=True)
