"""Files with the keys of ids that the store does not have yet, brought in when it is opened.

Former versions of moothall had them in `known-keys.txt`. A hall that was killed leaves some in its journal.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final

from moothall.hall.outside import Log
from moothall.store.dialect import Connection
from moothall.store.files import DataDirectory, Entry, read_entries
from moothall.store.journal import JOURNAL_FILE

KEYS_FILE: Final = "known-keys.txt"

_ROWS_AT_ONCE: Final = 256


def bring_in(connection: Connection, directory: DataDirectory, log: Log) -> None:
    """The caller holds the transaction, and calls `finish` after COMMIT."""
    _bind_all(connection, directory.read(JOURNAL_FILE) or b"")
    content = directory.read(KEYS_FILE)
    if content is not None:
        found, bound = _bind_all(connection, content)
        log.info("known_keys_imported", bound=bound, known_already=found - bound)


def finish(directory: DataDirectory) -> None:
    """The store has it all. The former file is kept under another name."""
    directory.set_aside(KEYS_FILE)
    directory.remove(JOURNAL_FILE)


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
