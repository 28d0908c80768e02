"""One unit of work per command: fetch the records, have the decision made, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. What they return is told to
people only after the transaction was committed. Whether a step is let in is found out before any row is locked
(see `admission`). A case is always fetched before its deal, so that two units never wait for each other; a unit
that only looks something up holds neither.
"""

from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from msgspec import Raw, structs

from moothall.court import admission, casefile, filing, hearing, judging, notices, panel
from moothall.court.books import Books
from moothall.court.outcome import Notice, Outcome
from moothall.court.panel import MAX_POOL, Candidate, Why
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.errors import DisputeNotFound
from moothall.identity import PublicKey
from moothall.identity.seals import Seal
from moothall.market.notices import MAX_ANSWER
from moothall.market.records import Proposal, Standing
from moothall.wire.agentchat import client
from moothall.wire.agentchat.court import CaseFile, Cases
from moothall.wire.agentchat.names import bare_id

Candidates = Sequence[Candidate]

# Whose standings are looked up at once while a pool is taken: one statement, and in most halls the only one.
ASKED_AT_ONCE: Final = 256


# -- commands ------------------------------------------------------------------------------------------


def file_intent(
    books: Books,
    message: client.DisputeIntent,
    key: PublicKey,
    candidates: Candidates,
    *,
    dispute_id: str,
    server_nonce: str,
    now: int,
    rules: CourtRules,
    seal: Seal,
) -> Outcome:
    """`candidates` are the agents that are here now."""
    admission.require_intent(message, key, rules)
    earlier = books.cases_about(message.proposal_id)
    outcome = filing.file_intent(
        message,
        key,
        books.proposal(message.proposal_id),
        earlier,
        partial(_pool, books, candidates, server_nonce, rules, now),
        dispute_id=dispute_id,
        server_nonce=server_nonce,
        now=now,
        rules=rules,
    )
    return _saved(books, outcome, seal)


def reveal(
    books: Books,
    message: client.DisputeReveal,
    key: PublicKey,
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
    seal: Seal,
) -> Outcome:
    """`candidates` are the agents that are here now: an agent that is not cannot answer in time."""
    filings = books.filings(message.proposal_id)
    case = _known(books, admission.require_filing(message, key, filings, rules))
    if case.pool_hash is None:  # filed before pools were taken at intent
        pool = _pool(books, candidates, case.server_nonce, rules, now, frozenset(case.parties))
        case = structs.replace(
            case,
            pool=tuple(each.address for each in pool),
            pool_keys=tuple(each.key for each in pool),
        )
    unfit = partial(_unfit, books, candidates, rules, now)
    outcome = filing.reveal(message, key, case, _deal(books, case), unfit, now=now, rules=rules)
    return _saved(books, outcome, seal)


def accept(
    books: Books, message: client.ArbiterAccept, key: PublicKey, *, now: int, rules: CourtRules, seal: Seal
) -> Outcome:
    admission.require_arbiter(message, key, books.part(message.dispute_id, key.raw), rules)
    case = _known(books, message.dispute_id)
    return _saved(books, hearing.accept(message, key, case, now=now, rules=rules), seal)


def decline(
    books: Books,
    message: client.ArbiterDecline,
    key: PublicKey,
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
    seal: Seal,
) -> Outcome:
    admission.require_arbiter(message, key, books.part(message.dispute_id, key.raw), rules)
    case = _with_keys(books, _known(books, message.dispute_id))
    unfit = partial(_unfit, books, candidates, rules, now)
    outcome = hearing.decline(message, key, case, _deal(books, case), unfit, now=now)
    return _saved(books, outcome, seal)


def submit_evidence(
    books: Books, message: client.Evidence, key: PublicKey, *, now: int, rules: CourtRules, seal: Seal
) -> Outcome:
    admission.require_party(message, key, books.part(message.dispute_id, key.raw), rules)
    case = _known(books, message.dispute_id)
    return _saved(
        books, hearing.submit_evidence(message, key, case, _deal(books, case), now=now, rules=rules), seal
    )


def vote(
    books: Books, message: client.ArbiterVote, key: PublicKey, *, now: int, rules: CourtRules, seal: Seal
) -> Outcome:
    admission.require_arbiter(message, key, books.part(message.dispute_id, key.raw), rules)
    case = _known(books, message.dispute_id)
    deal, standings = _at_stake(books, case)
    return _saved(books, judging.vote(message, key, case, deal, standings, now=now, rules=rules), seal)


