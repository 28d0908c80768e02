"""One unit of work per command: fetch the records, have the decision made, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. What they return is told to
people only after the transaction was committed. A case is always fetched before its deal, so that two units never
wait for each other; those who only look something up hold neither.
"""

from collections.abc import Collection, Sequence
from functools import partial

from moothall.court import casefile, filing, hearing, judging, notices, panel
from moothall.court.books import Books
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import Candidate
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.errors import DisputeNotFound, DisputeNotParty
from moothall.identity import PublicKey
from moothall.market.notices import MAX_ANSWER
from moothall.market.records import Proposal, Standing
from moothall.wire.agentchat import client
from moothall.wire.agentchat.court import CaseFile, Cases

Candidates = Sequence[Candidate]


# -- commands ------------------------------------------------------------------------------------------


def file_intent(
    books: Books,
    message: client.DisputeIntent,
    key: PublicKey,
    *,
    dispute_id: str,
    server_nonce: str,
    now: int,
    rules: CourtRules,
) -> Outcome:
    earlier = books.case_of(message.proposal_id)
    outcome = filing.file_intent(
        message,
        key,
        books.proposal(message.proposal_id),
        earlier,
        dispute_id=dispute_id,
        server_nonce=server_nonce,
        now=now,
        rules=rules,
    )
    return _saved(books, outcome)


def reveal(
    books: Books,
    message: client.DisputeReveal,
    key: PublicKey,
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
) -> Outcome:
    """`candidates` are the agents that are here now: who is not cannot answer in time."""
    case = _found(books.case_of(message.proposal_id))
    pool_without = partial(_pool, books, candidates, rules)
    return _saved(
        books, filing.reveal(message, key, case, _deal(books, case), pool_without, now=now, rules=rules)
    )


def accept(
    books: Books, message: client.ArbiterAccept, key: PublicKey, *, now: int, rules: CourtRules
) -> Outcome:
    case = _found(books.case(message.dispute_id))
    return _saved(books, hearing.accept(message, key, case, now=now, rules=rules))


def decline(
    books: Books,
    message: client.ArbiterDecline,
    key: PublicKey,
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
) -> Outcome:
    case = _found(books.case(message.dispute_id))
    pool_without = partial(_pool, books, candidates, rules)
    return _saved(
        books, hearing.decline(message, key, case, _deal(books, case), pool_without, now=now, rules=rules)
    )


def submit_evidence(
    books: Books, message: client.Evidence, key: PublicKey, *, now: int, rules: CourtRules
) -> Outcome:
    case = _found(books.case(message.dispute_id))
    return _saved(
        books, hearing.submit_evidence(message, key, case, _deal(books, case), now=now, rules=rules)
    )


def vote(
    books: Books, message: client.ArbiterVote, key: PublicKey, *, now: int, rules: CourtRules
) -> Outcome:
    case = _found(books.case(message.dispute_id))
    deal, standings = _at_stake(books, case)
    return _saved(books, judging.vote(message, key, case, deal, standings, now=now, rules=rules))


# -- the clock -----------------------------------------------------------------------------------------


def lapse(books: Books, dispute_id: str, *, now: int, rules: CourtRules) -> Outcome | None:
    """One of those that `books.due_cases` named; None if somebody moved it on since."""
    case = books.case(dispute_id)
    if case is None or case.deadline is None or now < case.deadline:
        return None
    if case.phase == "reveal_pending":
        outcome = filing.miss_reveal(case, _deal(books, case), now=now)
    elif case.phase == "arbiter_response":
        outcome = hearing.end_response(case, _deal(books, case), now=now)
    elif case.phase == "evidence":
        outcome = hearing.close_evidence(case, _deal(books, case), now=now, rules=rules)
    else:
        outcome = judging.end_deliberation(case, *_at_stake(books, case), now=now)
    return _saved(books, outcome)


# -- looking things up ---------------------------------------------------------------------------------


def list_cases(books: Books, message: client.ListCases, key: PublicKey, *, now: int) -> Cases:
    page = books.cases_of(key.raw, limit=message.limit, open_only=message.open_only)
    return notices.case_list(page.cases, key.raw, now, truncated=page.truncated)


def get_case(books: Books, message: client.GetCase, key: PublicKey, *, now: int) -> CaseFile:
    case = None if message.dispute_id is None else books.case(message.dispute_id, hold=False)
    if message.proposal_id is not None and message.dispute_id is None:
        case = books.case_of(message.proposal_id, hold=False)
    case = _found(case)
    if notices.role_of(case, key.raw) is None:
        raise DisputeNotParty("Only the parties and the arbiters of a case see its file")
    return CaseFile(ts=now, case=casefile.exported(case, _deal(books, case, hold=False), key.raw))


def reminders(
    books: Books, dispute_ids: Sequence[str], key: bytes, *, now: int
) -> tuple[list[Notice], Sequence[str]]:
    """What this arbiter has yet to do in these cases, as far as it fits into one answer; and the other cases."""
    found: list[Notice] = []
    size = 0
    for number, dispute_id in enumerate(dispute_ids):
        case = books.case(dispute_id, hold=False)
        if case is None:
            continue
        notice = notices.reminder(case, _deal(books, case, hold=False), key, now)
        if notice is None:
            continue
        size += notices.size_of(notice)
        if found and size > MAX_ANSWER:
            return found, dispute_ids[number:]
        found.append(notice)
    return found, ()


# -- small words ---------------------------------------------------------------------------------------


def _saved(books: Books, outcome: Outcome) -> Outcome:
    books.save(*outcome.changes)
    return outcome


def _found(case: Dispute | None) -> Dispute:
    if case is None:
        raise DisputeNotFound("There is no such dispute")
    return case


def _at_stake(books: Books, case: Dispute) -> tuple[Proposal, dict[bytes, Standing]]:
    """The deal, and the standings of everybody whom a verdict concerns."""
    agents = judging.agents_of(case)
    deal = _deal(books, case, besides=agents)
    return deal, {each: books.standing(each) for each in agents}


def _deal(books: Books, case: Dispute, *, hold: bool = True, besides: Collection[bytes] = ()) -> Proposal:
    deal = books.proposal(case.proposal_id, hold=hold, besides=besides)
    if deal is None:
        raise LookupError(f"{case.id} is about {case.proposal_id}, which is not in the books")
    return deal


def _pool(
    books: Books, candidates: Candidates, rules: CourtRules, barred: frozenset[bytes]
) -> list[Candidate]:
    keys = [candidate.key for candidate in candidates if candidate.key not in barred]
    standings = books.qualified(keys, rules.arbiter_rating, rules.arbiter_transactions)
    panels = books.panels([standing.key for standing in standings]) if rules.max_panels else {}
    return panel.eligible(
        candidates,
        {standing.key: standing for standing in standings},
        panels,
        barred=barred,
        rules=rules,
    )
