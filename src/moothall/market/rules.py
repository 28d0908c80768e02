"""The choices an operator has about the market. The defaults are the seeds'."""

from typing import Literal

from msgspec import Struct

from moothall.market.reputation import RatingRules


class MarketRules(Struct, kw_only=True, frozen=True):
    """Codes are for refusals that the reference words differently (agentchat wire 20, rows 26 to 28)."""

    signature_code: Literal["INVALID_SIGNATURE", "VERIFICATION_FAILED"] = "INVALID_SIGNATURE"
    stranger_code: Literal["NOT_PROPOSAL_PARTY", "INVALID_PROPOSAL"] = "NOT_PROPOSAL_PARTY"
    expired_code: Literal["PROPOSAL_EXPIRED", "INVALID_PROPOSAL"] = "PROPOSAL_EXPIRED"
    ratings: RatingRules = RatingRules()
