"""`allowlist.json` and `bans.json`: the access lists of the store, in the reference's format (agentchat wire 16).

The store wins: what it has is written into the files, at most once a second. But operators edit these files by
hand, and for a hall without an admin key there is no other way. So a file that was edited since the hall wrote it
counts at the next start: entries that were added, changed or taken out there are added, changed or taken out in
the store. A copy of what the hall wrote last tells the difference. A file that is missing is made anew.

The copy is written before the file, with what the file is about to be beside what it was. So a hall that is killed
at any moment never takes its own writing for an edit, which could bring back a ban that was lifted since.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from moothall.hall.access import (
    ALLOWLIST_FILE,
    BANS_FILE,
    Allowlist,
    Bans,
    decode_allowlist,
    decode_approval,
    decode_ban,
    decode_bans,
    encode_entry,
)
from moothall.hall.common import ALLOWLIST, BANS, ListName
from moothall.hall.outside import Log
from moothall.store.common import alter, listed
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory, read, write

WRITTEN_FILE: Final = ".mirrored.json"

Written = dict[str, list[str]]  # the texts that a file may have from the hall, by its name: the newest last


class AccessFile(NamedTuple):
    of: ListName
    name: str
    decode: Callable[[bytes], Allowlist | Bans]  # the whole file
    encode: Callable[[list[bytes]], bytes]  # from the records of the store


ACCESS_FILES: Final = (
    AccessFile(
        ALLOWLIST,
        ALLOWLIST_FILE,
        decode_allowlist,
        lambda records: Allowlist(map(decode_approval, records)).encode(),
    ),
    AccessFile(BANS, BANS_FILE, decode_bans, lambda records: Bans(map(decode_ban, records)).encode()),
)

Entries = dict[bytes, bytes]  # records by name


def bring_in(connection: Connection, directory: DataDirectory, log: Log, *, is_new: bool) -> None:
    """What was edited by hand since the hall wrote it. A store that `is_new` takes all that is there. The caller
    holds the transaction."""
    written = {} if is_new else _written(directory.path)
    for file in ACCESS_FILES:
        texts = [text.encode() for text in written.get(file.name, ())]
        if texts and directory.read(file.name) in (None, *texts):
            continue
        edited = directory.read_list(file.name, file.decode)
        if edited is None:
            continue
        was = _by_name(file.decode(texts[-1]).entries()) if texts else {}
        now = _by_name(edited.entries())
        stored = _by_name(file.decode(file.encode(listed(connection, file.of))).entries())
        entered = [
            (name, record)
            for name, record in now.items()
            if was.get(name) != record and stored.get(name) != record
        ]
        struck = [name for name in was.keys() - now.keys() if name in stored]
        alter(connection, file.of, entered, struck)
        if entered or struck:
            log.info("access_list_imported", file=file.name, entered=len(entered), struck=len(struck))


class AccessMirror:
    """Writes the files when the lists have changed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # The versions of the lists that the files show. None: not looked at yet
        self._versions: dict[str, int] | None = None

    def follow(self, connection: Connection) -> None:
        versions: dict[str, int] = dict(
            connection.execute("SELECT list, version FROM common_versions").fetchall()
        )
        if versions == self._versions:
            return
        written = _written(self._directory)
        texts = {
            file.name: file.encode(listed(connection, file.of)).decode()
            for file in ACCESS_FILES
            if versions.get(file.of)
        }
        changed = [name for name, text in texts.items() if self._read(name) != text.encode()]
        if changed:
            both = {name: [*written.get(name, ())[-1:], texts[name]] for name in changed}
            self._note(written | both)
            for name in changed:
                write(self._directory / name, texts[name].encode())
        latest = written | {name: [text] for name, text in texts.items()}
        if changed or latest != written:
            self._note(latest)
        self._versions = versions

    def _read(self, name: str) -> bytes | None:
        return read(self._directory / name)

    def _note(self, written: Written) -> None:
        write(self._directory / WRITTEN_FILE, msgspec.json.encode(written))


def _written(directory: Path) -> Written:
    """Without it, or if it is damaged, all entries of the files count as added by hand, and none as taken out."""
    content = read(directory / WRITTEN_FILE)
    try:
        return msgspec.json.decode(content or b"{}", type=Written)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _by_name(entries: list[Any]) -> Entries:
    return {entry.name: encode_entry(entry) for entry in entries}
