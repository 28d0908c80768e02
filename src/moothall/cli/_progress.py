"""A line on a terminal that shows how far a transfer is, how fast, and how long it will take."""

import shutil
import sys
from typing import TYPE_CHECKING, Final

from moothall.files.slurp import human_size

if TYPE_CHECKING:
    from moothall import Progress

LONGEST_BAR: Final = 40  # characters
_CLEAR: Final = "\r\x1b[K"


def as_text(progress: "Progress", width: int) -> str:
    """`[#####.....]  50 %  1.2 MB/s  0:21 left`, in at most `width` characters."""
    left = progress.seconds_left
    facts = f"{progress.fraction:4.0%}  {human_size(round(progress.rate))}/s"
    if left is not None:
        minutes, seconds = divmod(round(left), 60)
        facts += f"  {minutes}:{seconds:02} left"
    length = min(LONGEST_BAR, width - len(facts) - 5)
    if length < 1:
        return facts[:width]
    done = int(length * progress.fraction)
    return f"[{'#' * done}{'.' * (length - done)}] {facts}"


class ProgressLine:
    """Shows itself on standard error, if that is a terminal. Leaving the block takes the line away."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def __enter__(self) -> "ProgressLine":
        return self

    def __exit__(self, *_: object) -> None:
        self._write(_CLEAR)

    def show(self, progress: "Progress") -> None:
        self._write(_CLEAR + as_text(progress, shutil.get_terminal_size().columns - 1))

    def _write(self, text: str) -> None:
        if self._is_terminal:
            sys.stderr.write(text)
            sys.stderr.flush()
