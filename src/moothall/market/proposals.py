"""The life of a deal, and every decision about it (seeds 000 and 001, proposals; agentchat wire 11).

A deal begins as an offer that only its recipient can answer. Accepted, it binds both: the stakes are put
aside, and either party may end it, as done or as disputed. Both ends settle ratings and stakes, and there is
no way back from any of them, so a deal is settled at most once whatever races to settle it. A deadline ends an
offer nobody answered and a deal nobody finished; then the stakes go back and no rating moves. All ways are in
TRANSITIONS, and what is not there is refused.

While a court case holds a deal it is frozen: it stays accepted, and neither party nor the clock can end it. The
court either gives it back as it was, or ends it with a verdict (`court.judging`).

Each decision takes the records it needs and a command whose signature was checked, and returns an Outcome or
raises a Refusal. The checks come in one order: the deal exists, the caller is the party who may do this, the
deadline has not passed, the status allows it, no court holds it, the stakes are covered.

A signature is over the operation and the id of the deal, and no way leads back to a status, so each is good for one
deal and one time.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn

from msgspec import UNSET, structs

from moothall.errors import (
    AgentNotFound,
    DisputeAlreadyExists,
    InvalidProposal,
    ProposalNotFound,
    RateLimited,
    Refusal,
)
from moothall.identity.seals import Seal
from moothall.market import curbs, escrow, hooks, notices
from moothall.market.audit import audit_row
from moothall.market.outcome import Outcome
from moothall.market.receipts import build_receipt
from moothall.market.records import AuditRow, Change, Proposal, Standing, Status
from moothall.market.reputation import PairHistory, RatingRules, completion_gain, dispute_loss, half_of_loss
from moothall.market.rules import MarketRules
from moothall.market.settlement import Movement, Share, settle
from moothall.market.signed import Command, Signed
from moothall.market.transfers import Side, transfer_shares
from moothall.wire.agentchat import client
from moothall.wire.agentchat.client import Number
from moothall.wire.agentchat.jstext import round_half_up
from moothall.wire.agentchat.market import EscrowResult, RatingChanges

Event = Literal["accept", "reject", "complete", "dispute", "expire", "verdict"]
Standings = Mapping[bytes, Standing]

TRANSITIONS: Final[Mapping[tuple[Status, Event], Status]] = {
    ("pending", "accept"): "accepted",
    ("pending", "reject"): "rejected",
    ("pending", "expire"): "expired",
    ("accepted", "complete"): "completed",
    ("accepted", "dispute"): "disputed",
    ("accepted", "expire"): "expired",
    ("accepted", "verdict"): "disputed",
}

# What the reference says when the status does not allow it (agentchat wire 7).
_WRONG_STATUS: Final[Mapping[Event, str]] = {
    "accept": "PROPOSAL_NOT_PENDING",
    "reject": "PROPOSAL_NOT_PENDING",
    "complete": "PROPOSAL_NOT_ACCEPTED",
    "dispute": "PROPOSAL_NOT_ACCEPTED",
    "expire": "PROPOSAL_NOT_OPEN",
    "verdict": "PROPOSAL_NOT_ACCEPTED",
}
_FOR_RECIPIENT: Final = frozenset(("accept", "reject"))

LAST_MOMENT: Final = 8_640_000_000_000_000  # the last millisecond that JavaScript can name


# -- decisions -----------------------------------------------------------------------------------------


def propose(
    order: Signed[client.Proposal],
    standings: Standings,
    *,
    proposal_id: str,
    address: str,
    recipient: bytes | None,
    task: str,
    now: int,
) -> Outcome:
    """`address` is the proposer's "@id", `recipient` the key behind `to`, `task` the task after redaction.

    A stake that the proposer does not have is refused at once. It is put aside at ACCEPT, and checked again there:
    the proposer may have lost rating, or staked it elsewhere.
    """
    message = order.message
    if recipient is None:
        raise AgentNotFound(f"{message.to} is not known here")
    if recipient == order.key.raw:
        raise InvalidProposal("An agent cannot deal with itself")
    stake = escrow.stake_of(message.elo_stake)
    if stake:
        escrow.require_available(address, standings[order.key.raw], stake)
    asked = None if message.expires is UNSET else message.expires or None
    deal = Proposal(
        id=proposal_id,
        proposer=order.key.raw,
        recipient=recipient,
        from_=address,
        to=message.to,
        task=task,
        amount=_given(message.amount),
        currency=_given(message.currency),
        payment_code=_given(message.payment_code),
        terms=_given(message.terms),
        capability=_given(message.capability),
        expires=None if asked is None else _deadline(asked, now),
        expires_asked=asked,
        created_at=now,
        updated_at=now,
        sig=message.sig,
        proposer_stake=stake,
    )
    kept = structs.replace(message, task=task)
    return Outcome(
        changes=(deal, audit_row("propose", deal.id, now, actor=deal.proposer, message=kept)),
        notices=notices.to_parties(deal, notices.proposed(deal)),
        lines=(notices.bounty_line(deal),),
    )


def accept(
    order: Signed[client.Accept],
    deal: Proposal | None,
    standings: Standings,
    *,
    now: int,
    rules: MarketRules,
) -> Outcome:
    deal, status = _admit(order, deal, "accept", now, rules)
    deal = structs.replace(
        deal,
        status=status,
        updated_at=now,
        acceptor_stake=escrow.stake_of(order.message.elo_stake),
        response_sig=order.message.sig,
        response_payment_code=_given(order.message.payment_code),
    )
    movement = None
    staked: tuple[Change, ...] = ()
    if escrow.is_open(deal):
        movement = escrow.lock(deal, standings[deal.proposer], standings[deal.recipient], now)
        staked = (*movement.changes(), hooks.escrow_created(deal, now))
    return Outcome(
        changes=(deal, _record("accept", order, deal, movement), *staked),
        notices=notices.to_parties(deal, notices.accepted(deal, order.message.sig)),
        lines=(notices.claimed_line(deal),),
    )


def reject(order: Signed[client.Reject], deal: Proposal | None, *, now: int, rules: MarketRules) -> Outcome:
    deal, status = _admit(order, deal, "reject", now, rules)
    deal = structs.replace(
        deal,
        status=status,
        updated_at=now,
        reject_reason=_given(order.message.reason),
        response_sig=order.message.sig,
    )
    return Outcome(
        changes=(deal, _record("reject", order, deal)),
        notices=notices.to_parties(deal, notices.rejected(deal, order.message.sig)),
    )


def complete(
    order: Signed[client.Complete],
    deal: Proposal | None,
    standings: Standings,
    *,
    pair: PairHistory,
    now: int,
    rules: MarketRules,
    seal: Seal,
) -> Outcome:
    """Both gain, and both get their stakes back (seed 000, complete 4)."""
    deal, status = _admit(order, deal, "complete", now, rules)
    if rules.ratings.too_young(deal.created_at, now):
        raise RateLimited("This proposal is too young to be completed; try again later")
    by = _address(deal, order.key.raw)
    done = structs.replace(
        deal,
        status=status,
        updated_at=now,
        completed_at=now,
        completed_by=by,
        completion_proof=_given(order.message.proof),
        completion_sig=order.message.sig,
    )
    movement, rating_changes = _completion(deal, standings, pair, now, rules.ratings)
    message = notices.completed(done, by, order.message.sig, rating_changes)
    return Outcome(
        changes=(
            done,
            _record("complete", order, done, movement),
            *movement.changes(),
            build_receipt(done, message, now, seal),
            hooks.settlement_completion(done, rating_changes, now),
        ),
        notices=notices.to_parties(done, message),
    )


def dispute(
    order: Signed[client.Dispute],
    deal: Proposal | None,
    standings: Standings,
    *,
    now: int,
    rules: MarketRules,
) -> Outcome:
    """The party being disputed is at fault: it loses rating, and its stake (seed 000, dispute 4)."""
    deal, status = _admit(order, deal, "dispute", now, rules)
    if order.key.raw in deal.unrevealed_by:
        raise DisputeAlreadyExists("You went to court about this deal and did not reveal your nonce in time")
    by, reason = _address(deal, order.key.raw), order.message.reason
    ended = structs.replace(
        deal,
        status=status,
        updated_at=now,
        disputed_at=now,
        disputed_by=by,
        dispute_reason=reason,
        dispute_sig=order.message.sig,
    )
    movement, stakes = _fault(deal, order.key.raw, standings, now, rules.ratings)
    rating_changes: RatingChanges = {**movement.rating_changes, "_escrow": stakes}
    message = notices.disputed(ended, by, reason, order.message.sig, rating_changes)
    return Outcome(
        changes=(
            ended,
            _record("dispute", order, ended, movement),
            *movement.changes(),
            hooks.settlement_dispute(ended, stakes, rating_changes, now),
        ),
        notices=notices.to_parties(ended, message),
    )


def expire(deal: Proposal, standings: Standings, *, now: int) -> Outcome:
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
        notices=notices.to_parties(ended, notices.expired(ended)),
    )


# -- checks, in the order in which they come ---------------------------------------------------------------


def next_status(deal: Proposal, event: Event) -> Status:
    """Where the event leads, or INVALID_PROPOSAL with the reference's word for why not."""
    status = TRANSITIONS.get((deal.status, event))
    if status is None:
        raise InvalidProposal(_WRONG_STATUS[event])
    return status


