"""Every decision about a deal. Its life is in `statuses`, and what is asked before a decision is in `admission`.

Each decision takes the records it needs and a command whose signature was checked, and returns an Outcome or
raises a Refusal.

A signature is over the operation and the id of the deal, and no way leads back to a status, so each is good for one
deal and one time.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, UnsetType, structs

from moothall.errors import AgentNotFound, DisputeAlreadyExists, InvalidProposal, RateLimited
from moothall.identity.seals import Seal
from moothall.market import escrow, hooks
from moothall.market.admission import admit
from moothall.market.audit import audit_row
from moothall.market.commands import Accept, Complete, Dispute, Propose, Reject
from moothall.market.completion import Party, completion_shares
from moothall.market.movement import Movement
from moothall.market.news import Accepted, Completed, Disputed, Expired, Proposed, Rejected, to_parties
from moothall.market.outcome import MarketOutcome, Outcome
from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.receipts import build_receipt
from moothall.market.records import Change, EscrowResult, Number, Proposal, Standing
from moothall.market.reputation import dispute_loss, half_of_loss
from moothall.market.rules import MarketRules
from moothall.market.settlement import settle
from moothall.market.signed import Signed, SignedCommand
from moothall.market.statuses import can_expire, next_status
from moothall.market.transfers import Side, transfer_shares
from moothall.wire.agentchat.jstext import round_half_up

Standings = Mapping[bytes, Standing]

LAST_MOMENT: Final = 8_640_000_000_000_000  # the last millisecond that JavaScript can name


# -- decisions -----------------------------------------------------------------------------------------


def propose(
    order: Signed[Propose],
    standings: Standings,
    *,
    proposal_id: str,
    address: str,
    recipient: bytes | None,
    now: int,
) -> MarketOutcome:
    """`address` is the proposer's "@id", `recipient` the key behind `to`.

    A stake that the proposer does not have is refused at once. It is put aside at ACCEPT, and checked again there:
    the proposer may have lost rating, or staked it elsewhere.
    """
    offer = order.command
    if recipient is None:
        raise AgentNotFound(f"{offer.to} is not known here")
    if recipient == order.key:
        raise InvalidProposal("An agent cannot deal with itself")
    if offer.stake:
        escrow.require_available(address, standings[order.key], offer.stake)
    deal = Proposal(
        id=proposal_id,
        proposer=order.key,
        recipient=recipient,
        from_=address,
        to=offer.to,
        task=offer.task,
        amount=offer.amount,
        currency=offer.currency,
        payment_code=offer.payment_code,
        terms=offer.terms,
        capability=offer.capability,
        expires=None if offer.expires is None else _deadline(offer.expires, now),
        expires_asked=offer.expires,
        created_at=now,
        updated_at=now,
        sig=order.sig,
        proposer_stake=offer.stake,
        signed_texts=UNSET if order.text is None else {"PROPOSAL": order.text},
    )
    return Outcome(
        changes=(deal, audit_row("propose", deal.id, now, order=order)), notices=to_parties(Proposed(deal))
    )


def accept(
    order: Signed[Accept],
    deal: Proposal | None,
    standings: Standings,
    *,
    now: int,
    rules: MarketRules,
) -> MarketOutcome:
    deal, status = admit(order, deal, "accept", now, rules)
    deal = structs.replace(
        deal,
        status=status,
        updated_at=now,
        acceptor_stake=order.command.stake,
        response_sig=order.sig,
        response_payment_code=order.command.payment_code,
        signed_texts=_texts(deal, "ACCEPT", order),
    )
    movement = None
    staked: tuple[Change, ...] = ()
    if escrow.is_open(deal):
        movement = escrow.lock(deal, standings[deal.proposer], standings[deal.recipient], now)
        staked = (*movement.changes(), hooks.escrow_created(deal, now))
    row = audit_row("accept", deal.id, now, order=order, movement=movement)
    return Outcome(changes=(deal, row, *staked), notices=to_parties(Accepted(deal)))


def reject(order: Signed[Reject], deal: Proposal | None, *, now: int, rules: MarketRules) -> MarketOutcome:
    deal, status = admit(order, deal, "reject", now, rules)
    deal = structs.replace(
        deal,
        status=status,
        updated_at=now,
        reject_reason=order.command.reason,
        response_sig=order.sig,
    )
    return Outcome(
        changes=(deal, audit_row("reject", deal.id, now, order=order)), notices=to_parties(Rejected(deal))
    )


def complete(
    order: Signed[Complete],
    deal: Proposal | None,
    standings: Standings,
    *,
    pair: PairHistory,
    now: int,
    rules: MarketRules,
    seal: Seal,
) -> MarketOutcome:
    """Both gain, and both get their stakes back (seed 000, complete 4)."""
    deal, status = admit(order, deal, "complete", now, rules)
    if rules.ratings.too_young(deal.created_at, now):
        raise RateLimited("This proposal is too young to be completed; try again later")
    done = structs.replace(
        deal,
        status=status,
        updated_at=now,
        completed_at=now,
        completed_by=_address(deal, order.key),
        completion_proof=order.command.proof,
        completion_sig=order.sig,
        signed_texts=_texts(deal, "COMPLETE", order),
    )
    movement = _completion(deal, standings, pair, now, rules.ratings)
    news = Completed(done, movement)
    return Outcome(
        changes=(
            done,
            audit_row("complete", done.id, now, order=order, movement=movement),
            *movement.changes(),
            build_receipt(news, now, seal),
            hooks.settlement_completion(done, movement, now),
        ),
        notices=to_parties(news),
    )


def dispute(
    order: Signed[Dispute],
    deal: Proposal | None,
    standings: Standings,
    *,
    now: int,
    rules: MarketRules,
) -> MarketOutcome:
    """The party being disputed is at fault: it loses rating, and its stake (seed 000, dispute 4)."""
    deal, status = admit(order, deal, "dispute", now, rules)
    if order.key in deal.unrevealed_by:
        raise DisputeAlreadyExists("You went to court about this deal and did not reveal your nonce in time")
    ended = structs.replace(
        deal,
        status=status,
        updated_at=now,
        disputed_at=now,
        disputed_by=_address(deal, order.key),
        dispute_reason=order.command.reason,
        dispute_sig=order.sig,
    )
    movement, stakes = _fault(deal, order.key, standings, now, rules.ratings)
    return Outcome(
        changes=(
            ended,
            audit_row("dispute", ended.id, now, order=order, movement=movement),
            *movement.changes(),
            hooks.settlement_dispute(ended, stakes, movement, now),
        ),
        notices=to_parties(Disputed(ended, movement)),
    )


def expire(deal: Proposal, standings: Standings, *, now: int) -> MarketOutcome:
    """The clock's decision: stakes go back and no rating moves (seed 000, expire 2)."""
    status = next_status(deal, "expire")
    if not can_expire(deal, now):
        raise InvalidProposal("PROPOSAL_NOT_DUE")
    ended = structs.replace(deal, status=status, updated_at=now)
    movement = None
    released: tuple[Change, ...] = ()
    if escrow.is_open(deal):
        movement = escrow.release(deal, standings[deal.proposer], standings[deal.recipient], now)
        released = (*movement.changes(), hooks.escrow_released(ended, now))
    return Outcome(
        changes=(ended, audit_row("expire", ended.id, now, movement=movement), *released),
        notices=to_parties(Expired(ended)),
    )


