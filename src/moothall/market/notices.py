"""What the parties are told about their deals: records as wire messages (agentchat wire 6.4)."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from msgspec import Raw

from moothall.hall.voice import quote
from moothall.identity import PublicKey
from moothall.market import escrow
from moothall.market.books import Leader, Page
from moothall.market.outcome import BOUNTIES, Notice, ServiceLine
from moothall.market.records import Proposal, Receipt, Standing
from moothall.wire.agentchat.jstext import field_text
from moothall.wire.agentchat.market import (
    AcceptNotice,
    CompleteNotice,
    DealEntry,
    DisputeNotice,
    ExpiredNotice,
    Leaderboard,
    LeaderboardEntry,
    ProposalNotice,
    Proposals,
    RatingChanges,
    Ratings,
    RatingStep,
    Receipts,
    RejectNotice,
    SkillRating,
    Stakes,
)
from moothall.wire.agentchat.server import ServerMessage

MAX_ANSWER: Final = 1024 * 1024  # bytes of a list: well within what a client may leave unread
MAX_PRICE: Final = 32  # characters of an amount, or of a currency, that a service line repeats

Item = TypeVar("Item")


def to_parties(deal: Proposal, message: ServerMessage) -> tuple[Notice]:
    """Also to the one who acted: clients wait for it (agentchat wire 18.1, points 4 and 5)."""
    return (Notice((deal.proposer, deal.recipient), message),)


def proposed(deal: Proposal) -> ProposalNotice:
    return ProposalNotice(
        ts=deal.updated_at,
        id=deal.id,
        proposal_id=deal.id,
        from_=deal.from_,
        to=deal.to,
        task=deal.task,
        amount=deal.amount,
        currency=deal.currency,
        payment_code=deal.payment_code,
        terms=deal.terms,
        capability=deal.capability,
        expires=deal.expires,
        status=deal.status,
        created_at=deal.created_at,
        sig=deal.sig,
        elo_stake=deal.proposer_stake or None,
    )


def accepted(deal: Proposal, sig: str) -> AcceptNotice:
    return AcceptNotice(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
        payment_code=deal.response_payment_code,
        sig=sig,
        proposer_stake=deal.proposer_stake or None,
        acceptor_stake=deal.acceptor_stake,
    )


def rejected(deal: Proposal, sig: str) -> RejectNotice:
    return RejectNotice(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
        reason=deal.reject_reason,
        sig=sig,
    )


def completed(deal: Proposal, by: str, sig: str, changes: RatingChanges | None) -> CompleteNotice:
    return CompleteNotice(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
        completed_by=by,
        completed_at=deal.updated_at,
        proof=deal.completion_proof,
        sig=sig,
        elo_stakes=_stakes(deal),
        rating_changes=changes,
    )


def disputed(deal: Proposal, by: str, reason: str, sig: str, changes: RatingChanges) -> DisputeNotice:
    return DisputeNotice(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
        disputed_by=by,
        disputed_at=deal.updated_at,
        reason=reason,
        sig=sig,
        elo_stakes=_stakes(deal),
        rating_changes=changes,
    )


def expired(deal: Proposal) -> ExpiredNotice:
    return ExpiredNotice(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
    )


def _stakes(deal: Proposal) -> Stakes:
    return Stakes(proposer=deal.proposer_stake, acceptor=deal.acceptor_stake)


# -- service lines -------------------------------------------------------------------------------------


def bounty_line(deal: Proposal) -> ServiceLine:
    """(agentchat wire 11.2)"""
    amount, currency = _short(deal.amount), _short(deal.currency)
    price = f" ({amount} {currency or 'ELO'})" if deal.amount else ""
    stake = f" [stake: {deal.proposer_stake} ELO]" if deal.proposer_stake else ""
    content = f'[BOUNTY] {deal.from_} → {deal.to}: "{quote(deal.task)}"{price}{stake} — {deal.id}'
    return ServiceLine(channel=BOUNTIES, content=content, about=deal.from_)


def claimed_line(deal: Proposal) -> ServiceLine:
    """(agentchat wire 11.3)"""
    content = f'[CLAIMED] {deal.id} accepted by {deal.to} — "{quote(deal.task)}"'
    return ServiceLine(channel=BOUNTIES, content=content, about=deal.from_)


def _short(value: object) -> str:
    return quote(field_text(value), MAX_PRICE)


# -- answers to questions ------------------------------------------------------------------------------


def deal_list(page: Page[Proposal], now: int) -> Proposals:
    """An entry is shorter than the record that it is made of, so that what was read fits into an answer."""
    return Proposals(ts=now, list=[_deal_entry(deal) for deal in page.items], truncated=page.truncated)


def receipt_list(page: Page[Receipt], now: int) -> Receipts:
    bodies = [Raw(receipt.body) for receipt in page.items]
    return Receipts(ts=now, list=bodies, truncated=page.truncated)


def what_fits(
    items: Iterable[Item], size: Callable[[Item], int], most: int = MAX_ANSWER
) -> tuple[list[Item], bool]:
    """The first of these, as many as are at most so many bytes together, but at least one; and whether there are
    more. No more are taken than it takes to know that."""
    fitting: list[Item] = []
    total = 0
    for item in items:
        total += size(item)
        if total > most and fitting:
            return fitting, True
        fitting.append(item)
    return fitting, False


def _deal_entry(deal: Proposal) -> DealEntry:
    return DealEntry(
        proposal_id=deal.id,
        status=deal.status,
        from_=deal.from_,
        to=deal.to,
        task=deal.task,
        amount=deal.amount,
        currency=deal.currency,
        payment_code=deal.payment_code,
        terms=deal.terms,
        capability=deal.capability,
        expires=deal.expires,
        created_at=deal.created_at,
        updated_at=deal.updated_at,
        sig=deal.sig,
        proposer_stake=deal.proposer_stake,
        acceptor_stake=deal.acceptor_stake,
        response_payment_code=deal.response_payment_code,
        reject_reason=deal.reject_reason,
        completed_at=deal.completed_at,
        completed_by=deal.completed_by,
        proof=deal.completion_proof,
        disputed_at=deal.disputed_at,
        disputed_by=deal.disputed_by,
        dispute_reason=deal.dispute_reason,
        frozen_by=deal.frozen_by,
    )


def ratings(address: str, standing: Standing, history: Iterable[tuple[int, int, str]], now: int) -> Ratings:
    return Ratings(
        ts=now,
        agent_id=address,
        rating=standing.rating,
        transactions=standing.transactions,
        escrowed=standing.escrowed,
        available=escrow.available(standing),
        updated=standing.updated,
        skills={
            capability: SkillRating(
                rating=skill.rating, transactions=skill.transactions, updated=skill.updated
            )
            for capability, skill in standing.skills.items()
        },
        history=[RatingStep(at=at, rating=rating, why=why) for at, rating, why in history],
    )


def leaderboard(leaders: Iterable[Leader], id_length: int, now: int) -> Leaderboard:
    return Leaderboard(
        ts=now,
        list=[
            LeaderboardEntry(
                agent_id=f"@{PublicKey(leader.key).agent_id(id_length)}",
                rating=leader.rating,
                transactions=leader.transactions,
            )
            for leader in leaders
        ],
    )
