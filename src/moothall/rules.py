"""Settings as the rules that market, court and mesh go by."""

from moothall.court.farming import AS_FAST_AS_IT_GETS, Limits
from moothall.court.rules import CourtRules
from moothall.market.conversing import MeshRules
from moothall.market.rating_rules import RatingRules
from moothall.market.rules import MarketRules, Quotas
from moothall.settings import Settings


def market_rules(settings: Settings) -> MarketRules:
    return MarketRules(
        signature_code=settings.signature_code,
        stranger_code=settings.stranger_code,
        expired_code=settings.expired_code,
        ratings=rating_rules(settings),
        quotas=quotas_of(settings),
    )


def quotas_of(settings: Settings) -> Quotas:
    if settings.no_limits:
        return Quotas()
    return Quotas(
        open_proposals=settings.max_open_proposals,
        open_per_pair=settings.max_open_proposals_per_pair,
        disk_per_key=settings.disk_quota_per_key,
        disk_per_address=settings.disk_quota_per_address,
        loopback_factor=settings.loopback_factor,
    )


def mesh_rules(settings: Settings) -> MeshRules:
    return MeshRules(
        review=round(settings.mesh_review * 1000),
        approval=settings.mesh_approval,
        escrow_timeout=round(settings.mesh_escrow_timeout * 1000),
        ratings=rating_rules(settings),
        quotas=quotas_of(settings),
    )


def rating_rules(settings: Settings) -> RatingRules:
    gain = settings.rating_gain_limit
    return RatingRules(
        amount_weighting=settings.gain_by_amount,
        diminishing=settings.gain_diminishing,
        pair_cooldown=round(settings.pair_cooldown * 1000),
        minimum_age=round(settings.minimum_deal_age * 1000),
        newcomer_cap=settings.newcomer_transfer_cap,
        gain_limit=gain.limit,
        gain_window=max(1, round(gain.seconds * 1000)),
        loopback_factor=settings.loopback_factor,
    )


def court_rules(settings: Settings) -> CourtRules:
    return CourtRules(
        signature_code=settings.signature_code,
        expired_code=settings.expired_code,
        reveal_timeout=round(settings.court_reveal_timeout * 1000),
        response_timeout=round(settings.court_response_timeout * 1000),
        evidence_period=round(settings.court_evidence_period * 1000),
        vote_period=round(settings.court_vote_period * 1000),
        evidence_ends_early=settings.court_evidence_early,
        arbiter_rating=settings.court_arbiter_rating,
        arbiter_transactions=settings.court_arbiter_transactions,
        approved_only=settings.court_arbiters_approved,
        arbiter_counterparties=settings.court_arbiter_counterparties,
        arbiter_age=round(settings.court_arbiter_age * 1000),
        absent=frozenset(settings.court_absent),
        max_panels=settings.court_max_panels,
        ratings=rating_rules(settings),
    )


def farming_limits(settings: Settings) -> Limits:
    """What a hall lets one address do that is not on loopback."""
    if settings.no_limits:
        return Limits()
    return Limits(
        frames=settings.rate_post_auth.per_second or AS_FAST_AS_IT_GETS,
        address_frames=settings.address_frames.per_second or AS_FAST_AS_IT_GETS,
        new_keys=settings.new_keys_per_hour,
    )
