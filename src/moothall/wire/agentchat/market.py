"""Market messages from server to client (agentchat wire 6.4), and ours beside them.

`from` and `to` always mean proposer and recipient, at every step. Values that may be null are sent as null.
"""

from typing import Any, Literal

from msgspec import UNSET, Raw, Struct, UnsetType, field

from moothall.wire.agentchat.client import Scalar
from moothall.wire.agentchat.server import ServerMessage

Status = Literal["pending", "accepted", "rejected", "completed", "disputed", "expired"]


class RatingChange(Struct, kw_only=True, gc=False, rename="camel"):
    """What a settlement did to one agent (agentchat wire 12.6). `change` is the number before the floor."""

    old_rating: int
    new_rating: int
    change: int
    transactions: int
    withheld: int | UnsetType = UNSET  # ours: points that the rules against farming kept from it


class EscrowResult(Struct, kw_only=True, omit_defaults=True, gc=False):
    """Where the stakes went: the key `_escrow` of `rating_changes`."""

    proposer_stake: int
    acceptor_stake: int
    settlement: Literal["returned", "transferred", "burned"]
    transferred_to: str | None = None
    transferred_amount: int | UnsetType = UNSET
    burned_amount: int | UnsetType = UNSET


RatingChanges = dict[str, RatingChange | EscrowResult]


class Stakes(Struct, kw_only=True, gc=False):
    proposer: int
    acceptor: int


# -- deals -----------------------------------------------------------------------------------------


class ProposalNotice(ServerMessage, tag="PROPOSAL", kw_only=True):
    """Clients read the id from `id`, the MCP server from `proposal_id` (agentchat wire 18.1)."""

    id: str
    proposal_id: str
    from_: str = field(name="from")
    to: str
    task: str
    amount: Scalar | None
    currency: Scalar | None
    payment_code: Scalar | None
    terms: Any
    capability: str | None = None  # ours
    expires: int | None
    status: Status
    created_at: int
    sig: str
    elo_stake: int | None


class DealNotice(ServerMessage, kw_only=True):
    """What every step of a deal says."""

    proposal_id: str
    status: Status
    updated_at: int
    from_: str = field(name="from")
    to: str


class AcceptNotice(DealNotice, tag="ACCEPT", kw_only=True):
    payment_code: Scalar | None
    sig: str
    proposer_stake: int | None
    acceptor_stake: int


class RejectNotice(DealNotice, tag="REJECT", kw_only=True):
    reason: Scalar | None
    sig: str


class CompleteNotice(DealNotice, tag="COMPLETE", kw_only=True):
    completed_by: str
    completed_at: int
    proof: Scalar | None
    sig: str
    elo_stakes: Stakes
    rating_changes: RatingChanges | None


class DisputeNotice(DealNotice, tag="DISPUTE", kw_only=True):
    disputed_by: str
    disputed_at: int
    reason: str
    sig: str
    elo_stakes: Stakes
    rating_changes: RatingChanges | None


class ExpiredNotice(DealNotice, tag="EXPIRED", kw_only=True):
    """Ours: the deadline passed. Clients that do not know it ignore it."""


class DealEntry(Struct, kw_only=True, gc=False):
    """One deal in PROPOSALS: all that its parties were told about it."""

    proposal_id: str
    status: Status
    from_: str = field(name="from")
    to: str
    task: str
    amount: Scalar | None
    currency: Scalar | None
    payment_code: Scalar | None
    terms: Any
    capability: str | None
    expires: int | None
    created_at: int
    updated_at: int
    sig: str
    proposer_stake: int
    acceptor_stake: int
    response_payment_code: Scalar | None
    reject_reason: Scalar | None
    completed_at: int | None
    completed_by: str | None
    proof: Scalar | None
    disputed_at: int | None
    disputed_by: str | None
    dispute_reason: str | None
    frozen_by: str | None


class Proposals(ServerMessage, tag="PROPOSALS", kw_only=True):
    """Ours: the deals of the agent that asked, newest first; `truncated` when there are more than fit."""

    list: list[DealEntry]
    truncated: bool = False


class Receipts(ServerMessage, tag="RECEIPTS", kw_only=True):
    """Ours: each a receipt as it is kept, with the signed operations behind it."""

    list: list[Raw]
    truncated: bool = False


# -- skills ----------------------------------------------------------------------------------------


class SkillsRegistered(ServerMessage, tag="SKILLS_REGISTERED", kw_only=True):
    agent_id: str
    skills_count: int
    registered_at: int


class SearchResults(ServerMessage, tag="SEARCH_RESULTS", kw_only=True):
    query_id: Scalar | None
    query: dict[str, Any] | list[Any]
    results: list[dict[str, Any]]
    total: int


# -- ratings ---------------------------------------------------------------------------------------


class SkillRating(Struct, kw_only=True, gc=False):
    rating: int
    transactions: int
    updated: int | None


class MeshReputation(Struct, kw_only=True, gc=False):
    """What agents of the mesh say about an agent. The first three are averages of scores from -100 to 100, times
    1000."""

    reliability: int
    cooperation: int
    notary_accuracy: int
    total_tasks: int
    total_notarized: int
    total_disputes: int
    last_active_epoch: int


class RatingStep(Struct, kw_only=True, gc=False):
    at: int
    rating: int
    why: str


class Ratings(ServerMessage, tag="RATINGS", kw_only=True):
    """Ours: how one agent stands, and how it came to that, newest first."""

    agent_id: str
    rating: int
    transactions: int
    escrowed: int
    available: int
    updated: int | None
    skills: dict[str, SkillRating]
    history: list[RatingStep]
    mesh: MeshReputation | UnsetType = UNSET


class LeaderboardEntry(Struct, kw_only=True, gc=False):
    agent_id: str
    rating: int
    transactions: int
    mesh: MeshReputation | UnsetType = UNSET


class Leaderboard(ServerMessage, tag="LEADERBOARD", kw_only=True):
    """Ours: the best rated agents, best first."""

    list: list[LeaderboardEntry]
