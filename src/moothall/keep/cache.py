"""`~/.keep/endpoints.json`: servers that have answered before, shared with the published SDK (keep wire 12)."""

import json
import os
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

FOLDER: Final = ".keep"
FILE: Final = "endpoints.json"
DEFAULT_HOST: Final = "localhost"
DEFAULT_PORT: Final = 9009


def folder() -> Path:
    return Path.home() / FOLDER


def remember(host: str, port: int, info: Mapping[str, Any]) -> None:
    """Enter a server, in the place that it had, else at the end."""
    entry = {
        "host": host,
        "port": port,
        "version": info.get("version", ""),
        "agents_online": info.get("agents_online", 0),
        "last_seen": datetime.now(UTC).isoformat(),
    }
    try:
        entries = _entries()
    except ConnectionError:
        entries = []
    for place, known in enumerate(entries):
        if _address(known) == (host, port):
            entries[place] = entry
            break
    else:
        entries.append(entry)
    _write({"endpoints": entries})


def endpoints() -> list[tuple[str, int]]:
    """Host and port of each, in the order of the file. ConnectionError if there is no such file, or none that
    can be read."""
    return [
        (host, port)
        for host, port in map(_address, _entries())
        if isinstance(host, str) and isinstance(port, int) and 0 < port < 1 << 16
    ]


def _entries() -> list[Mapping[str, Any]]:
    path = folder() / FILE
    try:
        found = json.loads(path.read_bytes())["endpoints"]
        return [entry for entry in found if isinstance(entry, dict)]
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConnectionError(f"no servers are remembered in {path}: {error}") from None


def _address(entry: Mapping[str, Any]) -> tuple[object, object]:
    return entry.get("host", DEFAULT_HOST), entry.get("port", DEFAULT_PORT)


def _write(content: Mapping[str, Any]) -> None:
    """Replace the file in one step: a reader sees the old content or the new."""
    path = folder() / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{FILE}.", dir=path.parent)
    waiting = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file, indent=2)
        waiting.replace(path)
    finally:
        waiting.unlink(missing_ok=True)