def can_expire(deal: Proposal, now: int) -> bool:
    """The deadline has passed, and the clock has not acted upon it yet. A frozen deal waits."""
    overdue = deal.expires is not None and deal.expires <= now
    return overdue and deal.frozen_by is None and (deal.status, "expire") in TRANSITIONS


def _admit(
    order: Signed[Command], deal: Proposal | None, event: Event, now: int, rules: MarketRules
) -> tuple[Proposal, Status]:
    """The deal, and where the event leads it; or the refusal that comes first."""
    if deal is None:
        raise ProposalNotFound("There is no proposal with this id")
    _require_party(deal, order.key.raw, event, rules)
    require_unexpired(deal, event, now, rules.expired_code)
    status = next_status(deal, event)
    _require_thawed(deal)
    return deal, status


def _require_party(deal: Proposal, key: bytes, event: Event, rules: MarketRules) -> None:
    if event in _FOR_RECIPIENT:
        if key != deal.recipient:
            _refuse(rules.stranger_code, "Only its recipient answers a proposal", "NOT_PROPOSAL_RECIPIENT")
    elif key not in (deal.proposer, deal.recipient):
        _refuse(rules.stranger_code, "Only its parties end a deal", "NOT_PROPOSAL_PARTY")


def require_unexpired(deal: Proposal, event: Event, now: int, expired_code: str) -> None:
    if deal.status == "expired" or can_expire(deal, now):
        _refuse(expired_code, "The deadline of this proposal has passed", _WRONG_STATUS[event])


