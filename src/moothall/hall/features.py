"""Our additions to the agentchat wire, by name: WELCOME lists those that this hall serves (docs/wire.md)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from moothall.settings import Settings

RECEIPTS: Final = "receipts"
GAPS: Final = "gaps"


class Feature(NamedTuple):
    name: str
    is_served: Callable[[Settings], bool] = lambda settings: True


FEATURES: Final = (
    Feature("ref"),  # a reply echoes the `ref` of its request; ACK
    Feature("kind"),  # `kind: "human"` in IDENTIFY, and where agents are shown
    Feature("release", lambda settings: settings.floor),  # RELEASE; FLOOR_RELEASED, also when a claim expires
    Feature(RECEIPTS),  # delivery receipts: `receipt` in MSG, RECEIPT; for clients whose IDENTIFY names it
    Feature(GAPS, lambda settings: bool(settings.bus)),  # GAP, for clients whose IDENTIFY names it
    Feature("lists"),  # LIST_PROPOSALS, LIST_RECEIPTS, GET_RATING, GET_LEADERBOARD
    Feature("agents"),  # LIST_AGENTS without `channel`
    Feature("cases"),  # LIST_CASES, GET_CASE
    Feature("revoke"),  # REVOKE_KEY
    Feature("api"),  # API_TOKEN, for /api/v1/
    Feature("bans"),  # ADMIN_BANS
    Feature(
        "budgets"
    ),  # `budget` in SET_PRESENCE, AGENTS and PRESENCE_CHANGED; ADMIN_BUDGET, ADMIN_SET_BUDGET
    Feature("hall_key"),  # CHALLENGE names the hall; receipts and cases carry its signature
    Feature("keep", lambda settings: settings.keep),  # MSG from keep clients: `via`, `packet`
    Feature("mesh", lambda settings: settings.mesh),  # MSG from mesh agents: the same
)


def served(settings: Settings) -> tuple[str, ...]:
    return tuple(feature.name for feature in FEATURES if feature.is_served(settings))
