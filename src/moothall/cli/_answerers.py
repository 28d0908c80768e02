"""Who is working on an answer, beside what is said.

On a terminal it is one line below the messages, which changes and disappears. Elsewhere, such as in a file, each
change is a line of its own. Both go to standard error: standard output has the messages alone.
"""

import os
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Final, TextIO

from moothall.tui.printable import one_line, shown_name

if TYPE_CHECKING:
    from moothall import Agent, Answering, FloorChange

MAX_NAMED: Final = 3
CLEAR_LINE: Final = "\r\x1b[K"

# How a claim ended that was not answered; an answer speaks for itself.
_ENDS: Final = {
    "released": "does not answer",
    "expired": "has not answered in time",
    "yielded": "leaves the answer to another agent",
    "left": "is gone without an answer",
}


class Answerers:
    def __init__(self, agent: "Agent", stream: TextIO | None = None) -> None:
        self._agent = agent
        self._stream = sys.stderr if stream is None else stream
        self._is_live = self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._line = ""

    def changed(self, change: "FloorChange") -> None:
        """A claim began or ended."""
        if self._is_live:
            self.hide()
            self.show()
        elif change.state == "claimed":
            self._print(change, "is answering")
        elif change.state in _ENDS:
            self._print(change, _ENDS[change.state])

    def hide(self) -> None:
        """Make room for a message."""
        if self._line:
            self._stream.write(CLEAR_LINE)
            self._stream.flush()
            self._line = ""

    def show(self) -> None:
        """Who is answering now, on the last line."""
        if not self._is_live:
            return
        self._line = _sentence(self._agent.answering())
        if self._line:
            width = os.get_terminal_size(self._stream.fileno()).columns or 80
            self._stream.write(self._line[: width - 1])
            self._stream.flush()

    def _print(self, change: "FloorChange", what: str) -> None:
        now = datetime.now().astimezone()
        self._stream.write(f"{now:%H:%M:%S} {one_line(change.channel)} {_name(change)} {what}\n")
        self._stream.flush()


def _sentence(answering: "list[Answering]") -> str:
    """`echo is answering in #general…`"""
    names = list(dict.fromkeys(_name(each) for each in answering))
    if not names:
        return ""
    where = ", ".join(dict.fromkeys(one_line(each.channel) for each in answering))
    if len(names) > MAX_NAMED:
        return f"{len(names)} agents are answering in {where}…"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} answering in {where}…"


def _name(answering: "Answering") -> str:
    return shown_name(answering.name or answering.id)
