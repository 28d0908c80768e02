"""What FEEDBACK and DISPUTE of the mesh do to the standings of agents (mesh wire 11.1).

FEEDBACK moves the reputation vector of the agent that it rates. The requester's positive FEEDBACK on the provider
says that the deal is completed: then the ratings of both move as after COMPLETE, once, under the same rules. Not
after a verdict of the court, which has moved them.

A vector counts from its first FEEDBACK or DISPUTE. So an agent that only sends envelopes leaves no standing behind.
"""

from typing import Final

from msgspec import Struct, structs

from moothall.errors import RateLimited
from moothall.market import ledger
from moothall.market.audit import envelope_row
from moothall.market.clerk import LOOK_BACK
from moothall.market.completion import Party, completion_shares
from moothall.market.conversations import Conversation, Step
from moothall.market.credits import MILLIONTHS, Authority, deal_name
from moothall.market.epoch_log import epoch_at
from moothall.market.mesh_books import MeshBooks
from moothall.market.rating_rules import PairHistory, RatingRules
from moothall.market.records import Standing
from moothall.market.reputation import pair_history
from moothall.market.reputation_vector import UNRATED, ReputationVector, active, disputed, in_epoch, rated
from moothall.market.settlement import settle

COMPLETE: Final = "complete"


class MeshDeal(Struct, frozen=True, gc=False):
    """A conversation, as far as its completion is settled."""

    id: str
    capability: str | None = None


def vector_at(standing: Standing, now: int) -> ReputationVector:
    """What is shown of an agent: its numbers have decayed up to now."""
    return in_epoch(standing.mesh, epoch_at(now))


def note_activity(books: MeshBooks, key: bytes, now: int) -> None:
    """An envelope of this agent. Its vector does not decay for a while; at most one write for an epoch."""
    standing = books.standing(key)
    if standing.mesh != UNRATED and standing.mesh.last_active_epoch < epoch_at(now):
        books.save_standing(structs.replace(standing, mesh=active(standing.mesh, epoch_at(now))))


def note_dispute(books: MeshBooks, key: bytes, now: int) -> None:
    standing = books.standing(key)
    vector = disputed(active(standing.mesh, epoch_at(now)))
    _save(books, standing, structs.replace(standing, mesh=vector), now)


def apply(
    books: MeshBooks,
    conversation: Conversation,
    step: Step,
    authority: Authority,
    now: int,
    rules: RatingRules,
) -> Conversation:
    """The conversation after FEEDBACK that it allows, which was decided. Raises RateLimited if its requester
    completes a deal that is too young for that."""
    completes = (
        step.sender == conversation.requester and step.about == conversation.provider and step.positive
    )
    if completes and not conversation.judged:
        return _complete(books, conversation, step, authority, now, rules)
    if step.about is None:
        raise ValueError("FEEDBACK that was decided is about an agent")
    target = books.standing(step.about)
    _save(books, target, _rated(target, step, now), now)
    return conversation


def _complete(
    books: MeshBooks,
    conversation: Conversation,
    step: Step,
    authority: Authority,
    now: int,
    rules: RatingRules,
) -> Conversation:
    if rules.too_young(conversation.created_at, now):
        raise RateLimited("This conversation is too young to be completed; send the FEEDBACK later")
    standings = books.standings_of(conversation.parties)
    pair = _pair(books, conversation, rules)
    provider = standings[conversation.provider]
    better = _rated(provider, step, now)
    deal = MeshDeal(deal_name(conversation.id))
    if pair.cooling(now, rules):
        _save(books, provider, better, now)
        return structs.replace(conversation, completed_at=now)
    requester = standings[conversation.requester]
    shares = completion_shares(
        Party(requester.key.hex(), requester),
        Party(better.key.hex(), better),
        conversation.amount / MILLIONTHS,
        pair=pair,
        now=now,
        rules=rules,
    )
    movement = settle(deal, COMPLETE, shares, now)
    _open_account(books, provider, now)  # the movement sees a vector, and takes its account for open
    row = envelope_row(
        COMPLETE, deal.id, now, sender=step.sender, envelope=authority.envelope, movement=movement
    )
    books.save(*movement.changes(), row)
    return structs.replace(conversation, completed_at=now)


def _rated(standing: Standing, step: Step, now: int) -> Standing:
    """The first FEEDBACK counts as a sign of life: the agent has just taken part in a conversation."""
    vector = standing.mesh
    vector = active(vector, epoch_at(now)) if vector == UNRATED else in_epoch(vector, epoch_at(now))
    return structs.replace(standing, mesh=rated(vector, step.score, as_notary=step.about_notary))


def _pair(books: MeshBooks, conversation: Conversation, rules: RatingRules) -> PairHistory:
    """Looked up only where a rule asks for it."""
    if not (rules.diminishing or rules.pair_cooldown):
        return PairHistory()
    return pair_history(books.completions(*conversation.parties, LOOK_BACK), rules)


def _save(books: MeshBooks, before: Standing, after: Standing, now: int) -> None:
    _open_account(books, before, now)
    books.save_standing(after)


def _open_account(books: MeshBooks, standing: Standing, now: int) -> None:
    """The ledger has the rating of every agent with a standing."""
    if standing == Standing(key=standing.key):
        books.save_entry(ledger.opening(standing.key, standing.rating, now))
