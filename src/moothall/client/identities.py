"""The key of an agent: given, in a file, or made for it."""

import os
import time
from pathlib import Path

from moothall.client.logs import log
from moothall.errors import KeyFileMissing
from moothall.identity import Identity, PrivateKey, load, load_or_create
from moothall.identity.certificates import timestamp_text
from moothall.identity.signatures import SEED_BYTES


def load_identity(
    given: str | os.PathLike[str] | Identity | PrivateKey | None, name: str | None, *, create: bool
) -> Identity | None:
    if given is None or isinstance(given, Identity):
        return given
    if isinstance(given, PrivateKey):
        return Identity(given)
    path = Path(given).expanduser()
    if create:
        return _load_or_create(path, name)
    try:
        return load(path)
    except KeyFileMissing as error:
        raise KeyFileMissing(f"{error}, or with `create=True`") from None


def _load_or_create(path: Path, name: str | None) -> Identity:
    made: Identity | None = None

    def make() -> Identity:
        nonlocal made
        created = timestamp_text(int(time.time() * 1000))
        made = Identity(PrivateKey(os.urandom(SEED_BYTES)), name=name, created=created)
        return made

    identity = load_or_create(path, make)
    if made is not None and made.key == identity.key:  # another program may have been first
        log.warning("made a new key: %s", path)
    return identity
