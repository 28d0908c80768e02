"""The exit code of a session."""

import pytest

from moothall.worker.runner.verdict import exit_code

LOGIN = "Invalid API key · Please run /login"


@pytest.mark.parametrize("code", [0, 1, 2, 77, 143])
def test_without_events_the_code_is_that_of_the_program(code: int) -> None:
    assert exit_code(code, None, [LOGIN], has_events=False) == code


@pytest.mark.parametrize("has_events", [True, False])
def test_a_used_up_budget_is_final(has_events: bool) -> None:
    assert exit_code(1, "budget", [], has_events=has_events) == 2
    assert exit_code(0, "budget", [], has_events=has_events) == 2


@pytest.mark.parametrize("reason", ["timeout", "rate-sends", "stall", "abort"])
def test_other_reasons_of_the_guard_are_not(reason: str) -> None:
    assert exit_code(1, reason, [], has_events=True) == 1


@pytest.mark.parametrize(
    "line",
    [
        LOGIN,
        "API Error: 401 authentication_error: invalid x-api-key",
        "OAuth token has expired. Obtain a new one",
        "[error] Credit balance is too low",
        "Error code: 429 - insufficient_quota",
        "Incorrect API key provided",
    ],
)
def test_no_login_and_no_credit_are_final(line: str) -> None:
    assert exit_code(1, None, ["x", line, "y"], has_events=True) == 2
    assert exit_code(0, None, [line], has_events=True) == 0


def test_other_errors_are_not() -> None:
    assert exit_code(1, None, ["overloaded_error", "429 rate_limit_error"], has_events=True) == 1


def test_a_misused_program_may_be_started_again() -> None:
    assert exit_code(2, None, ["error: unknown option"], has_events=True) == 1
