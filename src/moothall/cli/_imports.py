"""Imports of a command: what they make stays to the end, so no search for garbage has to walk over it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imports_that_stay() -> Iterator[None]:
    """Import in this block. Python does not look for garbage in it, and never in what is there afterwards.

    It would do so a hundred times while modules are imported, and once more at the exit: a fifth of the time of a
    command that says one line.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
