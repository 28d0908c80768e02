"""The process that takes the keeper's place when it is killed: it waits on a pipe that ends with the keeper.

It is small, because it loads nothing but this while it waits. When it takes over, it becomes the keeper's program.
"""

import os
import sys
import time
from typing import Final

from moothall.worker import entry

TAKEOVER: Final = "--takeover"
DISMISSED: Final = b"q"  # the keeper ends in order: nothing is to be taken over
SOON: Final = 5.0  # seconds; a keeper that dies sooner may die again
PAUSE: Final = 1.0  # seconds before such a one is replaced


def main() -> None:
    """Wait for the end of the keeper. If it was not in order, become the keeper."""
    began = time.monotonic()
    if os.read(0, 1) == DISMISSED:
        return
    if time.monotonic() - began < SOON:
        time.sleep(PAUSE)
    words = [*entry.program("moothall.worker.crew.keeper"), sys.argv[1], TAKEOVER]
    os.execv(words[0], words)  # noqa: S606  # the same pid, another program


if __name__ == "__main__":
    main()
