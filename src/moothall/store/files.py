"""The data directory: small files that are replaced whole, and the list of keys that grows line by line."""

import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from moothall.errors import UsageError

KEYS_FILE: Final = "known-keys.txt"
PINS_FILE: Final = "keep-pins.txt"

Access = TypeVar("Access")
Entry = tuple[str, bytes]  # agent id, public key


class DataDirectory:
    """Every write is on the disk when it returns: temporary file, fsync, rename, fsync of the folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"data directory {path}: there is a file of that name; choose another") from None
        except OSError as error:
            raise UsageError(f"data directory {path}: {error.strerror}") from None
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"data directory {path}: not readable and writable for this user")

    def claim(self) -> None:
        """From now on it is this hall's: two would overwrite each other's lists. Ends with the process, too."""
        self._claim = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise UsageError(
                f"data directory {self.path}: another hall is using it; choose one with --data-dir"
            ) from None

    def release(self) -> None:
        os.close(self._claim)

    def read(self, name: str) -> bytes | None:
        return _read(self.path / name)

    def ends_of(self, name: str) -> list[bytes]:
        """The first line and the last; none if there is no such file."""
        path = self.path / name
        try:
            with path.open("rb") as file:
                first = file.readline()
                return [first, *deque(file, maxlen=1)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None

    def read_list(self, name: str, decode: Callable[[bytes], Access]) -> Access | None:
        """An access list; failing that the reference's, which keeps its lists one folder up (wire 17.3)."""
        for path in (self.path / name, self.path.parent / name):
            content = _read(path)
            if content is not None:
                try:
                    return decode(content)
                except UsageError as error:
                    raise UsageError(f"{path}: {error}") from None
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
        self.sync()

    def sync(self) -> None:
        folder = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def replace(path: Path, content: Iterable[bytes]) -> None:
    """All of it or nothing, for anybody who reads it meanwhile; but the disk may have it later."""
    waiting = path.with_name(f".{path.name}.new")
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
        waiting.replace(path)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise


class KeyBook:
    """Which key each id was first seen with, one line each: id, space, public key in hex.

    A line is added when an id is bound, so the last line of an id is the one that holds. When the file has
    twice as many lines as the hall remembers ids, it is rewritten with the newest.
    """

    def __init__(self, directory: DataDirectory, limit: int, name: str = KEYS_FILE) -> None:
        self._directory = directory
        self._name = name
        self._limit = limit
        self._lines = 0
        self._whole = True  # the file ends with a line end, not in the middle of a write that failed

    def read(self) -> list[Entry]:
        """The newest ids, as many as the hall remembers, the oldest of them first."""
        content = self._directory.read(self._name) or b""
        self._whole = not content or content.endswith(b"\n")
        self._lines = content.count(b"\n")
        newest: dict[str, bytes] = {}
        for agent_id, raw in _parse(content):
            newest.pop(agent_id, None)
            newest[agent_id] = raw
        return list(newest.items())[-self._limit :]

    def append(self, entries: list[Entry]) -> None:
        lines = _lines(entries) if self._whole else b"\n" + _lines(entries)
        self._whole = False
        path = self._directory.path / self._name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        self._whole = True
        self._lines += len(entries)
        if self._lines > 2 * self._limit:
            self._rewrite()

    def _rewrite(self) -> None:
        entries = self.read()
        self._directory.write(self._name, _lines(entries))
        self._lines = len(entries)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _lines(entries: list[Entry]) -> bytes:
    return "".join(f"{agent_id} {raw.hex()}\n" for agent_id, raw in entries).encode()


def _parse(content: bytes) -> Iterator[Entry]:
    for line in content.decode(errors="replace").splitlines():
        agent_id, _, digits = line.partition(" ")
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            continue  # the last line of a hall that was killed while writing
        if agent_id and len(raw) == 32:
            yield agent_id, raw
