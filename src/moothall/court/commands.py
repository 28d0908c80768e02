"""What parties and arbiters order of the court, on whatever wire they are. Wires make these; decisions take them.

`deal` is the id of a proposal, `case` the id of a dispute.
"""

from typing import Any, ClassVar

from moothall.court.records import Verdict
from moothall.market.records import Scalar
from moothall.market.signed import SignedCommand


class FileIntent(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    reason: str
    commitment: str


class Reveal(SignedCommand, kw_only=True, frozen=True, gc=False):
    deal: str
    nonce: str


class AcceptSeat(SignedCommand, kw_only=True, frozen=True, gc=False):
    case: str


class DeclineSeat(SignedCommand, kw_only=True, frozen=True, gc=False):
    may_be_unsigned: ClassVar[bool] = True  # agentchat wire 13.4

    case: str
    reason: Scalar | None = None


class SubmitEvidence(SignedCommand, kw_only=True, frozen=True, gc=False):
    case: str
    items: list[dict[str, Any]]
    statement: str


class CastVote(SignedCommand, kw_only=True, frozen=True, gc=False):
    case: str
    verdict: Verdict
    reasoning: str
