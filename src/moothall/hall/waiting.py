"""Sessions that owe the hall an answer stand in lines. All sessions of one line have the same timeout.

So each line is in order by itself, and one appointment, for its first session, serves the whole line. Nearly
every session answers at once, and then its wait costs no more than an entry in a dictionary.
"""

from collections.abc import Callable
from itertools import takewhile
from typing import Any, Generic, Protocol, TypeVar

from moothall.hall.agenda import Agenda


class Waiter(Protocol):
    """A session, or a connection of another wire."""

    @property
    def line(self) -> "WaitingLine[Any] | None": ...

    @line.setter
    def line(self, line: "WaitingLine[Any] | None") -> None: ...


Who = TypeVar("Who", bound=Waiter)


class WaitingLine(Generic[Who]):
    def __init__(self, agenda: Agenda, seconds: float, too_late: Callable[[Who], None]) -> None:
        self._agenda = agenda
        self._seconds = seconds
        self._too_late = too_late
        self._due: dict[Who, float] = {}  # the earliest first
        self._planned = False  # an appointment is in the agenda

    def __len__(self) -> int:
        return len(self._due)

    def __contains__(self, session: object) -> bool:
        return session in self._due

    @property
    def is_planned(self) -> bool:
        return self._planned

    def join(self, session: Who, now: float) -> None:
        """A session stands in one line at a time."""
        if session.line is not None:
            session.line.leave(session)
        session.line = self
        self._due[session] = now + self._seconds
        if not self._planned:
            self._plan()

    def leave(self, session: Who) -> None:
        del self._due[session]
        session.line = None

    def _plan(self) -> None:
        self._planned = True
        due = next(iter(self._due.values()))
        self._agenda.at(due, lambda: self._look(due))

    def _look(self, due: float) -> None:
        """The session that this appointment was made for has mostly answered; the next one may have time left."""
        late = [session for session, _ in takewhile(lambda entry: entry[1] <= due, self._due.items())]
        try:
            for session in late:
                self.leave(session)
                self._too_late(session)
        finally:
            # Whatever a bug did to one of them, the others' time ends too.
            self._planned = False
            if self._due:
                self._plan()