def _refuse(code: str, sentence: str, token: str) -> NoReturn:
    """INVALID_PROPOSAL says why in one of the reference's words (agentchat wire 7)."""
    raise Refusal.by_code[code](token if code == InvalidProposal.code else sentence)


def _require_thawed(deal: Proposal) -> None:
    if deal.frozen_by is not None:
        raise InvalidProposal(f"PROPOSAL_FROZEN: the court has it, as {deal.frozen_by}")


# -- settlements -----------------------------------------------------------------------------------------


def _completion(
    deal: Proposal, standings: Standings, pair: PairHistory, now: int, rules: RatingRules
) -> tuple[Movement, RatingChanges | None]:
    proposer, recipient = standings[deal.proposer], standings[deal.recipient]
    if pair.cooling(now, rules):
        # Nothing is gained (agentchat wire 11.5). The reference then also keeps the stakes for good.
        return escrow.release(deal, proposer, recipient, now), None
    shares = (
        _gain(deal.from_, proposer, recipient, deal, deal.proposer_stake, pair, now, rules),
        _gain(deal.to, recipient, proposer, deal, deal.acceptor_stake, pair, now, rules),
    )
    movement = settle(deal, "complete", shares, now)
    changes: RatingChanges = {**movement.rating_changes}
    if escrow.is_open(deal):
        changes["_escrow"] = escrow.returned(deal)
    return movement, changes


def _gain(
    address: str,
    own: Standing,
    other: Standing,
    deal: Proposal,
    stake: int,
    pair: PairHistory,
    now: int,
    rules: RatingRules,
) -> Share:
    full = completion_gain(own, other, deal.amount, rules, pair)
    earned = curbs.allowed(full, own, now, rules)
    return Share(
        address=address,
        standing=own,
        earned=earned,
        staked=stake,
        awarded=stake,
        withheld=full - earned,
        curbs=curbs.gained(own, earned, now, rules),
    )


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
    return settle(deal, "dispute", shares, now), stakes


# -- small words -----------------------------------------------------------------------------------------


def _record(
    operation: str, order: Signed[Command], deal: Proposal, movement: Movement | None = None
) -> AuditRow:
    """What every signed step leaves behind."""
    return audit_row(
        operation, deal.id, deal.updated_at, actor=order.key.raw, message=order.message, movement=movement
    )


def _address(deal: Proposal, key: bytes) -> str:
    return deal.from_ if key == deal.proposer else deal.to


def _given(value: Any) -> Any:
    """None for whatever JavaScript finds falsy (agentchat wire 11.1). Unlike in Python, [] and {} are not."""
    return None if value is None or value == "" or value == 0 else value


def _deadline(seconds: Number, now: int) -> int:
    if seconds <= 0 or seconds * 1000 > LAST_MOMENT - now:
        raise InvalidProposal("`expires` is a number of seconds from now, and that moment must be a date")
    return now + round_half_up(seconds * 1000)
