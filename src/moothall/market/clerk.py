"""One unit of work per command: fetch the records, have the decision made, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. What they return is told
to people only after the transaction was committed.
"""

from collections.abc import Container
from typing import Final

from moothall.errors import AgentNotFound
from moothall.identity.keys import AGENT_ID_LENGTH
from moothall.identity.seals import Seal
from moothall.market import escrow, proposals, skills
from moothall.market.books import Books
from moothall.market.outcome import Outcome
from moothall.market.records import Proposal, Standing
from moothall.market.reputation import PairHistory, pair_history
from moothall.market.rules import MarketRules
from moothall.market.signed import Signed
from moothall.wire.agentchat import client
from moothall.wire.agentchat.market import SearchResults
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
    order: Signed[client.Proposal],
    *,
    proposal_id: str,
    address: str,
    recipient: bytes | None,
    task: str,
    now: int,
) -> Outcome:
    """`recipient` comes from `find_recipient`."""
    key = order.key.raw
    standings = {key: books.standing(key)} if order.message.elo_stake else {}
    return _saved(
        books,
        proposals.propose(
            order,
            standings,
            proposal_id=proposal_id,
            address=address,
            recipient=recipient,
            task=task,
            now=now,
        ),
    )


def accept(books: Books, order: Signed[client.Accept], *, now: int, rules: MarketRules) -> Outcome:
    deal = books.proposal(order.message.proposal_id)
    staked = deal is not None and bool(deal.proposer_stake or order.message.elo_stake)
    standings = _standings(books, deal) if staked else {}
    return _saved(books, proposals.accept(order, deal, standings, now=now, rules=rules))


def reject(books: Books, order: Signed[client.Reject], *, now: int, rules: MarketRules) -> Outcome:
    deal = books.proposal(order.message.proposal_id)
    return _saved(books, proposals.reject(order, deal, now=now, rules=rules))


def complete(
    books: Books, order: Signed[client.Complete], *, now: int, rules: MarketRules, seal: Seal
) -> Outcome:
    deal = books.proposal(order.message.proposal_id)
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


def dispute(books: Books, order: Signed[client.Dispute], *, now: int, rules: MarketRules) -> Outcome:
    deal = books.proposal(order.message.proposal_id)
    standings = _standings(books, deal)
    return _saved(books, proposals.dispute(order, deal, standings, now=now, rules=rules))


def expire(books: Books, proposal_id: str, *, now: int) -> Outcome | None:
    """One of those that `books.due` named; None if somebody ended it since."""
    deal = books.proposal(proposal_id)
    if deal is None or not proposals.can_expire(deal, now):
        return None
    standings = _standings(books, deal) if escrow.is_open(deal) else {}
    return _saved(books, proposals.expire(deal, standings, now=now))


def register_skills(
    books: Books, order: Signed[client.RegisterSkills], *, agent_id: str, now: int
) -> Outcome:
    return _saved(books, skills.register(order, agent_id, now))


def withdraw_skills(books: Books, key: bytes, now: int) -> None:
    """Of a key that was revoked, if it offers any."""
    books.standing(key)  # what was imported for it comes to light now, not later
    if books.registration(key) is not None:
        _saved(books, skills.withdraw(key, now))


def search_skills(
    books: Books,
    message: client.SearchSkills,
    *,
    online: Container[bytes],
    now: int,
    id_length: int = AGENT_ID_LENGTH,
) -> SearchResults:
    filters = skills.read_query(message)
    offers = books.offers(filters, skills.CANDIDATES)
    standings = books.standings_of({offer.key for offer in offers})
    offered = books.offered(skills.best(offers, standings, filters.limit))
    return skills.results(message, len(offers), offered, standings, online, now, id_length)


def _saved(books: Books, outcome: Outcome) -> Outcome:
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
