"""The number of a session: one more with each run, and never less (seed 001, container agents).

The new number is on disk before the session begins. A runner that is killed before that has had no session. One
that is killed after it leaves a gap. Runners of one agent count one after the other, because they hold a lock.
"""

from pathlib import Path
from typing import Final

from moothall.errors import UsageError
from moothall.worker import state_file

_DIGITS: Final = 18


def begin(path: Path) -> int:
    """Count one more session, and return its number. Raises UsageError for a file without a number, or OSError."""
    number = current(path) + 1
    state_file.write(path, f"{number}\n".encode())
    return number


def current(path: Path) -> int:
    """The number of the last session; 0 if there was none. Raises UsageError or OSError."""
    content = state_file.read(path)
    if content is None:
        return 0
    text = content.strip()
    if not text.isdigit() or len(text) > _DIGITS:
        # To begin with 1 again would give two sessions one number.
        raise UsageError(f"{path} has no session number: write the number of the last session into it")
    return int(text)
