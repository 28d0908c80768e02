"""The market on the agentchat wire: its messages as commands, and what the market has to say as its messages
(agentchat wire 5.4, 6.4, 8). No other module of the market reads or makes messages of this wire."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypedDict, TypeGuard, TypeVar

from msgspec import UNSET, Raw, UnsetType, structs

from moothall.errors import InvalidMessage
from moothall.identity import PublicKey
from moothall.identity.certificates import timestamp_text
from moothall.identity.signatures import decode_signature
from moothall.market import commands, escrow
from moothall.market.books import Leader, Page
from moothall.market.bounds import require_length
from moothall.market.epoch_log import epoch_at
from moothall.market.movement import Movement
from moothall.market.news import (
    Accepted,
    Completed,
    Disputed,
    Expired,
    Proposed,
    Rejected,
    SkillsRegistered,
)
from moothall.market.outcome import News
from moothall.market.records import EscrowResult, Number, Proposal, Receipt, Standing
from moothall.market.reputation_vector import UNRATED, in_epoch
from moothall.market.signed import AnyCommand, Sent
from moothall.market.skills import DEFAULT_LIMIT, MAX_LIMIT, Filters, Found, SearchResult
from moothall.market.storable import bounded_json, require_bounded
from moothall.wire.agentchat import client
from moothall.wire.agentchat import market as wire
from moothall.wire.agentchat.client import MAX_SIGNATURE, Scalar
from moothall.wire.agentchat.jstext import utf8
from moothall.wire.agentchat.market import Status
from moothall.wire.agentchat.server import ServerMessage
from moothall.wire.agentchat.signing import SignedMessage, signed_text

MAX_QUERY: Final = 4096  # bytes as JSON: the answer repeats it
MAX_QUERY_ID: Final = 256

Message = TypeVar("Message", bound=SignedMessage)


# -- messages as commands ------------------------------------------------------------------------------


def sent(
    message: SignedMessage, command: AnyCommand, key: PublicKey, kept: SignedMessage | None = None
) -> Sent[AnyCommand]:
    """The command with what the agent signed: on the store's thread, because the text can be long.

    `kept` is the message without what must not be kept.
    """
    kept = kept or message
    return Sent(
        command,
        key,
        utf8(signed_text(message)),
        None if message.sig is None else decode_signature(message.sig),
        message.sig,
        kept if kept.ref is None else structs.replace(kept, ref=None),
    )


def propose(message: client.Proposal) -> commands.Propose:
    return commands.Propose(
        to=message.to,
        task=message.task,
        amount=_given(message.amount),
        currency=_given(message.currency),
        payment_code=_given(message.payment_code),
        terms=_given(message.terms),
        capability=_given(message.capability),
        expires=None if message.expires is UNSET else _given(message.expires),
        stake=escrow.stake_of(message.elo_stake),
    )


def accept(message: client.Accept) -> commands.Accept:
    return commands.Accept(
        deal=message.proposal_id,
        payment_code=_given(message.payment_code),
        stake=escrow.stake_of(message.elo_stake),
    )


def reject(message: client.Reject) -> commands.Reject:
    return commands.Reject(deal=message.proposal_id, reason=_given(message.reason))


def complete(message: client.Complete) -> commands.Complete:
    return commands.Complete(deal=message.proposal_id, proof=_given(message.proof))


def dispute(message: client.Dispute) -> commands.Dispute:
    return commands.Dispute(deal=message.proposal_id, reason=message.reason)


def register_skills(message: client.RegisterSkills) -> commands.RegisterSkills:
    return commands.RegisterSkills(skills=message.skills)


def check(
    read: Callable[[Message], AnyCommand], bound: Callable[[AnyCommand], None]
) -> Callable[[Message], None]:
    """The check of a command's row: raises a Refusal if a field is out of bounds."""

    def check_message(message: Message) -> None:
        require_length(message.sig, "sig", MAX_SIGNATURE)
        bound(read(message))

    return check_message


def check_search(message: client.SearchSkills) -> None:
    require_length(message.query_id, "query_id", MAX_QUERY_ID)
    require_bounded(message.query, "query")
    bounded_json(message.query, "query", MAX_QUERY)
    read_query(message)


