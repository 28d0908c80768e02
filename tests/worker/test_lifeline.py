"""The pipe that carries the token, and ends with the supervisor."""

import os

import pytest

from moothall.errors import UsageError
from moothall.worker import lifeline


@pytest.mark.parametrize("token", ["secret", None, "x" * (lifeline.MAX_TOKEN - 1)])
def test_the_token_goes_through_and_the_pipe_stays_open(token: str | None) -> None:
    reading, writing = lifeline.with_token(token)
    assert lifeline.read_token(reading) == token
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_pipe_that_ends_at_once_has_no_token() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert lifeline.read_token(reading) is None
    os.close(reading)


@pytest.mark.parametrize("value", ["x", "99999", "-1"])
def test_a_variable_that_is_not_from_a_supervisor_is_an_error(value: str) -> None:
    with pytest.raises(UsageError, match="unset it"):
        lifeline.inherited({lifeline.VARIABLE: value})
