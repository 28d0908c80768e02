"""The file of a case: everything that was said and decided, so that it can be checked (see `verify`).

It carries the public keys, because an agent's id is the beginning of a hash of its key, so that they prove the
names; the PROPOSAL and the ACCEPT of the deal as they were signed, because they prove the stakes; and the pool
with those that the draw passed over, because with the seed they prove the panel.

While a case is open its file does not show what would help one side over the other: evidence before the time
for it is over, except the viewer's own, and votes before the verdict. Nor does it show evidence to an arbiter that
declined: it has no more say in the case than a stranger.

When a case is closed, the hall that closed it signs its file (`identity.seals`), and the file is kept as it was
signed. Parties and arbiters sign their own steps and no more (agentchat wire 8). All else is the hall's word: that
this PROPOSAL was accepted under this id, the times, the server nonce, the ratings, who was in the pool and was
passed over, who did not answer, what the rules against farming remembered of the agents, and the terms, capability,
statements and reasonings.

Format 1 is that of cases that were filed before the pool was taken at intent: it has no `pool_hash`, and its
replacements were drawn from pools of their own.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from moothall.court.panel import Why
from moothall.court.phases import Phase
from moothall.court.records import Dispute, Settlement, SignedFile, SlotStatus, Submission, Verdict
from moothall.court.verdict import reward, votes_cast
from moothall.identity import PublicKey
from moothall.identity.seals import CASE, HALL_KEY, HALL_SIG, Seal, seal_text
from moothall.market.receipts import SignedAccept, SignedProposal, signed_offer
from moothall.market.records import Proposal, Scalar
from moothall.wire.canonical import canonical_json

FORMAT: Final = 2
OLD_FORMAT: Final = 1

# A double holds each of these, which is what the arithmetic of ratings needs.
Whole = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class Person(Struct, kw_only=True):
    id: str  # with "@"
    key: str  # PEM


class Deal(Struct, kw_only=True):
    """`terms`, `capability` and `created_at` are signed by the hall alone."""

    from_: str = msgspec.field(name="from")
    to: str
    proposal: SignedProposal
    accept: SignedAccept
    terms: Any = None
    capability: str | None = None
    created_at: Whole | None = None


class Reveal(Struct, kw_only=True):
    nonce: str
    sig: str
    at: Whole


class Accepted(Struct, kw_only=True):
    sig: str
    at: Whole


class Declined(Struct, kw_only=True):
    reason: Scalar | None
    sig: str | None
    at: Whole


class CastVote(Struct, kw_only=True):
    verdict: Verdict
    reasoning: str
    sig: str
    at: Whole


class Passed(Struct, kw_only=True):
    """An agent of the pool that the draw passed over."""

    id: str
    why: Why
    at: Whole


class Arbiter(Struct, kw_only=True):
    """`pool` is what a replacement was drawn from, in a case of the old format."""

    id: str
    key: str
    status: SlotStatus
    is_replacement: bool
    pool: list[str] | None
    assigned_at: Whole
    accepted: Accepted | None
    declined: Declined | None
    vote: CastVote | None


class Evidence(Struct, kw_only=True):
    items: list[dict[str, Any]]
    hashes: list[str]
    statement: str
    sig: str
    at: Whole


class BothEvidence(Struct, kw_only=True):
    disputant: Evidence | None
    respondent: Evidence | None


class Fallback(Struct, kw_only=True):
    reason: str
    at: Whole


class Result(Struct, kw_only=True):
    arbiter: str
    verdict: Verdict | None
    reward: Whole


class Judgement(Struct, kw_only=True):
    verdict: Verdict
    votes: list[str]  # the arbiters that voted, in the order of their votes
    results: list[Result]
    at: Whole


class Share(Struct, kw_only=True, omit_defaults=True):
    """What the verdict did to one agent. `earned` is aside from stakes, and before the floor."""

    agent: str
    rating_before: Whole
    earned: Whole
    staked: Whole
    awarded: Whole
    rating_after: Whole
    withheld: Whole = 0  # by the rules against farming


class Stakes(Struct, kw_only=True, omit_defaults=True):
    disputant: Whole
    respondent: Whole
    settlement: Literal["transferred", "burned"]
    to: str | None
    amount: Whole
    burned: Whole = 0  # of a stake that was transferred


class Transferred(Struct, kw_only=True, omit_defaults=True):
    """What the winner got of the loser's points, and what that follows from (see `market.curbs`)."""

    due: Whole
    paid: Whole
    left: Annotated[int, Meta(ge=0, le=2**53)] | None = None
    nth: Annotated[int, Meta(ge=1, le=2**53)] = 1
    room: Annotated[int, Meta(ge=0, le=2**53)] | None = None