def read_query(message: client.SearchSkills) -> Filters:
    """The query of a search. Raises InvalidMessage if it is not valid."""
    query = message.query if isinstance(message.query, dict) else {}
    max_rate, limit = query.get("max_rate"), query.get("limit") or DEFAULT_LIMIT
    if max_rate is not None and not _is_number(max_rate):
        raise InvalidMessage("`query.max_rate` must be a number")
    if not _is_number(limit) or limit < 1:
        raise InvalidMessage("`query.limit` must be a number from 1")
    return Filters(
        capability=_words(query, "capability"),
        max_rate=max_rate,
        currency=_words(query, "currency"),
        limit=int(min(limit, MAX_LIMIT)),
    )


def _words(query: dict[str, Any], field: str) -> str:
    words = query.get(field) or ""
    if not isinstance(words, str):
        raise InvalidMessage(f"`query.{field}` must be a text")
    return words.lower()


def _is_number(value: Any) -> TypeGuard[Number]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _given(value: Any) -> Any:
    """None for whatever JavaScript finds falsy (agentchat wire 11.1). Unlike in Python, [] and {} are not."""
    return None if value is None or value == "" or value == 0 else value


# -- news as messages ----------------------------------------------------------------------------------


def message_of(news: News) -> ServerMessage:
    return _MESSAGES[type(news)](news)


class Step(TypedDict):
    """The fields of `DealNotice`."""

    ts: int
    proposal_id: str
    status: Status
    updated_at: int
    from_: str
    to: str


class Completion(Step):
    """The fields of `CompleteNotice`."""

    completed_by: str
    completed_at: int
    proof: Scalar | None
    sig: str
    elo_stakes: wire.Stakes
    rating_changes: wire.RatingChanges | None


def _step(deal: Proposal) -> Step:
    return Step(
        ts=deal.updated_at,
        proposal_id=deal.id,
        status=deal.status,
        updated_at=deal.updated_at,
        from_=deal.from_,
        to=deal.to,
    )


