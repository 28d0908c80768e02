"""Files and folders of the sender become an archive, in a file without a name."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Self

from moothall.errors import UsageError
from moothall.files import paths, slurp
from moothall.files.chunks import cut
from moothall.files.control import MAX_FILES, MAX_SIZE, Chunk, Offer, OfferedFile
from moothall.files.slurp import Entry, human_size

# A named pipe would block, and a link could lead out of a folder that was named.
_FLAGS: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_ADVICE: Final = "rename it, or leave it out"


@dataclass(frozen=True, slots=True)
class Source:
    name: str  # in the archive
    path: Path
    is_named: bool  # by the caller: it may be a link


class Packed:
    """An archive that is ready to be sent, and what an offer says about it."""

    def __init__(
        self, archive: BinaryIO, entries: list[Entry], sha256: str, skipped: tuple[str, ...]
    ) -> None:
        self._archive = archive
        self._offsets = cut(archive)
        self.files = [OfferedFile(entry.name, entry.size) for entry in entries]
        self.size = sum(entry.size for entry in entries)
        self.sha256 = sha256
        self.skipped = skipped

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._archive.close()

    @property
    def chunks(self) -> int:
        return len(self._offsets) - 1

    def offer(self, tid: str, nick: str) -> Offer:
        return Offer(tid, self.files, self.size, self.sha256, self.chunks, nick, resume=True)

    def chunk(self, tid: str, idx: int) -> Chunk:
        start, end = self._offsets[idx : idx + 2]
        data = os.pread(self._archive.fileno(), end - start, start).decode()
        return Chunk(tid, idx, self.chunks, data)


def pack(given: Iterable[str | os.PathLike[str]], created: str) -> Packed:
    """Pack files, and folders with everything in them. Links inside of a folder are not followed.

    Raises UsageError for what cannot be sent, and OSError for what cannot be read.
    """
    skipped: list[str] = []
    sources = list(_sources(given, skipped))
    if not sources:
        raise UsageError("there are no files to send")
    entries: list[Entry] = []
    size = 0
    for source in sources:
        entries.append(_surveyed(source))
        size += entries[-1].size
        if size > MAX_SIZE:
            raise UsageError(
                f"these files have more than the {human_size(MAX_SIZE)} of one transfer: send fewer"
            )
    archive = tempfile.TemporaryFile()  # noqa: SIM115  # the caller's to close
    try:
        digest = hashlib.sha256()
        for piece in slurp.write(entries, created):
            archive.write(piece)
            digest.update(piece)
        archive.flush()
        return Packed(archive, entries, digest.hexdigest(), tuple(skipped))
    except BaseException:
        archive.close()
        raise


def _sources(given: Iterable[str | os.PathLike[str]], skipped: list[str]) -> Iterator[Source]:
    names = paths.Names()
    count = 0
    for each in given:
        path = Path(each).expanduser()
        found = _walk(path, skipped) if path.is_dir() else iter((Source(path.name, path, True),))
        for source in found:
            reason = paths.fault(source.name) or names.clash(source.name)
            if reason is not None:
                raise UsageError(f"cannot send {str(source.path)!r}: {reason}; {_ADVICE}")
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"a transfer has at most {MAX_FILES:,} files: send fewer")
            yield source


def _walk(folder: Path, skipped: list[str]) -> Iterator[Source]:
    top = folder.resolve()
    for place, folders, files in os.walk(top, onerror=_raise):
        folders.sort()
        skipped.extend(str(link) for each in folders if (link := Path(place, each)).is_symlink())
        for name in sorted(files):
            path = Path(place, name)
            if stat.S_ISREG(path.lstat().st_mode):
                yield Source(f"{top.name}/{path.relative_to(top).as_posix()}", path, False)
            else:
                skipped.append(str(path))


def _raise(error: OSError) -> None:
    raise error


def _surveyed(source: Source) -> Entry:
    with _open(source) as content:
        before = _version(content)
        found = slurp.survey(source.name, content)
    return Entry(source.name, found.size, found.sha256, found.is_binary, partial(_open, source, before))


def _open(source: Source, expected: tuple[int, ...] | None = None) -> BinaryIO:
    flags = _FLAGS if source.is_named else _FLAGS | os.O_NOFOLLOW
    content = os.fdopen(os.open(source.path, flags), "rb")
    fault = None
    if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
        fault = f"cannot send {str(source.path)!r}: it is not a file; leave it out"
    elif expected is not None and _version(content) != expected:
        fault = f"{str(source.path)!r} changed while it was packed: try again"
    if fault is not None:
        content.close()
        raise UsageError(fault)
    return content


def _version(content: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(content.fileno())
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
