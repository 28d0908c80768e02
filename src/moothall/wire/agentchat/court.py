"""Court messages from server to client (agentchat wire 6.5), and ours beside them."""

from typing import Any

from msgspec import Raw, Struct, field

from moothall.wire.agentchat.client import Scalar, Verdict
from moothall.wire.agentchat.market import EscrowResult, RatingChange
from moothall.wire.agentchat.server import ServerMessage

# -- filing ----------------------------------------------------------------------------------------


class DisputeIntentAck(ServerMessage, tag="DISPUTE_INTENT_ACK", kw_only=True):
    """`reveal_deadline` and `pool_hash` are ours. The hash commits the hall to the `pool` of PANEL_FORMED."""

    dispute_id: str
    proposal_id: str
    server_nonce: str
    reveal_deadline: int
    pool_hash: str


class DisputeRevealed(ServerMessage, tag="DISPUTE_REVEALED", kw_only=True):
    dispute_id: str
    panel_size: int
    seed: str


class DisputeFallback(ServerMessage, tag="DISPUTE_FALLBACK", kw_only=True):
    """There will be no verdict: the parties may end their deal as if it had never been disputed."""

    dispute_id: str
    proposal_id: str
    reason: str


# -- the panel -------------------------------------------------------------------------------------


class PanelFormed(ServerMessage, tag="PANEL_FORMED", kw_only=True):
    """Ours: `pool` is what the seed shuffled, and `skipped` whom the draw passed over, so that the panel
    can be recomputed."""

    dispute_id: str
    proposal_id: str
    arbiters: list[str]
    disputant: str
    respondent: str
    evidence_deadline: int | None
    vote_deadline: int | None
    seed: str
    server_nonce: str
    pool: list[str]
    skipped: list[str]


class ArbiterAssigned(ServerMessage, tag="ARBITER_ASSIGNED", kw_only=True):
    dispute_id: str
    proposal_id: str
    disputant: str
    respondent: str
    reason: str
    response_deadline: int
    is_replacement: bool = False


# -- evidence --------------------------------------------------------------------------------------


class EvidenceReceived(ServerMessage, tag="EVIDENCE_RECEIVED", kw_only=True):
    dispute_id: str
    from_: str = field(name="from")
    items_count: int


class CaseProposal(Struct, kw_only=True, gc=False):
    id: str
    from_: str = field(name="from")
    to: str
    task: str
    amount: Scalar | None
    currency: Scalar | None


class CaseEvidence(Struct, kw_only=True, gc=False):
    """Each item as it was sent, with `hash`."""

    items: list[dict[str, Any]]
    statement: str
    sig: str


class CaseReady(ServerMessage, tag="CASE_READY", kw_only=True):
    dispute_id: str
    proposal: CaseProposal | None
    disputant: str
    disputant_evidence: CaseEvidence | None
    respondent: str
    respondent_evidence: CaseEvidence | None
    vote_deadline: int


# -- the verdict -----------------------------------------------------------------------------------


class Vote(Struct, kw_only=True, gc=False):
    arbiter: str
    verdict: Verdict
    reasoning: str


class ArbiterResult(Struct, kw_only=True, gc=False):
    arbiter: str
    verdict: Verdict | None
    reasoning: str | None
    reward: int


class VerdictNotice(ServerMessage, tag="VERDICT", kw_only=True):
    dispute_id: str
    proposal_id: str
    verdict: Verdict
    votes: list[Vote]
    arbiter_results: list[ArbiterResult]
    resolved_at: int


class SettlementComplete(ServerMessage, tag="SETTLEMENT_COMPLETE", kw_only=True):
    """`rating_changes` by agent; the stakes under `_escrow`, as in COMPLETE and DISPUTE."""

    dispute_id: str
    proposal_id: str
    verdict: Verdict
    rating_changes: dict[str, RatingChange | EscrowResult]


# -- ours: looking cases up ------------------------------------------------------------------------


class CaseEntry(Struct, kw_only=True, gc=False):
    """One case in CASES."""

    dispute_id: str
    proposal_id: str
    phase: str
    disputant: str
    respondent: str
    reason: str
    role: str  # of the agent that asked: disputant, respondent or arbiter
    slot: str | None  # the status of the arbiter that asked
    deadline: int | None  # of the phase
    filed_at: int
    verdict: Verdict | None


class Cases(ServerMessage, tag="CASES", kw_only=True):
    """Ours: the cases in which the agent that asked has a part, newest first."""

    list: list[CaseEntry]
    truncated: bool = False


class CaseFile(ServerMessage, tag="CASE", kw_only=True):
    """Ours: everything that was said and decided in one case, so that any agent can verify it."""

    case: Raw