class CaseSettlement(Struct, kw_only=True, omit_defaults=True):
    shares: list[Share]
    stakes: Stakes
    transfer: Transferred | None = None


class Case(Struct, kw_only=True):
    """`pool_keys` are the raw keys of the agents in `pool`, in hex and in the same order. `hall_key` and `hall_sig`
    are in the file of a case that is closed."""

    format: Literal[1, 2]
    dispute_id: str
    proposal_id: str
    phase: Phase
    filed_at: Whole
    deadline: Whole | None
    disputant: Person
    respondent: Person
    deal: Deal
    reason: str
    commitment: str
    intent_sig: str
    server_nonce: str
    reveal: Reveal | None
    seed: str | None
    pool: list[str] | None
    pool_keys: list[str] | None
    pool_hash: str | None
    arbiters: list[Arbiter]
    skipped: list[Passed]
    evidence: BothEvidence
    fallback: Fallback | None
    judgement: Judgement | None
    settlement: CaseSettlement | None
    hall_key: str | None = None
    hall_sig: str | None = None


def signed_file(case: Dispute, deal: Proposal, seal: Seal) -> SignedFile:
    """Of a case that is closed: its file is the same for all who may see it."""
    record = msgspec.to_builtins(case_file(case, deal, case.disputant))
    del record[HALL_SIG]
    record[HALL_KEY] = seal.hall_key
    record[HALL_SIG] = seal.sign(CASE, canonical_json(record))
    return SignedFile(dispute_id=case.id, body=msgspec.json.encode(record))


def signed_text(file: SignedFile) -> bytes:
    """What the hall signed under this file."""
    record = msgspec.json.decode(file.body)
    del record[HALL_SIG]
    return seal_text(CASE, canonical_json(record)).encode()


def parsed(case: object) -> Case:
    """`case` as it came out of a JSON parser, or msgspec.ValidationError."""
    if isinstance(case, dict) and case.get("format") == OLD_FORMAT:
        case = {"pool_keys": None, "pool_hash": None, "skipped": [], **case}
    return msgspec.convert(case, Case)


def exported(case: Dispute, deal: Proposal, viewer: bytes | None) -> Raw:
    """Of a case that is open, or was closed before halls signed files: there is no signature in it."""
    return Raw(msgspec.json.encode(case_file(case, deal, viewer)))


def case_file(case: Dispute, deal: Proposal, viewer: bytes | None) -> Case:
    proposal, accept = signed_offer(deal)
    return Case(
        format=OLD_FORMAT if case.pool_hash is None else FORMAT,
        dispute_id=case.id,
        proposal_id=case.proposal_id,
        phase=case.phase,
        filed_at=case.filed_at,
        deadline=case.deadline,
        disputant=Person(id=case.disputant_address, key=PublicKey(case.disputant).pem),
        respondent=Person(id=case.respondent_address, key=PublicKey(case.respondent).pem),
        deal=Deal(
            from_=deal.from_,
            to=deal.to,
            proposal=msgspec.convert(proposal, SignedProposal),
            accept=msgspec.convert(accept, SignedAccept),
            terms=deal.terms,
            capability=deal.capability,
            created_at=deal.created_at,
        ),
        reason=case.reason,
        commitment=case.commitment,
        intent_sig=case.intent_sig,
        server_nonce=case.server_nonce,
        reveal=_reveal(case),
        seed=case.seed,
        pool=None if case.seed is None else list(case.pool),
        pool_keys=_pool_keys(case),
        pool_hash=case.pool_hash,
        arbiters=[_arbiter(case, number) for number in range(len(case.slots))],
        skipped=[Passed(id=each.address, why=each.why, at=each.at) for each in case.skipped],
        evidence=_evidence(case, viewer),
        fallback=_fallback(case),
        judgement=_judgement(case),
        settlement=None if case.settlement is None else _settlement(case.settlement),
    )


