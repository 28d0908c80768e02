"""Files in folders that an agent can write to: it may put a link, a pipe or a folder in the place of any of them.

A link would lead elsewhere. The one who opens a pipe would wait for ever, and a guard that waits guards nothing.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

_OWNER_ONLY: Final = 0o600


def open_plain(path: Path, flags: int) -> int:
    """A descriptor of a regular file, without waiting. A new file is for its owner alone.

    Raises OSError, also for what is not a regular file.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _OWNER_ONLY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "It is not a regular file", str(path))
    return descriptor