# -- the clock -----------------------------------------------------------------------------------------


def lapse(books: Books, dispute_id: str, *, now: int, rules: CourtRules, seal: Seal) -> Outcome | None:
    """One of those that `books.due_cases` named; None if it has moved on since."""
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
        outcome = judging.end_deliberation(case, *_at_stake(books, case), now=now, rules=rules)
    return _saved(books, outcome, seal)


# -- looking things up ---------------------------------------------------------------------------------


def list_cases(books: Books, message: client.ListCases, key: PublicKey, *, now: int) -> Cases:
    page = books.cases_of(key.raw, limit=message.limit, open_only=message.open_only)
    return notices.case_list(page.cases, key.raw, now, truncated=page.truncated)


def get_case(books: Books, message: client.GetCase, key: PublicKey, *, now: int) -> CaseFile:
    dispute_id = message.dispute_id or _newest(books, message.proposal_id or "")
    admission.require_viewer(books.part(dispute_id, key.raw))
    case = _known(books, dispute_id, hold=False)
    signed = None if case.is_open else books.signed_file(case.id)
    if signed is not None:
        return CaseFile(ts=now, case=Raw(signed))
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


def _saved(books: Books, outcome: Outcome, seal: Seal) -> Outcome:
    """What ends here, the hall signs; every decision that closes a case also changes its deal."""
    deals = {change.id: change for change in outcome.changes if isinstance(change, Proposal)}
    closed = [change for change in outcome.changes if isinstance(change, Dispute) and not change.is_open]
    files = [casefile.signed_file(case, deals[case.proposal_id], seal) for case in closed]
    books.save(*outcome.changes, *files)
    return outcome


def _known(books: Books, dispute_id: str, *, hold: bool = True) -> Dispute:
    """One that `part` or `filings` has named."""
    case = books.case(dispute_id, hold=hold)
    if case is None:
        raise LookupError(f"{dispute_id} is named in the books, and not in them")
    return case


def _newest(books: Books, proposal_id: str) -> str:
    """Of the cases about this deal."""
    filings = books.filings(proposal_id)
    if not filings:
        raise DisputeNotFound("There is no dispute about this deal")
    return filings[0].dispute_id


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


# -- the pool ------------------------------------------------------------------------------------------


def _pool(
    books: Books,
    candidates: Candidates,
    server_nonce: str,
    rules: CourtRules,
    now: int,
    barred: frozenset[bytes],
) -> list[Candidate]:
    """Sorted; of more than MAX_POOL eligible agents, those that the nonce picks."""
    waiting = panel.lottery((each for each in candidates if each.key not in barred), server_nonce)
    found: list[Candidate] = []
    for start in range(0, len(waiting), ASKED_AT_ONCE):
        found += _eligible(books, waiting[start : start + ASKED_AT_ONCE], rules, now)
        if len(found) >= MAX_POOL:
            break
    return sorted(found[:MAX_POOL], key=lambda candidate: candidate.address)


def _unfit(
    books: Books, candidates: Candidates, rules: CourtRules, now: int, members: Candidates
) -> dict[str, Why]:
    """Why each of these members of a pool cannot be asked now."""
    present = {candidate.key for candidate in candidates}
    fit = set(_eligible(books, [each for each in members if each.key in present], rules, now))
    return {
        each.address: "not_eligible" if each.key in present else "absent"
        for each in members
        if each not in fit
    }


def _eligible(books: Books, candidates: Candidates, rules: CourtRules, now: int) -> list[Candidate]:
    standings = books.qualified(
        [candidate.key for candidate in candidates], rules.arbiter_rating, rules.arbiter_transactions
    )
    panels = books.panels([standing.key for standing in standings]) if rules.max_panels else {}
    found = panel.eligible(candidates, {standing.key: standing for standing in standings}, panels, rules)
    if rules.arbiter_counterparties or rules.arbiter_age:
        found = panel.experienced(found, books.experience([each.key for each in found]), rules, now)
    return found


def _with_keys(books: Books, case: Dispute) -> Dispute:
    """A case that was filed before pools were taken at intent names its pool by ids alone."""
    if len(case.pool_keys) == len(case.pool):
        return case
    keys = (books.find_key(bare_id(address)) for address in case.pool)
    return structs.replace(case, pool_keys=tuple(key or b"" for key in keys))