# -- settlements -----------------------------------------------------------------------------------------


def _completion(
    deal: Proposal, standings: Standings, pair: PairHistory, now: int, rules: RatingRules
) -> Movement:
    proposer, recipient = standings[deal.proposer], standings[deal.recipient]
    if pair.cooling(now, rules):
        # Nothing is gained (agentchat wire 11.5). The reference then also keeps the stakes for good.
        return escrow.release(deal, proposer, recipient, now)
    shares = completion_shares(
        Party(deal.from_, proposer, deal.proposer_stake),
        Party(deal.to, recipient, deal.acceptor_stake),
        deal.amount,
        pair=pair,
        now=now,
        rules=rules,
    )
    return settle(deal, "complete", shares, now, escrow.returned(deal) if escrow.is_open(deal) else None)


def _fault(
    deal: Proposal, winner: bytes, standings: Standings, now: int, rules: RatingRules
) -> tuple[Movement, EscrowResult]:
    """The party that is not `winner` loses; half of that, and the stake, go to the winner."""
    proposer_won = winner == deal.proposer
    loser = deal.recipient if proposer_won else deal.proposer
    own_stake, lost_stake = deal.proposer_stake, deal.acceptor_stake
    if not proposer_won:
        own_stake, lost_stake = lost_stake, own_stake
    loss = dispute_loss(standings[loser], standings[winner], deal.amount, rules)
    gained, lost, _ = transfer_shares(
        Side(_address(deal, winner), standings[winner], own_stake, half_of_loss(loss)),
        Side(_address(deal, loser), standings[loser], lost_stake, loss),
        now,
        rules,
    )
    shares = (gained, lost) if proposer_won else (lost, gained)
    got = gained.awarded - gained.staked
    stakes = escrow.transferred(deal, gained.address, got, burned=lost_stake - got)
    return settle(deal, "dispute", shares, now, stakes), stakes


# -- small words -----------------------------------------------------------------------------------------


def _texts(deal: Proposal, operation: str, order: Signed[SignedCommand]) -> dict[str, bytes] | UnsetType:
    """What was signed so far, as far as a receipt has to hold it."""
    if order.text is None:
        return deal.signed_texts
    return {**(deal.signed_texts or {}), operation: order.text}


def _address(deal: Proposal, key: bytes) -> str:
    return deal.from_ if key == deal.proposer else deal.to


def _deadline(seconds: Number, now: int) -> int:
    if seconds <= 0 or seconds * 1000 > LAST_MOMENT - now:
        raise InvalidProposal("`expires` is a number of seconds from now, and that moment must be a date")
    return now + round_half_up(seconds * 1000)
