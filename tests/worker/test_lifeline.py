"""The pipe that carries the secrets, and ends with the supervisor."""

import os

import pytest

from moothall.errors import UsageError
from moothall.worker import lifeline
from moothall.worker.lifeline import Secrets

LONGEST = Secrets("x" * (lifeline.MAX_TOKEN - 1), "y" * (lifeline.MAX_IDENTITY - 1))


@pytest.mark.parametrize(
    "secrets",
    [Secrets("secret", '{"a": "b c"}'), Secrets("secret"), Secrets(None, "key"), Secrets(), LONGEST],
)
def test_the_secrets_go_through_and_the_pipe_stays_open(secrets: Secrets) -> None:
    reading, writing = lifeline.with_secrets(secrets)
    assert lifeline.read_secrets(reading) == secrets
    os.set_blocking(reading, False)
    with pytest.raises(BlockingIOError):
        os.read(reading, 1)
    os.close(writing)
    assert os.read(reading, 1) == b""
    os.close(reading)


def test_a_pipe_that_ends_at_once_has_no_secrets() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert lifeline.read_secrets(reading) == Secrets()
    os.close(reading)


def test_secrets_are_not_shown() -> None:
    assert repr(Secrets("secret", "key")) == "<Secrets ['token', 'identity']>"


@pytest.mark.parametrize("value", ["x", "99999", "-1"])
def test_a_variable_that_is_not_from_a_supervisor_is_an_error(value: str) -> None:
    with pytest.raises(UsageError, match="unset it"):
        lifeline.inherited({lifeline.VARIABLE: value})
