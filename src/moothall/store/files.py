"""The data directory: small files that are replaced whole, and the list of keys that grows line by line."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from moothall.errors import UsageError

KEYS_FILE: Final = "known-keys.txt"


class DataDirectory:
    """Every write is on the disk when it returns: temporary file, fsync, rename, fsync of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"data directory {path}: {error.strerror}") from None

    def read(self, name: str) -> bytes | None:
        """The file's content; failing that the reference's, which keeps its lists one folder up."""
        for path in (self.path / name, self.path.parent / name):
            try:
                return path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror}") from None
        return None

    def write(self, name: str, content: bytes) -> None:
        path = self.path / name
        waiting = path.with_name(f".{name}.new")
        descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            waiting.replace(path)
        except OSError:
            waiting.unlink(missing_ok=True)
            raise
        self._sync()

    def _sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class KeyBook:
    """Which key each id was first seen with, one line each: id, space, public key in hex."""

    def __init__(self, directory: DataDirectory) -> None:
        self._directory = directory

    def read(self) -> list[tuple[str, bytes]]:
        content = self._directory.read(KEYS_FILE) or b""
        return list(_parse(content))

    def append(self, entries: list[tuple[str, bytes]]) -> None:
        text = "".join(f"{agent_id} {raw.hex()}\n" for agent_id, raw in entries)
        path = self._directory.path / KEYS_FILE
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())

    def rewrite(self, entries: list[tuple[str, bytes]]) -> None:
        text = "".join(f"{agent_id} {raw.hex()}\n" for agent_id, raw in entries)
        self._directory.write(KEYS_FILE, text.encode())


def _parse(content: bytes) -> Iterator[tuple[str, bytes]]:
    for line in content.decode(errors="replace").splitlines():
        agent_id, _, digits = line.partition(" ")
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            continue  # the last line of a hall that was killed while writing
        if agent_id and len(raw) == 32:
            yield agent_id, raw
