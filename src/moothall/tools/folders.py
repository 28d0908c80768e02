"""Which files a model may send, and where it may save some.

A model may have been talked into something by what it has read. So files leave from one folder only, which the
user chose or started this server in, and hidden files stay: keys and passwords are in those. Files are saved in
that folder too, or in one for temporary files.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Final

from moothall.daemon.folder import Folder
from moothall.errors import UsageError

RECEIVED: Final = "agentchat-files"  # in the folder for temporary files (agentchat wire 19.1)
LEAST_DEPTH: Final = 3  # levels: / and /home are too much to give away (agentchat wire 19.1)
MAX_LOOKED_AT: Final = 10_000  # entries of a folder that is sent

_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def project_folder(started_in: Path) -> Path | None:
    """The folder that a server was started in, unless it is so near the root that it holds half of the machine."""
    folder = started_in.resolve()
    return folder if len(folder.parts) > LEAST_DEPTH else None


def sendable(text: str, folder: Path | None) -> Path:
    """The file or folder to send. Raises UsageError for one that a model may not send."""
    folder = _required(folder)
    path = _within(text, folder)
    if not path.exists():
        raise UsageError(f"There is no file {text[:200]!r} in {folder}.")
    hidden = next(_hidden(path, folder), None)
    if hidden is not None:
        raise UsageError(f"{hidden} is hidden, and hidden files are not sent: they may hold secrets.")
    return path


def save_folder(text: str | None, folder: Path | None, transfer_id: str) -> Path:
    """Where to save the files of a transfer. Raises UsageError for a place that a model may not write to."""
    if text is not None:
        return _within(text, _required(folder))
    parent = Folder(Path(gettempdir()) / RECEIVED)
    parent.make()  # refuses one that another user has made
    name = transfer_id if _PLAIN_ID.fullmatch(transfer_id) else transfer_id.encode().hex()[:64]
    return parent.path / name


def _required(folder: Path | None) -> Path:
    if folder is None:
        raise UsageError(
            "This MCP server was started too near the root of the disk, so no folder is open to you. Ask the user"
            " to start it in the folder of a project, or with `--files FOLDER`."
        )
    return folder


def _within(text: str, folder: Path) -> Path:
    path = (folder / Path(text).expanduser()).resolve()
    if not path.is_relative_to(folder):
        raise UsageError(
            f"{text[:200]!r} is outside of {folder}, the only folder that is open to you. Ask the user."
        )
    return path


def _hidden(path: Path, folder: Path) -> Iterator[Path]:
    """The hidden parts of a path, and hidden entries of a folder."""
    if any(part.startswith(".") for part in path.relative_to(folder).parts):
        yield path
    looked_at = 0
    for place, folders, files in os.walk(path) if path.is_dir() else ():
        looked_at += len(folders) + len(files)
        if looked_at > MAX_LOOKED_AT:
            raise UsageError(f"{path} has more than {MAX_LOOKED_AT} entries: name the files to send.")
        for name in (*folders, *files):
            if name.startswith("."):
                yield Path(place) / name
