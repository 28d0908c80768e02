"""A small file that one process writes and others read: whole in its old or in its new form, never half-written.

The new content is written beside the file, flushed to disk and renamed. The file beside it has a fixed name, so a
writer that is killed at any point leaves one of them at most, and the next write replaces it. Each file has one
writer. What an agent has put in the place of the file beside it is removed first, so the writer never waits for a
pipe. `identity.keyfile.put_file` serves several writers, and its imports would double the memory of a supervisor.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from moothall.worker.plain_file import open_plain

MAX_BYTES: Final = 1024 * 1024
MAX_OF_AGENT: Final = (
    256 * 1024
)  # bytes of a state file that an agent can write: a mission of any letters fits


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step. Raises OSError; then the old content is still there."""
    beside = path.with_name(f".{path.name}.new")
    with os.fdopen(_new(beside), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _new(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return open_plain(path, flags)
    except FileExistsError:
        path.unlink()
        return open_plain(path, flags)


def write_object(path: Path, fields: Mapping[str, Any]) -> None:
    """Replace the file with a JSON object. Raises OSError."""
    write(path, json.dumps(fields, indent=2).encode() + b"\n")


def read(path: Path, most: int = MAX_BYTES) -> bytes | None:
    """The content, of at most `most` bytes. None if there is no file. Raises OSError, also for a link or a pipe."""
    try:
        descriptor = open_plain(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        return file.read(most)


def object_of_agent(path: Path) -> dict[str, Any]:
    """The JSON object in a file that an agent can write, too. Empty if there is none that can be read."""
    with suppress(OSError):
        return read_object(path, MAX_OF_AGENT) or {}
    return {}


def read_object(path: Path, most: int = MAX_BYTES) -> dict[str, Any] | None:
    """The JSON object in the file. None if there is none, or if the file holds something else. Raises OSError."""
    content = read(path, most)
    if content is None:
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
