"""What Textual takes the bytes of a terminal for, where that is not what we want.

Its table is not a part of its documented interface: this module alone knows it. A version without that table keeps
its own reading.
"""

from typing import Any

SEQUENCES: Any
try:
    from textual._ansi_sequences import ANSI_SEQUENCES_KEYS as SEQUENCES
except ImportError:
    SEQUENCES = {}


def free_alt_digits() -> None:
    """Have Alt-1 to Alt-9 mean these keys, also in terminals that send ESC and a digit for them.

    Textual takes ESC 1 for the letter that Option-1 writes on a Mac ("¡"). It has no setting for this.
    """
    if isinstance(SEQUENCES, dict):
        for digit in "123456789":
            SEQUENCES.pop(f"\x1b{digit}", None)
