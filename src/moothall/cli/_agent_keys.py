"""Which agent a word on the command line names, for commands that look into the store of a hall."""

import string
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moothall.cli._mesh_visit import AGENT_DIGITS, LEAST_AGENT_DIGITS
from moothall.cli._reading import read_public_key
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall.store.books import StoreBooks

AGENT_HELP: Final = (
    "The agent: its key in hex (the mesh id) or its first 16 digits or more, its @id if the store knows it, or a"
    " file with its public key."
)


def agent_key(books: "StoreBooks", word: str) -> bytes:
    """The key of this agent. Raises UsageError."""
    if word.startswith("@") or not Path(word).expanduser().exists():
        key = _known_key(books, word.lower())
        if key is None:
            raise UsageError(
                f"the store does not know {word}: give the agent's key, as {AGENT_DIGITS} hex digits or in a file"
            )
        return key
    return read_public_key(word).raw


def _known_key(books: "StoreBooks", word: str) -> bytes | None:
    if set(word) <= set(string.hexdigits) and LEAST_AGENT_DIGITS <= len(word) <= AGENT_DIGITS:
        if len(word) == AGENT_DIGITS:
            return bytes.fromhex(word)
        found = books.keys_from(word)
        if len(found) > 1:
            raise UsageError(f"several keys begin with {word}: write more of the key")
        if found:
            return found[0]
    return books.find_key(word.removeprefix("@"))
