"""The choices an operator has about the market. The defaults are the seeds'."""

from typing import Literal

from msgspec import Struct

from moothall.market.rating_rules import RatingRules


class Quotas(Struct, kw_only=True, frozen=True):
    """0 is no limit."""

    open_proposals: int = 0  # of one key, to all
    open_per_pair: int = 0  # of one key, to one other
    disk_per_key: int = 0  # bytes a day
    disk_per_address: int = 0
    loopback_factor: int = 1  # times so much disk for clients on this machine


class DealRules(Struct, kw_only=True, frozen=True):
    """What market and court go by. Codes are for refusals that the reference words differently (agentchat wire 20,
    rows 26 to 28)."""

    signature_code: Literal["INVALID_SIGNATURE", "VERIFICATION_FAILED"] = "INVALID_SIGNATURE"
    expired_code: Literal["PROPOSAL_EXPIRED", "INVALID_PROPOSAL"] = "PROPOSAL_EXPIRED"
    ratings: RatingRules = RatingRules()  # of which a verdict heeds the rules against farming


class MarketRules(DealRules, kw_only=True, frozen=True):
    stranger_code: Literal["NOT_PROPOSAL_PARTY", "INVALID_PROPOSAL"] = "NOT_PROPOSAL_PARTY"
    quotas: Quotas = Quotas()
