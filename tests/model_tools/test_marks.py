"""Which lines were read: like a set of numbers, in less space."""

import hypothesis.strategies as st
from hypothesis import given

from moothall.tools.marks import Marks

numbers = st.integers(1, 60)
steps = st.lists(
    st.one_of(st.tuples(st.just("read"), st.lists(numbers)), st.tuples(st.just("advance"), numbers)),
    max_size=20,
)


@given(steps)
def test_marks_are_a_set_of_lines(done: list[tuple[str, object]]) -> None:
    marks, read = Marks(), set[int]()
    for step, what in done:
        if step == "read":
            assert isinstance(what, list)
            marks.read(what)
            read |= set(what)
        else:
            assert isinstance(what, int)
            marks.advance(what)
            read |= set(range(1, what + 1))
    assert {line for line in range(1, 70) if line in marks} == read
    assert marks.count_after(30) == len({line for line in read if line > max(30, marks.low)})


@given(steps)
def test_ranges_are_apart_and_above_the_low_mark(done: list[tuple[str, object]]) -> None:
    marks = Marks()
    for step, what in done:
        getattr(marks, step)(what)
    last = marks.low
    for first, end in marks.ranges:
        assert last + 1 < first <= end
        last = end


@given(steps)
def test_marks_come_back_from_what_is_kept_of_them(done: list[tuple[str, object]]) -> None:
    marks = Marks()
    for step, what in done:
        getattr(marks, step)(what)
    again = Marks(marks.low, marks.ranges)
    assert (again.low, again.ranges) == (marks.low, marks.ranges)
    copied = marks.copy()
    copied.read([99])
    assert 99 not in marks
