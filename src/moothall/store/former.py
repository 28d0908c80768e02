"""Files with what the store does not have yet, brought in when it is opened.

Former versions of moothall had the keys of ids in `known-keys.txt`, revoked keys in `revoked.json`, and the first
keys of keep identities in `keep-pins.txt`. A hall that was killed leaves new keys in its journal.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from moothall.errors import UsageError
from moothall.hall.keep.registry import MAX_PINS
from moothall.hall.outside import Log
from moothall.hall.revocation import Notice, decode_notices, encode_notice
from moothall.store.common import bring_in_pins
from moothall.store.dialect import Connection
from moothall.store.files import REMEDY, DataDirectory, Entry, read_entries
from moothall.store.journal import JOURNAL_FILE

KEYS_FILE: Final = "known-keys.txt"
REVOKED_FILE: Final = "revoked.json"
PINS_FILE: Final = "keep-pins.txt"

_ROWS_AT_ONCE: Final = 256
_REVOKE: Final = "INSERT INTO revocations (key, at, notice) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING"


def bring_in(connection: Connection, directory: DataDirectory, log: Log) -> None:
    """The caller holds the transaction, and calls `finish` after COMMIT."""
    bring_in_journal(connection, directory)
    content = directory.read(KEYS_FILE)
    if content is not None:
        found, bound = _bind_all(connection, content)
        log.info("known_keys_imported", bound=bound, known_already=found - bound)
    content = directory.read(REVOKED_FILE)
    if content is not None:
        notices = _notices(directory, content)
        for key, notice in notices.items():
            connection.execute(_REVOKE, (key, 0, encode_notice(notice)))
        log.info("revoked_keys_imported", notices=len(notices))
    content = directory.read(PINS_FILE)
    if content is not None:
        pins = dict(read_entries(content))  # the last line of an identity was the one that held
        pinned = bring_in_pins(connection, list(pins.items())[-MAX_PINS:])
        log.info("pins_imported", pinned=pinned, known_already=len(pins) - pinned)


def bring_in_journal(connection: Connection, directory: DataDirectory) -> None:
    """Bind the new keys of a hall that has ended. The store may know them already: a journal is shortened later."""
    _bind_all(connection, directory.read(JOURNAL_FILE) or b"")


def finish(directory: DataDirectory) -> None:
    """The store has it all. The former files are kept under other names."""
    directory.set_aside(KEYS_FILE)
    directory.set_aside(REVOKED_FILE)
    directory.set_aside(PINS_FILE)
    directory.remove(JOURNAL_FILE)


def _notices(directory: DataDirectory, content: bytes) -> dict[bytes, Notice]:
    try:
        return decode_notices(content)
    except UsageError as error:
        raise UsageError(f"{directory.path / REVOKED_FILE}: {error}; {REMEDY}") from None


def _bind_all(connection: Connection, content: bytes) -> tuple[int, int]:
    """How many ids there are, and how many of them were not bound yet."""
    found = list(dict(read_entries(content)).items())  # the last line of an id was the one that held
    bound = 0
    for some in _runs(found):
        values = [value for agent_id, key in some for value in (agent_id, key, 0)]
        bound += connection.execute(_bind(len(some)), values).rowcount
    return len(found), bound


def _runs(entries: list[Entry]) -> Iterator[list[Entry]]:
    for start in range(0, len(entries), _ROWS_AT_ONCE):
        yield entries[start : start + _ROWS_AT_ONCE]


@cache
def _bind(rows: int) -> str:
    values = ", ".join(["(?, ?, ?)"] * rows)
    return f"INSERT INTO bindings (id, key, at) VALUES {values} ON CONFLICT (id) DO NOTHING"  # noqa: S608
