"""Lines of sessions: everybody in one has equally long, and one appointment does for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.hall.agenda import Agenda
from moothall.hall.session import Session
from moothall.hall.waiting import WaitingLine
from tests.support.world import FakeLink


def stranger(name: str = "") -> Session:
    return Session(FakeLink(), name, "", 0.0, None)


class Town:
    """An agenda, a line of ten seconds, and who was too late."""

    def __init__(self) -> None:
        self.alarms: list[float] = []
        self.agenda = Agenda(self.alarms.append)
        self.late: list[Session] = []
        self.line = WaitingLine(self.agenda, 10.0, self.late.append)


def test_who_waits_too_long_is_too_late_and_out_of_the_line() -> None:
    town, first, second = Town(), stranger(), stranger()
    town.line.join(first, 0.0)
    town.line.join(second, 3.0)
    town.agenda.run(9.9)
    assert town.late == []
    town.agenda.run(10.0)
    assert town.late == [first]
    assert first.line is None
    assert second.line is town.line
    town.agenda.run(13.0)
    assert town.late == [first, second]
    assert not town.line.is_planned
    assert len(town.agenda) == 0


def test_however_many_wait_there_is_one_appointment() -> None:
    town = Town()
    for number in range(100):
        town.line.join(stranger(), number / 100)
    assert len(town.line) == 100
    assert len(town.agenda) == 1
    assert town.alarms == [10.0]


def test_who_has_left_is_not_too_late_and_those_behind_still_are() -> None:
    town, gone, slow = Town(), stranger(), stranger()
    town.line.join(gone, 0.0)
    town.line.join(slow, 1.0)
    town.line.leave(gone)
    town.agenda.run(10.5)
    assert town.late == []
    town.agenda.run(11.0)
    assert town.late == [slow]


def test_a_session_stands_in_one_line_at_a_time() -> None:
    town, session = Town(), stranger()
    other = WaitingLine(town.agenda, 5.0, town.late.append)
    town.line.join(session, 0.0)
    other.join(session, 1.0)
    assert session not in town.line
    assert session in other
    town.agenda.run(60.0)
    assert town.late == [session]


def test_to_join_again_is_to_begin_again() -> None:
    town, session = Town(), stranger()
    town.line.join(session, 0.0)
    town.line.join(session, 5.0)
    town.agenda.run(14.9)
    assert town.late == []
    town.agenda.run(15.0)
    assert town.late == [session]


def test_a_bug_with_one_session_does_not_keep_the_others_waiting() -> None:
    agenda, late = Agenda(lambda due: None), list[str]()

    def too_late(session: Session) -> None:
        if session.ip == "bad":
            raise ZeroDivisionError
        late.append(session.ip)

    line = WaitingLine(agenda, 10.0, too_late)
    for name in ("bad", "good", "better"):
        line.join(stranger(name), 0.0)
    with pytest.raises(ZeroDivisionError):
        agenda.run(10.0)
    agenda.run(10.0)
    assert late == ["good", "better"]


@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 30)), max_size=30))
def test_exactly_those_who_stay_too_long_are_too_late(stays: list[tuple[float, float]]) -> None:
    """Each comes at a time and stays for a time; what the line makes of it is what ten seconds mean."""
    town = Town()
    stayed = {stranger(): (came, came + stay) for came, stay in stays}
    events = [(came, 1, session) for session, (came, _) in stayed.items()]
    events += [(left, 0, session) for session, (_, left) in stayed.items()]
    for now, comes, session in sorted(events, key=lambda event: event[0]):
        town.agenda.run(now)
        if comes and stayed[session][1] > now:
            town.line.join(session, now)
        elif not comes and session in town.line:
            town.line.leave(session)
    town.agenda.run(100.0)
    expected = {session for session, (came, left) in stayed.items() if left >= came + 10.0}
    assert set(town.late) == expected
    assert len(town.late) == len(expected)
