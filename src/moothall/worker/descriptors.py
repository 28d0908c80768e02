"""The open files of a process that was forked: it keeps its own, and lets go of its parent's."""

import os
from collections.abc import Collection
from contextlib import suppress


def close_all_but(own: Collection[int]) -> None:
    """Close what this process has of others. The end of a pipe must not wait for a process that does not use it.

    Standard input, output and errors are left alone.
    """
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # numbers, not paths
        if int(name) > 2 and int(name) not in own:
            with suppress(OSError):  # the one that lists them is closed already
                os.close(int(name))
