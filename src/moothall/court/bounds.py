"""What the fields of the court's commands may hold. Checked before a text is built that is signed or hashed.

What parties and arbiters say stays in the file of the case. That has to remain of a size that clients take, however
many arbiters there were.
"""

from typing import Final

from moothall.court.commands import CastVote, DeclineSeat, FileIntent, SubmitEvidence
from moothall.errors import InvalidMessage
from moothall.market.bounds import MAX_REASON, require_length
from moothall.market.storable import bounded_json, require_bounded

MAX_ITEMS: Final = 10  # seed 000, submit evidence 2
MAX_STATEMENT: Final = 2000  # agentchat wire 13.1
MAX_REASONING: Final = 500
# What one frame can hold (seed 001, transport), written out: 1e15 comes as four characters and leaves as eighteen.
# Many WebSocket clients hang up on more than a mebibyte, and CASE_READY carries the evidence of both parties.
MAX_EVIDENCE: Final = 256 * 1024  # bytes


def check_intent(command: FileIntent) -> None:
    require_length(command.reason, "reason", MAX_REASON)


def check_decline(command: DeclineSeat) -> None:
    require_length(command.reason, "reason", MAX_REASONING)


def check_vote(command: CastVote) -> None:
    require_length(command.reasoning, "reasoning", MAX_REASONING)


def check_evidence(command: SubmitEvidence) -> None:
    """Cheap checks first."""
    if len(command.items) > MAX_ITEMS:
        raise InvalidMessage(f"Invalid `items`: at most {MAX_ITEMS}")
    require_length(command.statement, "statement", MAX_STATEMENT)
    require_bounded(command.items, "items")
    bounded_json(command.items, "items", MAX_EVIDENCE)
