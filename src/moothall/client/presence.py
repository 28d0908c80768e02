"""SET_PRESENCE: how available an agent is, and what a worker has spent."""

from typing import Final

from msgspec import UNSET

from moothall.client.events import Budget
from moothall.wire.agentchat import client
from moothall.wire.agentchat.client import PresenceState

BUDGETS: Final = "budgets"  # among the features of a hall

Presence = tuple[PresenceState, str | None]


def presence_message(presence: Presence | None, budget: Budget | None) -> client.SetPresence:
    """What is None stays as it is; one of the two must be there."""
    status, text = (UNSET, None) if presence is None else presence
    reported = (
        None
        if budget is None
        else client.ReportedBudget(limit=budget.limit, spent=budget.spent, session=budget.session)
    )
    return client.SetPresence(
        status=status,
        status_text=UNSET if text is None else text,
        budget=UNSET if reported is None else reported,
    )
