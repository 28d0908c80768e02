"""Questions of other nodes about lines of channels that this node does not have yet.

The node of an author that wants receipts asks this one directly. The line itself comes from the home of its
channel. So it can come after the question, or not at all.
"""

from collections.abc import Callable
from typing import Final

from moothall.hall.agenda import Agenda, Appointment

WAIT_SECONDS: Final = 15.0  # a dead home is replaced sooner, and lost records are asked for sooner
MAX_WAITING: Final = 20_000  # questions

Told = Callable[[bool], None]


class _Line:
    __slots__ = ("asked", "expires")

    def __init__(self, expires: float) -> None:
        self.asked: list[Told] = []
        self.expires = expires


class AwaitedLines:
    def __init__(self, agenda: Agenda, now: Callable[[], float]) -> None:
        self._agenda = agenda
        self._now = now
        # By id; all wait equally long, so this is the order of their expiry
        self._lines: dict[str, _Line] = {}
        self._waiting = 0
        self._expiry: Appointment | None = None

    def wait_for(self, msg_id: str, told: Told) -> None:
        """Call `told` with True when the line has come; with False if it does not come, or too many wait."""
        if self._waiting >= MAX_WAITING:
            told(False)
            return
        line = self._lines.get(msg_id)
        if line is None:
            line = self._lines[msg_id] = _Line(self._now() + WAIT_SECONDS)
            self._plan()
        line.asked.append(told)
        self._waiting += 1

    def settle(self, msg_id: str, *, has_come: bool) -> None:
        """The agents of this node have been told the line, or never will be."""
        line = self._lines.pop(msg_id, None)
        if line is not None:
            self._waiting -= len(line.asked)
            for told in line.asked:
                told(has_come)

    def _plan(self) -> None:
        """One appointment, for the oldest."""
        if self._expiry is None and self._lines:
            first = next(iter(self._lines.values()))
            self._expiry = self._agenda.at(first.expires, self._expire)

    def _expire(self) -> None:
        self._expiry = None
        now = self._now()
        for msg_id in [msg_id for msg_id, line in self._lines.items() if line.expires <= now]:
            self.settle(msg_id, has_come=False)
        self._plan()
