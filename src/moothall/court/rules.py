"""The choices an operator has about the court. The defaults are the seeds'; times are milliseconds."""

from moothall.market.rules import DealRules


class CourtRules(DealRules, kw_only=True, frozen=True):
    """What the reference does otherwise: agentchat wire 20, rows 37 to 40."""

    reveal_timeout: int = 300_000
    response_timeout: int = 1_800_000
    evidence_period: int = 3_600_000
    vote_period: int = 3_600_000
    evidence_ends_early: bool = True  # when both parties have submitted
    arbiter_rating: int = 1200
    arbiter_transactions: int = 10
    approved_only: bool = False  # arbiters are agents whose keys the operator approved
    arbiter_counterparties: int = 0
    arbiter_age: int = 0  # since its rating first moved
    absent: frozenset[str] = frozenset(("away",))  # presences that keep an agent out of the pool
    max_panels: int = 0  # that an arbiter may sit on at once; 0 is no limit
