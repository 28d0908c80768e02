"""One unit of work per command: fetch the records, have the decision made, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. What they return is told
to people only after the transaction was committed.
"""

from collections.abc import Container
from typing import Final

from moothall.errors import AgentNotFound
from moothall.identity.seals import Seal
from moothall.market import escrow, proposals, skills
from moothall.market.books import Books
from moothall.market.commands import Accept, Complete, Dispute, Propose, RegisterSkills, Reject
from moothall.market.outcome import MarketOutcome
from moothall.market.quotas import require_room
from moothall.market.rating_rules import PairHistory
from moothall.market.records import Proposal, Standing
from moothall.market.reputation import pair_history
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed
from moothall.market.skills import Filters, SearchResult
from moothall.market.statuses import can_expire
from moothall.wire.agentchat.names import bare_id

LOOK_BACK: Final = 1000  # earlier deals of a pair that count


def find_recipient(
    books: Books, to: str, connected: bytes | None, revoked: Container[bytes] = ()
) -> bytes | None:
    """The key behind `to`: that of the agent if it is connected; otherwise it may still be known."""
    key = connected or books.find_key(bare_id(to))
    if key in revoked:
        raise AgentNotFound(f"The key of {to} was revoked: no agent can answer")
    return key


def propose(
    books: Books,
    order: Signed[Propose],
    *,
    proposal_id: str,
    address: str,
    connected: bytes | None,
    now: int,
    rules: MarketRules,
    revoked: Container[bytes] = (),
) -> MarketOutcome:
    """`connected` is the key of the recipient if it is connected. An offer to a key of `revoked` is refused."""
    recipient = find_recipient(books, order.command.to, connected, revoked)
    if recipient is not None:
        require_room(books, order.key, recipient, now, rules.quotas)
    standings = {order.key: books.standing(order.key)} if order.command.stake else {}
    outcome = proposals.propose(
        order, standings, proposal_id=proposal_id, address=address, recipient=recipient, now=now
    )
    return _saved(books, outcome)


def accept(books: Books, order: Signed[Accept], *, now: int, rules: MarketRules) -> MarketOutcome:
    deal = books.proposal(order.command.deal)
    staked = deal is not None and bool(deal.proposer_stake or order.command.stake)
    standings = _standings(books, deal) if staked else {}
    return _saved(books, proposals.accept(order, deal, standings, now=now, rules=rules))


def reject(books: Books, order: Signed[Reject], *, now: int, rules: MarketRules) -> MarketOutcome:
    deal = books.proposal(order.command.deal)
    return _saved(books, proposals.reject(order, deal, now=now, rules=rules))


def complete(
    books: Books, order: Signed[Complete], *, now: int, rules: MarketRules, seal: Seal
) -> MarketOutcome:
    deal = books.proposal(order.command.deal)
    outcome = proposals.complete(
        order,
        deal,
        _standings(books, deal),
        pair=_pair(books, deal, rules),
        now=now,
        rules=rules,
        seal=seal,
    )
    return _saved(books, outcome)


def dispute(books: Books, order: Signed[Dispute], *, now: int, rules: MarketRules) -> MarketOutcome:
    deal = books.proposal(order.command.deal)
    standings = _standings(books, deal)
    return _saved(books, proposals.dispute(order, deal, standings, now=now, rules=rules))


def expire(books: Books, proposal_id: str, *, now: int) -> MarketOutcome | None:
    """Expire a deal that `books.due` named. None if it has ended since."""
    deal = books.proposal(proposal_id)
    if deal is None or not can_expire(deal, now):
        return None
    standings = _standings(books, deal) if escrow.is_open(deal) else {}
    return _saved(books, proposals.expire(deal, standings, now=now))


def register_skills(books: Books, order: Signed[RegisterSkills], *, agent_id: str, now: int) -> MarketOutcome:
    before = books.registration(order.key, hold=True)
    return _saved(books, skills.register(order, before, agent_id, now))


def withdraw_skills(books: Books, key: bytes, now: int) -> None:
    """Remove the skills of a revoked key, if it offers any."""
    books.standing(key)  # what was imported for it comes to light now, not later
    if books.registration(key) is not None:
        _saved(books, skills.withdraw(key, now))


def search_skills(books: Books, filters: Filters, *, online: Container[bytes]) -> SearchResult:
    offers = books.offers(filters, skills.CANDIDATES)
    standings = books.standings_of({offer.key for offer in offers})
    offered = books.offered(skills.best(offers, standings, filters.limit))
    return SearchResult(len(offers), skills.results(offered, standings, online))


def _saved(books: Books, outcome: MarketOutcome) -> MarketOutcome:
    books.save(*outcome.changes)
    return outcome


def _standings(books: Books, deal: Proposal | None) -> dict[bytes, Standing]:
    """Of both parties; in the order of their keys, so that two units never wait for each other."""
    parties = () if deal is None else sorted((deal.proposer, deal.recipient))
    return {key: books.standing(key) for key in parties}


def _pair(books: Books, deal: Proposal | None, rules: MarketRules) -> PairHistory:
    """Looked up only where a rule asks for it."""
    ratings = rules.ratings
    if deal is None or not (ratings.diminishing or ratings.pair_cooldown):
        return PairHistory()
    return pair_history(books.completions(deal.proposer, deal.recipient, LOOK_BACK), ratings)