def _reveal(case: Dispute) -> Reveal | None:
    if case.nonce is None or case.reveal_sig is None or case.revealed_at is None:
        return None
    return Reveal(nonce=case.nonce, sig=case.reveal_sig, at=case.revealed_at)


def _pool_keys(case: Dispute) -> list[str] | None:
    """Like the pool, not shown before the reveal: its hash is, and says no more than the hall has to promise."""
    if case.seed is None or case.pool_hash is None:
        return None
    return [key.hex() for key in case.pool_keys]


def _arbiter(case: Dispute, number: int) -> Arbiter:
    slot = case.slots[number]
    accepted = declined = vote = None
    if slot.accept_sig is not None and slot.accepted_at is not None:
        accepted = Accepted(sig=slot.accept_sig, at=slot.accepted_at)
    if slot.declined_at is not None:
        declined = Declined(reason=slot.decline_reason, sig=slot.decline_sig, at=slot.declined_at)
    if slot.vote is not None and not case.is_open:
        vote = CastVote(
            verdict=slot.vote.verdict, reasoning=slot.vote.reasoning, sig=slot.vote.sig, at=slot.vote.at
        )
    return Arbiter(
        id=slot.address,
        key=PublicKey(slot.arbiter).pem,
        status=slot.status,
        is_replacement=case.is_replacement(number),
        pool=None if slot.pool is None else list(slot.pool),
        assigned_at=slot.assigned_at,
        accepted=accepted,
        declined=declined,
        vote=vote,
    )


def _evidence(case: Dispute, viewer: bytes | None) -> BothEvidence:
    shown = case.deliberation_from is not None and not (case.is_open and _has_no_say(case, viewer))
    return BothEvidence(
        disputant=_submission(case.disputant_evidence) if shown or viewer == case.disputant else None,
        respondent=_submission(case.respondent_evidence) if shown or viewer == case.respondent else None,
    )


def _has_no_say(case: Dispute, viewer: bytes | None) -> bool:
    """True for strangers, and for an arbiter that declined."""
    if viewer in case.parties:
        return False
    number = None if viewer is None else case.slot_of(viewer)
    return number is None or case.slots[number].status == "declined"


def _submission(submission: Submission | None) -> Evidence | None:
    if submission is None:
        return None
    return Evidence(
        items=list(submission.items),
        hashes=list(submission.hashes),
        statement=submission.statement,
        sig=submission.sig,
        at=submission.at,
    )


def _fallback(case: Dispute) -> Fallback | None:
    if case.fallback_reason is None or case.closed_at is None:
        return None
    return Fallback(reason=case.fallback_reason, at=case.closed_at)


def _judgement(case: Dispute) -> Judgement | None:
    if case.verdict is None or case.closed_at is None:
        return None
    return Judgement(
        verdict=case.verdict,
        votes=[slot.address for slot in votes_cast(case.slots)],
        results=[
            Result(
                arbiter=slot.address, verdict=None if slot.vote is None else slot.vote.verdict, reward=earned
            )
            for slot in case.slots
            if (earned := reward(slot, case.verdict)) is not None
        ],
        at=case.closed_at,
    )


def _settlement(settlement: Settlement) -> CaseSettlement:
    disputant, respondent = settlement.shares[:2]
    stakes, given = settlement.stakes, settlement.transfer
    amount = stakes.burned_amount if stakes.settlement == "burned" else stakes.transferred_amount
    return CaseSettlement(
        shares=[
            Share(
                agent=share.address,
                rating_before=share.rating_before,
                earned=share.earned,
                staked=share.staked,
                awarded=share.awarded,
                rating_after=share.rating_after,
                withheld=share.withheld,
            )
            for share in settlement.shares
        ],
        stakes=Stakes(
            disputant=disputant.staked,
            respondent=respondent.staked,
            settlement="burned" if stakes.settlement == "burned" else "transferred",
            to=stakes.transferred_to,
            amount=amount if isinstance(amount, int) else 0,
            burned=stakes.burned_amount
            if stakes.settlement == "transferred" and isinstance(stakes.burned_amount, int)
            else 0,
        ),
        transfer=None if given is None else msgspec.convert(given, Transferred, from_attributes=True),
    )
