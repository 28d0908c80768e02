"""Cases about conversations of the mesh: what the court does besides judging a deal.

DISPUTE_INTENT names the conversation as the ledger does, `mesh:` and its id. The copy of the conversation that
the court judges is made there (`market.in_court`), so there is none that no case is about. A conversation is
fetched after its case and before the deal."""

from collections.abc import Callable, Sequence
from typing import Final

from moothall.court import casefile
from moothall.court.admission import require_first
from moothall.court.books import Books
from moothall.court.commands import FileIntent
from moothall.court.records import Dispute, SignedFile
from moothall.errors import ProposalNotFound
from moothall.identity.seals import Seal
from moothall.market import in_court
from moothall.market.conversations import Conversation
from moothall.market.credits import Authority, conversation_named
from moothall.market.in_court import Winner
from moothall.market.records import Proposal
from moothall.market.signed import Signed
from moothall.wire.mesh.keccak import keccak256

NO_NONCE: Final = 0  # of a verdict: the signature of the hall is under one file


def opened(
    books: Books,
    order: Signed[FileIntent],
    earlier: Sequence[Dispute],
    address: Callable[[bytes], str],
    *,
    dispute_id: str,
    now: int,
) -> tuple[Conversation, Proposal]:
    """The conversation that the order names, held from now on, and its copy. `earlier` are the cases about it."""
    conversation_id = conversation_named(order.command.deal)
    if conversation_id is None:
        raise ProposalNotFound("There is no proposal with this id")
    require_first(order.key, earlier)
    conversation = in_court.hold(books, conversation_id, order.key, dispute_id, now=now)
    books.proposal(order.command.deal)  # that of an earlier case, which this one replaces
    return conversation, in_court.copy_of(books, conversation, address)


def closed(books: Books, case: Dispute, file: SignedFile, seal: Seal) -> Conversation | None:
    """The conversation that a case was about, after its end; None if it was about a deal of another wire."""
    conversation_id = conversation_named(case.proposal_id)
    if conversation_id is None:
        return None
    now = case.closed_at or 0
    if case.verdict is None:
        return in_court.give_back(books, conversation_id, case.id, now=now)
    verdict = keccak256(casefile.signed_text(file))
    authority = Authority(verdict, bytes.fromhex(seal.hall_key), NO_NONCE)
    winner = _winner(case, books.conversation(conversation_id))
    return in_court.settle(books, conversation_id, case.id, winner, authority, now=now)


def _winner(case: Dispute, conversation: Conversation | None) -> Winner | None:
    if case.verdict == "mutual" or conversation is None:
        return None
    won = case.disputant if case.verdict == "disputant" else case.respondent
    return "provider" if won == conversation.provider else "requester"
