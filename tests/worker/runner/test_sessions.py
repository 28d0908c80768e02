"""The number of a session never goes back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.errors import UsageError
from moothall.worker.runner import sessions


def test_it_begins_with_1_and_rises(tmp_path: Path) -> None:
    path = tmp_path / "session_num"
    assert sessions.current(path) == 0
    assert [sessions.begin(path) for _ in range(3)] == [1, 2, 3]
    assert sessions.current(path) == 3


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "9" * 19])
def test_a_file_without_a_number_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "session_num"
    path.write_text(text)
    with pytest.raises(UsageError, match="write the number of the last session into it"):
        sessions.begin(path)
    assert path.read_text() == text


@given(number=st.integers(0, 10**17))
def test_any_number_is_followed_by_the_next(tmp_path_factory: pytest.TempPathFactory, number: int) -> None:
    path = tmp_path_factory.mktemp("sessions") / "session_num"
    path.write_text(f"{number}\n")
    assert sessions.begin(path) == number + 1
