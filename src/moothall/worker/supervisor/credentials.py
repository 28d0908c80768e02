"""Where the token of a model comes from (seed 001, container agents; agentchat wire 19.3).

A file, which is deleted after it was read. So the model, which reads what strangers write, cannot be talked into
reading it. Without a file, the variable that the user has set: `lifeline.leave_environment` has put its value into
a pipe. The token stays in the memory of the supervisor, which hands it to each runner through a pipe.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.worker import lifeline
from moothall.worker.lifeline import MAX_TOKEN

TOKEN_FILE: Final = Path("/run/secrets/oauth-token")
TOKEN_VARIABLE: Final = "CLAUDE_CODE_OAUTH_TOKEN"  # noqa: S105  # its name
BY_PROXY: Final = "proxy-managed"  # in the place of a key: a proxy on the host adds the real one

_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))
_FIRST_PROCESS: Final = Path("/proc/1/cgroup")
_CONTAINER_WORDS: Final = ("docker", "libpod", "containerd", "kubepods", "lxc")


def load(file: Path, environment: Mapping[str, str], *, is_required: bool) -> str | None:
    """The token, or None where none is needed or given. The file is gone afterwards. Raises UsageError."""
    if environment.get("ANTHROPIC_BASE_URL") and environment.get("ANTHROPIC_API_KEY") == BY_PROXY:
        return None
    pipe = lifeline.inherited(environment)
    token = _take(file)
    if pipe is not None:
        token = token or lifeline.read_token(pipe)
        os.close(pipe)
    if token is None and is_required:
        raise UsageError(
            f"there is no token: mount it as the file {file}, or name another file with --token-file"
        )
    return token


def _take(file: Path) -> str | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"the token file {file} cannot be read: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "rb") as content:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UsageError(f"the token file {file} is not a regular file")
            found = content.read(MAX_TOKEN + 1)
    except OSError as error:
        raise UsageError(f"the token file {file} cannot be read: {error.strerror}") from None
    _delete(file)
    if len(found) > MAX_TOKEN:
        raise UsageError(f"the token file {file} is longer than {MAX_TOKEN} bytes: it is not a token")
    token = found.decode(errors="replace").strip()
    if not token.isprintable() or " " in token:
        raise UsageError(f"the token file {file} holds more than one word: it is not a token")
    return token or None


def _delete(file: Path) -> None:
    """A file that is a mount of its own cannot be removed, and is emptied."""
    try:
        file.unlink()
    except OSError as error:
        with suppress(OSError):
            os.truncate(file, 0)
            return
        raise UsageError(
            f"the token file {file} cannot be deleted ({error.strerror}), so the model could read it: mount it"
            " where this user can delete it"
        ) from None


def is_in_container() -> bool:
    """True in a container (agentchat wire 19.3)."""
    if any(mark.exists() for mark in _MARKS):
        return True
    with suppress(OSError):
        return any(word in _FIRST_PROCESS.read_text() for word in _CONTAINER_WORDS)
    return False
