"""Files with secrets: each is read once, and is gone afterwards (seed 001, container agents).

So the model, which reads what strangers write, cannot be talked into reading one. The host fills them again before
a container starts anew. It may be a moment late, so the supervisor waits for those that it was told of.
"""

import json
import os
import signal
import stat
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from moothall.errors import UsageError
from moothall.worker import sealing
from moothall.worker.lifeline import MAX_IDENTITY, MAX_TOKEN

FOLDER: Final = Path("/run/secrets")
TOKEN: Final = "oauth-token"  # noqa: S105  # its name
IDENTITY: Final = "identity"
VARIABLE: Final = "MOOTHALL_SECRETS"  # the names of the files to wait for
PATIENCE: Final = 30.0  # seconds

_LOOK: Final = 0.1  # seconds between two looks


class Kind(NamedTuple):
    """What a file has, in words for errors, and how long it may be."""

    title: str
    article: str
    most: int


A_TOKEN: Final = Kind("token", "a token", MAX_TOKEN)
AN_IDENTITY: Final = Kind("identity", "a key file", MAX_IDENTITY)


def expected(text: str) -> frozenset[str]:
    """The names in `MOOTHALL_SECRETS`. Raises UsageError for one that means nothing."""
    names = frozenset(text.replace(",", " ").split())
    if unknown := sorted(names - {TOKEN, IDENTITY}):
        raise UsageError(f"{VARIABLE} names {unknown[0][:40]!r}: it may name {TOKEN} and {IDENTITY}")
    return names


def wait_for(
    files: Collection[Path], stop_signals: Collection[int], patience: float = PATIENCE
) -> int | None:
    """Until all files are there, or a stop signal comes, which is returned. The signals are blocked.

    Raises UsageError when the time is up.
    """
    deadline = time.monotonic() + patience
    while missing := [file for file in files if not _has_content(file)]:
        if time.monotonic() >= deadline:
            raise UsageError(
                f"the file {missing[0]} did not come within {patience:g} seconds: put it there, or take its"
                f" name out of {VARIABLE}"
            )
        arrived = signal.sigtimedwait(stop_signals, _LOOK)
        if arrived is not None:
            return arrived.si_signo
    return None


def take_token(file: Path) -> str | None:
    """The token in the file. None if there is no file, or an empty one. Raises UsageError."""
    token = _take(file, A_TOKEN)
    if not token.isprintable() or " " in token:
        raise UsageError(f"the token file {file} holds more than one word: it is not a token")
    return token or None


def take_identity(file: Path) -> str | None:
    """The key file, as `moothall identity new` writes it, in one line. None if there is none. Raises UsageError."""
    text = _take(file, AN_IDENTITY)
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"the identity file {file} is not a key file: make one with `moothall identity new`")
    return json.dumps(found)


def _has_content(file: Path) -> bool:
    """One that cannot be looked at is for `_take` to explain. One that was emptied has not been filled again."""
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False
    except OSError:
        return True


def _take(file: Path, kind: Kind) -> str:
    name = f"the {kind.title} file {file}"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "rb") as content:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"{name} is not a regular file")
            sealing.seal()
            found = content.read(kind.most + 1)
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}") from None
    _delete(file, name)
    if len(found) > kind.most:
        raise UsageError(f"{name} is longer than {kind.most} bytes: it is not {kind.article}")
    return found.decode(errors="replace").strip()


def _delete(file: Path, name: str) -> None:
    """A file that is a mount of its own cannot be removed, and is emptied."""
    try:
        file.unlink()
    except OSError as error:
        with suppress(OSError):
            os.truncate(file, 0)
            return
        raise UsageError(
            f"{name} cannot be deleted ({error.strerror}), so the model could read it: mount it where this user can"
            " delete it"
        ) from None
