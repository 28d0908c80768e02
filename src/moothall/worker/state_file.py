"""A small file that one process writes and others read: whole in its old or in its new form, never half-written.

The new content is written beside the file, flushed to disk and renamed. The file beside it has a fixed name, so a
writer that is killed at any point leaves one of them at most, and the next write replaces it. Each file has one
writer. `identity.keyfile.put_file` serves several writers, and its imports would double the memory of a supervisor.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

MAX_BYTES: Final = 1024 * 1024

_OWNER_ONLY: Final = 0o600


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step. Raises OSError; then the old content is still there."""
    beside = path.with_name(f".{path.name}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(beside, flags, _OWNER_ONLY), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_object(path: Path, fields: Mapping[str, Any]) -> None:
    """Replace the file with a JSON object. Raises OSError."""
    write(path, json.dumps(fields, indent=2).encode() + b"\n")


def read(path: Path) -> bytes | None:
    """The content, of at most `MAX_BYTES`. None if there is no file. Raises OSError, also for a link."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(MAX_BYTES)


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in the file. None if there is none, or if the file holds something else. Raises OSError."""
    content = read(path)
    if content is None:
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
