"""Stakes: rating put aside while a deal is open (seed 001, reputation; agentchat wire 12.5).

A stake stays part of its owner's rating until the deal ends; meanwhile it cannot be staked again. When the
deal ends it is returned (completed, expired), transferred to the other party (disputed) or burned (a verdict
of mutual fault). That a deal is accepted and carries a stake is all there is to an escrow being open.
"""

from typing import Final

from msgspec import UNSET, structs

from moothall.errors import InsufficientReputation, InvalidStake
from moothall.market import ledger
from moothall.market.movement import Movement
from moothall.market.records import EscrowResult, Number, Proposal, Standing
from moothall.market.reputation import FLOOR

MAX_STAKE: Final = 2**31 - 1  # no rating gets near it, and every store can hold it


def available(standing: Standing) -> int:
    """How much more can be staked. A loss elsewhere can leave less than nothing, which is nothing."""
    return max(0, standing.rating - standing.escrowed - FLOOR)


def stake_of(asked: Number | None) -> int:
    """The stake in a PROPOSAL or ACCEPT, or InvalidStake."""
    if asked is None:
        return 0
    # A NaN fails the comparison, and infinity the bound.
    if not 0 <= asked <= MAX_STAKE or asked != int(asked):
        raise InvalidStake(f"A stake is a whole number from 0 to {MAX_STAKE}")
    return int(asked)


def is_open(deal: Proposal) -> bool:
    return deal.status == "accepted" and total(deal) > 0


def total(deal: Proposal) -> int:
    return deal.proposer_stake + deal.acceptor_stake


def lock(deal: Proposal, proposer: Standing, acceptor: Standing, now: int) -> Movement:
    """Put both stakes aside, or InsufficientReputation and nothing happens (seed 000, accept 3)."""
    require_available(deal.from_, proposer, deal.proposer_stake)
    require_available(deal.to, acceptor, deal.acceptor_stake)
    return _movement(deal, "lock", ((proposer, deal.proposer_stake), (acceptor, deal.acceptor_stake)), now)


def release(deal: Proposal, proposer: Standing, acceptor: Standing, now: int) -> Movement:
    """Give both stakes back and leave the ratings alone (seed 000, expire 2b)."""
    return _movement(
        deal, "release", ((proposer, -deal.proposer_stake), (acceptor, -deal.acceptor_stake)), now
    )


def require_available(address: str, standing: Standing, stake: int) -> None:
    """InsufficientReputation, unless the agent can stake so much beside its stakes in other deals."""
    if stake > available(standing):
        raise InsufficientReputation(
            f"{address} stakes {stake} and has {available(standing)} available"
            " (its rating minus its open stakes minus the floor); lower the stake"
        )


def _movement(deal: Proposal, operation: str, stakes: tuple[tuple[Standing, int], ...], now: int) -> Movement:
    """Each stake from its owner's account into the escrow; below zero, the other way."""
    moved = [
        (before, structs.replace(before, escrowed=before.escrowed + stake))
        for before, stake in stakes
        if stake
    ]
    postings = [(ledger.agent_account(standing.key), -stake) for standing, stake in stakes]
    into_escrow = (ledger.escrow_account(deal.id), sum([stake for _, stake in stakes]))
    entry = ledger.entry(ledger.ELO, deal.id, operation, now, (*postings, into_escrow))
    return Movement(moved=tuple(moved), entry=entry)


# -- where the stakes went -------------------------------------------------------------------------------


def returned(deal: Proposal) -> EscrowResult:
    return EscrowResult(
        proposer_stake=deal.proposer_stake, acceptor_stake=deal.acceptor_stake, settlement="returned"
    )


def transferred(deal: Proposal, winner: str, amount: int, burned: int = 0) -> EscrowResult:
    """`burned` is what the rules against farming did not leave to the winner."""
    return EscrowResult(
        proposer_stake=deal.proposer_stake,
        acceptor_stake=deal.acceptor_stake,
        settlement="transferred",
        transferred_to=winner,
        transferred_amount=amount,
        burned_amount=burned or UNSET,
    )


def burned(deal: Proposal) -> EscrowResult:
    return EscrowResult(
        proposer_stake=deal.proposer_stake,
        acceptor_stake=deal.acceptor_stake,
        settlement="burned",
        burned_amount=total(deal),
    )