def _proposed(news: Proposed) -> wire.ProposalNotice:
    deal = news.deal
    return wire.ProposalNotice(
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


def _accepted(news: Accepted) -> wire.AcceptNotice:
    deal = news.deal
    return wire.AcceptNotice(
        **_step(deal),
        payment_code=deal.response_payment_code,
        sig=deal.response_sig or "",
        proposer_stake=deal.proposer_stake or None,
        acceptor_stake=deal.acceptor_stake,
    )


def _rejected(news: Rejected) -> wire.RejectNotice:
    deal = news.deal
    return wire.RejectNotice(
        **_step(deal),
        reason=deal.reject_reason,
        sig=deal.response_sig or "",
    )


def _completed(news: Completed) -> wire.CompleteNotice:
    return wire.CompleteNotice(**completion(news))


def completion(news: Completed) -> Completion:
    deal = news.deal
    return Completion(
        **_step(deal),
        completed_by=deal.completed_by or "",
        completed_at=deal.updated_at,
        proof=deal.completion_proof,
        sig=deal.completion_sig or "",
        elo_stakes=_stakes(deal),
        rating_changes=rating_changes(news.movement),
    )


def _disputed(news: Disputed) -> wire.DisputeNotice:
    deal = news.deal
    return wire.DisputeNotice(
        **_step(deal),
        disputed_by=deal.disputed_by or "",
        disputed_at=deal.updated_at,
        reason=deal.dispute_reason or "",
        sig=deal.dispute_sig or "",
        elo_stakes=_stakes(deal),
        rating_changes=rating_changes(news.movement),
    )


def _expired(news: Expired) -> wire.ExpiredNotice:
    return wire.ExpiredNotice(**_step(news.deal))


def _skills_registered(news: SkillsRegistered) -> wire.SkillsRegistered:
    registered = news.registration
    return wire.SkillsRegistered(
        ts=registered.registered_at,
        agent_id=f"@{registered.agent_id}",
        skills_count=len(registered.skills),
        registered_at=registered.registered_at,
    )


_MESSAGES: Final[dict[type[News], Callable[[Any], ServerMessage]]] = {
    Proposed: _proposed,
    Accepted: _accepted,
    Rejected: _rejected,
    Completed: _completed,
    Disputed: _disputed,
    Expired: _expired,
    SkillsRegistered: _skills_registered,
}


def _stakes(deal: Proposal) -> wire.Stakes:
    return wire.Stakes(proposer=deal.proposer_stake, acceptor=deal.acceptor_stake)


def rating_changes(movement: Movement) -> wire.RatingChanges | None:
    """By address (agentchat wire 12.6). None: no rating moved."""
    if not movement.shares:
        return None
    changes: wire.RatingChanges = {
        share.address: wire.RatingChange(
            old_rating=before.rating,
            new_rating=after.rating,
            change=share.change,  # before the floor (agentchat wire 12.3)
            transactions=after.transactions,
            withheld=share.withheld or UNSET,
        )
        for share, (before, after) in zip(movement.shares, movement.moved, strict=True)
    }
    if movement.stakes is not None:
        changes["_escrow"] = _escrow(movement.stakes)
    return changes


def _escrow(result: EscrowResult) -> wire.EscrowResult:
    return wire.EscrowResult(
        proposer_stake=result.proposer_stake,
        acceptor_stake=result.acceptor_stake,
        settlement=result.settlement,
        transferred_to=result.transferred_to,
        transferred_amount=result.transferred_amount,
        burned_amount=result.burned_amount,
    )


# -- answers to questions ------------------------------------------------------------------------------


def deal_list(page: Page[Proposal], now: int) -> wire.Proposals:
    """An entry is shorter than the record that it is made of, so that what was read fits into an answer."""
    return wire.Proposals(ts=now, list=[_deal_entry(deal) for deal in page.items], truncated=page.truncated)


def receipt_list(page: Page[Receipt], now: int) -> wire.Receipts:
    bodies = [Raw(receipt.body) for receipt in page.items]
    return wire.Receipts(ts=now, list=bodies, truncated=page.truncated)


def _deal_entry(deal: Proposal) -> wire.DealEntry:
    return wire.DealEntry(
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


def ratings(
    address: str, standing: Standing, history: Iterable[tuple[int, int, str]], now: int
) -> wire.Ratings:
    return wire.Ratings(
        ts=now,
        agent_id=address,
        rating=standing.rating,
        transactions=standing.transactions,
        escrowed=standing.escrowed,
        available=escrow.available(standing),
        updated=standing.updated,
        skills={
            capability: wire.SkillRating(
                rating=skill.rating, transactions=skill.transactions, updated=skill.updated
            )
            for capability, skill in standing.skills.items()
        },
        history=[wire.RatingStep(at=at, rating=rating, why=why) for at, rating, why in history],
        mesh=_mesh_reputation(standing, now),
    )


def _mesh_reputation(standing: Standing | None, now: int) -> wire.MeshReputation | UnsetType:
    """As it is now. UNSET: no agent of the mesh has said anything about this one."""
    if standing is None or standing.mesh == UNRATED:
        return UNSET
    vector = in_epoch(standing.mesh, epoch_at(now))
    return wire.MeshReputation(
        reliability=vector.reliability,
        cooperation=vector.cooperation,
        notary_accuracy=vector.notary_accuracy,
        total_tasks=vector.total_tasks,
        total_notarized=vector.total_notarized,
        total_disputes=vector.total_disputes,
        last_active_epoch=vector.last_active_epoch,
    )


def leaderboard(
    leaders: Iterable[Leader], standings: Mapping[bytes, Standing], id_length: int, now: int
) -> wire.Leaderboard:
    return wire.Leaderboard(
        ts=now,
        list=[
            wire.LeaderboardEntry(
                agent_id=f"@{PublicKey(leader.key).agent_id(id_length)}",
                rating=leader.rating,
                transactions=leader.transactions,
                mesh=_mesh_reputation(standings.get(leader.key), now),
            )
            for leader in leaders
        ],
    )


def search_results(
    message: client.SearchSkills, result: SearchResult, id_length: int, now: int
) -> wire.SearchResults:
    found = [_found(each, id_length) for each in result.found]
    return wire.SearchResults(
        ts=now, query_id=message.query_id, query=message.query, results=found, total=result.total
    )


def _found(found: Found, id_length: int) -> dict[str, Any]:
    offer, standing, in_skill = found.offer, found.standing, found.in_skill
    # The hall's words come last: a skill with a field `agent_rating` does not rate itself.
    return {
        **found.skill,
        # As it is shown here now: it may have registered under another length, or with the reference.
        "agent_id": f"@{PublicKey(offer.key).agent_id(id_length)}",
        "registered_at": offer.registered_at,
        "agent_rating": standing.rating,
        "agent_transactions": standing.transactions,
        "skill_rating": in_skill.rating,
        "skill_transactions": in_skill.transactions,
        "skill_updated": None if in_skill.updated is None else timestamp_text(in_skill.updated),
        "online": found.online,
    }
