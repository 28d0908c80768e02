"""The data directory: small files that are replaced whole."""

import fcntl
import os
import shlex
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from moothall.errors import UsageError
from moothall.hall.outside import Log

OTHERS_WRITE: Final = 0o022  # the bits of a mode that let the group and all others write
REMEDY: Final = "repair it, or restore it from a backup"
# What was brought into the store, or could not be, is kept under a name that ends with this.
KEPT: Final = ".before-import"

Access = TypeVar("Access")
Entry = tuple[str, bytes]  # an id, a public key


class DataDirectory:
    """Every write is on the disk when it returns: temporary file, fsync, rename, fsync of the folder."""

    def __init__(self, path: Path, log: Log | None = None) -> None:
        self.path = path
        self._log = log
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise UsageError(f"data directory {path}: there is a file of that name; choose another") from None
        except OSError as error:
            raise UsageError(f"data directory {path}: {error.strerror}") from None
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise UsageError(f"data directory {path}: not readable and writable for this user")
        status = path.stat()
        self._owner = status.st_uid
        if status.st_mode & OTHERS_WRITE:
            raise UsageError(
                f"data directory {path}: other users can write to it, and so replace keys and lists;"
                f" run: chmod go-w {shlex.quote(str(path))}"
            )

    def claim(self, flag: str = "--data-dir") -> None:
        """From now on it is this hall's: two would overwrite each other's lists. Ends with the process, too.

        `flag` is what the operator chooses a directory with.
        """
        self._claim = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise UsageError(
                f"data directory {self.path}: another hall or node is using it; choose one with {flag}"
            ) from None

    @property
    def claimed(self) -> int:
        """The descriptor of the claim. Processes that inherit it keep the directory claimed until they end."""
        return self._claim

    def release(self) -> None:
        os.close(self._claim)

    def read(self, name: str) -> bytes | None:
        return read(self.path / name)

    def ends_of(self, name: str) -> list[bytes]:
        """The first line and the last; none if there is no such file."""
        with _opened(self.path / name) as file:
            if file is None:
                return []
            first = file.readline()
            return [first, *deque(file, maxlen=1)]

    def read_list(self, name: str, decode: Callable[[bytes], Access]) -> Access | None:
        """An access list; failing that the reference's, which keeps its lists one folder up (wire 17.3)."""
        path = self.path / name
        content = read(path)
        if content is None:
            path = self.path.parent / name
            content = self._adopt(path)
        if content is None:
            return None
        try:
            return decode(content)
        except UsageError as error:
            raise UsageError(f"{path}: {error}; {REMEDY}") from None

    def _adopt(self, path: Path) -> bytes | None:
        """A file of the folder above, where others may have put it: only if it belongs to the owner of the data
        directory, and no other user can write to it."""
        try:
            status = path.lstat()
        except OSError:
            return None
        is_ours = status.st_uid == self._owner and stat.S_ISREG(status.st_mode)
        if is_ours:
            # What was opened counts: the name may have another file since.
            with _opened(path, os.O_NOFOLLOW) as file:
                if file is None:
                    return None
                status = os.fstat(file.fileno())
                if status.st_uid == self._owner and not status.st_mode & OTHERS_WRITE:
                    return file.read()
        if self._log is not None:
            advice = f"copy it into {self.path} if it is yours"
            self._log.warning("foreign_list_ignored", file=str(path), advice=advice)
        return None

    def write(self, name: str, content: bytes) -> None:
        write(self.path / name, content)

    def set_aside(self, name: str) -> str:
        """Rename it; returns the new name. What was kept another time stays, and a missing file is not an error."""
        kept = next(path for path in self.kept_names(name) if not os.path.lexists(path))
        with suppress(FileNotFoundError):
            (self.path / name).rename(kept)
        sync(self.path)
        return kept.name

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def kept_names(self, name: str) -> Iterator[Path]:
        yield self.path / f"{name}{KEPT}"
        for number in count(2):
            yield self.path / f"{name}{KEPT}.{number}"

    def sync(self) -> None:
        sync(self.path)


def sync(folder: Path) -> None:
    """Flush the folder, so that the names in it survive a power cut."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def write(path: Path, content: bytes) -> None:
    """Replace the file in one step. It is on the disk when this returns."""
    with _replacing(path) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def replace(path: Path, content: Iterable[bytes]) -> None:
    """Replace the file in one step: a reader sees the old content or the new. It is not flushed to the disk."""
    with _replacing(path) as file:
        file.writelines(content)


@contextmanager
def _replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file beside it, which takes its place in the end. It follows no link that has its name already."""
    waiting = path.with_name(f".{path.name}.new")
    waiting.unlink(missing_ok=True)  # of a hall that was killed
    descriptor = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        waiting.replace(path)
    except BaseException:
        waiting.unlink(missing_ok=True)
        raise


def read(path: Path) -> bytes | None:
    """None if there is no such file."""
    with _opened(path) as file:
        return None if file is None else file.read()


@contextmanager
def _opened(path: Path, flags: int = 0) -> Iterator[BinaryIO | None]:
    """A regular file, to be read; None if there is none. UsageError if it is something else, or cannot be read."""
    try:
        # A named pipe in its place must not hang the hall.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        if path.is_symlink():
            raise UsageError(f"{path}: a link to a file that is not there; {REMEDY}") from None
        yield None
        return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            what = "Is a directory" if stat.S_ISDIR(mode) else "Not a regular file"
            raise UsageError(f"{path}: {what}; {REMEDY}")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            yield file
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)


def read_entries(content: bytes) -> Iterator[Entry]:
    for line in content.decode(errors="replace").splitlines():
        agent_id, _, digits = line.partition(" ")
        try:
            raw = bytes.fromhex(digits)
        except ValueError:
            continue  # the last line of a hall that was killed while writing
        if agent_id and len(raw) == 32:
            yield agent_id, raw
