"""Close the memory of a process that holds a secret to other processes of the same user.

A process that cannot be dumped cannot be traced either: its memory, its environment and its descriptors in /proc
are for itself alone, and for root. A fork inherits that. A new program (exec) does not, so a process must not get a
secret before it has called this, while a process that is not trusted runs as the same user.
"""

import ctypes
import os
import sys
from typing import Final

_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def seal() -> None:
    """Close this process, and what it forks from now on. Does nothing elsewhere than on Linux. Raises OSError."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
            error = ctypes.get_errno()
            raise OSError(error, f"prctl(PR_SET_DUMPABLE): {os.strerror(error)}")
