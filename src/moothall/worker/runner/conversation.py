"""A conversation with `claude` that goes on over several sessions (agentchat wire 19.4), for those who want that.

`session_id` has its id, and `session_created` says that `claude` knows it: then it is resumed, else it is created.
A session that was killed leaves either state, and `claude` may have thrown the conversation away. What it says then
sets the files right for the next session.
"""

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from moothall.worker import state_file
from moothall.worker.agent_folder import CONVERSATION, CONVERSATION_BEGUN

_GONE: Final = "No conversation found"  # the words of `claude`, as far as they are the same in its versions
_EXISTS: Final = "is already in use"


class Conversation:
    def __init__(self, folder: Path) -> None:
        """Raises OSError."""
        self._file = folder / CONVERSATION
        self._mark = folder / CONVERSATION_BEGUN
        found = state_file.read(self._file) or b""
        try:
            self.id = str(uuid.UUID(found.decode("ascii", "replace").strip()))
        except ValueError:
            self.forget()
            self.id = str(uuid.uuid4())
            state_file.write(self._file, f"{self.id}\n".encode())
        self.is_begun = self._mark.exists()

    def begin(self) -> None:
        """The program has answered: the next session resumes. A full disk makes that one try again."""
        if not self.is_begun:
            self.is_begun = True
            with suppress(OSError):
                state_file.write(self._mark, b"")

    def read(self, words: str) -> None:
        """What the program itself says, to learn what has become of the conversation."""
        if self.id in words and _GONE in words:
            self.forget()
        elif self.id in words and _EXISTS in words:
            self.begin()

    def forget(self) -> None:
        """The next session has a new one."""
        self._mark.unlink(missing_ok=True)
        self._file.unlink(missing_ok=True)
