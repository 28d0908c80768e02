"""What handlers are told."""

from datetime import UTC, datetime
from typing import Literal

import pytest

from moothall.client.events import Gap, MissedIn

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("reason", "complete", "warning"),
    [
        (
            "hall",
            False,
            "messages may be missing in #general: nodes of the hall did not reach each other",
        ),
        ("reconnected", False, "more may have been said meanwhile than the hall remembers"),
        ("reconnected", True, ""),
        ("slow consumer", True, ""),
    ],
)
def test_a_gap_warns_people_of_what_may_be_lost(
    reason: Literal["reconnected", "slow consumer", "hall"], complete: bool, warning: str
) -> None:
    assert Gap(NOW, NOW, reason, {"#general": MissedIn((), complete)}).warning == warning
