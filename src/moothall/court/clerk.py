"""One unit of work per command: fetch the records, have the decision made, write it down.

These run where the books are, inside a transaction; whatever they raise undoes it. What they return is told to
people only after the transaction was committed. Each takes a command whose signature was checked. A stranger's step
is refused before any row is locked (see `admission`). A case is always fetched before its deal, so that two units
never wait for each other; a unit that only looks something up holds neither.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

from msgspec import Raw, structs

from moothall.court import admission, casefile, filing, hearing, judging, mesh_cases, news, panel
from moothall.court.books import Books
from moothall.court.commands import AcceptSeat, CastVote, DeclineSeat, FileIntent, Reveal, SubmitEvidence
from moothall.court.news import CourtOutcome
from moothall.court.panel import MAX_POOL, Candidate, Why
from moothall.court.records import Dispute
from moothall.court.rules import CourtRules
from moothall.errors import DisputeNotFound
from moothall.identity import PublicKey
from moothall.identity.keys import AGENT_ID_LENGTH
from moothall.identity.seals import Seal
from moothall.market.books import MAX_ANSWER
from moothall.market.conversations import Conversation
from moothall.market.credits import conversation_named
from moothall.market.outcome import News, Notice
from moothall.market.records import Proposal, Standing
from moothall.market.signed import Signed
from moothall.wire.agentchat.names import bare_id

Candidates = Sequence[Candidate]

# Whose standings are looked up at once while a pool is taken: one statement, and in most halls the only one.
ASKED_AT_ONCE: Final = 256


# -- commands ------------------------------------------------------------------------------------------


def file_intent(
    books: Books,
    order: Signed[FileIntent],
    candidates: Candidates,
    *,
    dispute_id: str,
    server_nonce: str,
    now: int,
    rules: CourtRules,
    seal: Seal,
    id_length: int = AGENT_ID_LENGTH,
) -> CourtOutcome:
    """`candidates` are the agents that are here now, and ids have `id_length` digits."""
    earlier = books.cases_about(order.command.deal)
    conversation: Conversation | None = None
    if conversation_named(order.command.deal) is None:
        deal = books.proposal(order.command.deal)
    else:
        conversation, deal = mesh_cases.opened(
            books, order, earlier, partial(_address, id_length), dispute_id=dispute_id, now=now
        )
    outcome = filing.file_intent(
        order,
        deal,
        earlier,
        partial(_pool, books, candidates, server_nonce, rules, now),
        dispute_id=dispute_id,
        server_nonce=server_nonce,
        now=now,
        rules=rules,
    )
    return _saved(books, outcome, seal, conversation)


def reveal(
    books: Books,
    order: Signed[Reveal],
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
    seal: Seal,
) -> CourtOutcome:
    """`candidates` are the agents that are here now: an agent that is not cannot answer in time."""
    case = _known(books, admission.require_filing(order.key, books.filings(order.command.deal)))
    if case.pool_hash is None:  # filed before pools were taken at intent
        pool = _pool(books, candidates, case.server_nonce, rules, now, frozenset(case.parties))
        case = structs.replace(
            case,
            pool=tuple(each.address for each in pool),
            pool_keys=tuple(each.key for each in pool),
        )
    unfit = partial(_unfit, books, candidates, rules, now)
    outcome = filing.reveal(order, case, _deal(books, case), unfit, now=now, rules=rules)
    return _saved(books, outcome, seal)


def accept(
    books: Books, order: Signed[AcceptSeat], *, now: int, rules: CourtRules, seal: Seal
) -> CourtOutcome:
    admission.require_arbiter(books.part(order.command.case, order.key))
    case = _known(books, order.command.case)
    return _saved(books, hearing.accept(order, case, now=now, rules=rules), seal)


def decline(
    books: Books,
    order: Signed[DeclineSeat],
    candidates: Candidates,
    *,
    now: int,
    rules: CourtRules,
    seal: Seal,
) -> CourtOutcome:
    admission.require_arbiter(books.part(order.command.case, order.key))
    case = _with_keys(books, _known(books, order.command.case))
    unfit = partial(_unfit, books, candidates, rules, now)
    return _saved(books, hearing.decline(order, case, _deal(books, case), unfit, now=now), seal)


def submit_evidence(
    books: Books, order: Signed[SubmitEvidence], *, now: int, rules: CourtRules, seal: Seal
) -> CourtOutcome:
    admission.require_party(books.part(order.command.case, order.key))
    case = _known(books, order.command.case)
    deal = _deal(books, case)
    return _saved(books, hearing.submit_evidence(order, case, deal, now=now, rules=rules), seal)


def vote(books: Books, order: Signed[CastVote], *, now: int, rules: CourtRules, seal: Seal) -> CourtOutcome:
    admission.require_arbiter(books.part(order.command.case, order.key))
    case = _known(books, order.command.case)
    deal, standings = _at_stake(books, case)
    return _saved(books, judging.vote(order, case, deal, standings, now=now, rules=rules), seal)


# -- the clock -----------------------------------------------------------------------------------------


def lapse(books: Books, dispute_id: str, *, now: int, rules: CourtRules, seal: Seal) -> CourtOutcome | None:
    """Act on the deadline of a case that `books.due_cases` named. None if it has moved on since."""
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


def get_case(
    books: Books,
    dispute_id: str | None,
    proposal_id: str | None,
    viewer: bytes | None,
    *,
    is_public: bool = False,
) -> Raw:
    """The file of the case with this id, or of the newest about this deal, as JSON. `viewer` is None for one
    without a key, which sees a case only if it `is_public`."""
    dispute_id = dispute_id or _newest(books, proposal_id or "")
    if not is_public:
        admission.require_viewer("stranger" if viewer is None else books.part(dispute_id, viewer))
    case = books.case(dispute_id, hold=False)
    if case is None:
        raise DisputeNotFound("There is no such dispute")
    signed = None if case.is_open else books.signed_file(case.id)
    if signed is not None:
        return Raw(signed)
    return casefile.exported(case, _deal(books, case, hold=False), viewer)


def reminders(
    books: Books, dispute_ids: Sequence[str], key: bytes, *, now: int, size: Callable[[News], int]
) -> tuple[list[Notice], Sequence[str]]:
    """What this arbiter has yet to do in these cases, as far as it fits into one answer; and the other cases.
    `size` is how many bytes the news have on the arbiter's wire."""
    found: list[Notice] = []
    total = 0
    for number, dispute_id in enumerate(dispute_ids):
        case = books.case(dispute_id, hold=False)
        if case is None:
            continue
        notice = news.reminder(case, _deal(books, case, hold=False), key, now)
        if notice is None:
            continue
        total += size(notice.news)
        if found and total > MAX_ANSWER:
            return found, dispute_ids[number:]
        found.append(notice)
    return found, ()


# -- small words ---------------------------------------------------------------------------------------


def _saved(
    books: Books, outcome: CourtOutcome, seal: Seal, conversation: Conversation | None = None
) -> CourtOutcome:
    """What ends here, the hall signs; every decision that closes a case also changes its deal. A case about a
    conversation of the mesh begins and ends with it."""
    deals = {change.id: change for change in outcome.changes if isinstance(change, Proposal)}
    closed = [change for change in outcome.changes if isinstance(change, Dispute) and not change.is_open]
    files = [casefile.signed_file(case, deals[case.proposal_id], seal) for case in closed]
    for case, file in zip(closed, files, strict=True):
        conversation = mesh_cases.closed(books, case, file, seal)
    if conversation is not None:
        outcome = structs.replace(outcome, changes=(*outcome.changes, conversation))
    books.save(*outcome.changes, *files)
    return outcome


def _address(id_length: int, key: bytes) -> str:
    return f"@{PublicKey(key).agent_id(id_length)}"


def _known(books: Books, dispute_id: str) -> Dispute:
    """The record of a case that `part` or `filings` has named."""
    case = books.case(dispute_id, hold=True)
    if case is None:
        raise LookupError(f"{dispute_id} is named in the books, and not in them")
    return case


def _newest(books: Books, proposal_id: str) -> str:
    """The id of the newest case about this deal."""
    filings = books.filings(proposal_id)
    if not filings:
        raise DisputeNotFound("There is no dispute about this deal")
    return filings[0].dispute_id


def _at_stake(books: Books, case: Dispute) -> tuple[Proposal, dict[bytes, Standing]]:
    """The deal, and the standings of all agents that a verdict concerns."""
    agents = judging.agents_of(case)
    deal = _deal(books, case, besides=agents)
    return deal, {each: books.standing(each) for each in agents}


def _deal(books: Books, case: Dispute, *, hold: bool = True, besides: Collection[bytes] = ()) -> Proposal:
    conversation_id = conversation_named(case.proposal_id) if hold else None
    if conversation_id is not None:
        books.conversation(conversation_id)  # steps of the conversation lock it before the standings, too
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
