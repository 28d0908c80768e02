"""Whether a step is let in: what is checked before any row of the case is locked, or its record read.

Cheap checks come first, then the signature, as far as the wire's order of errors allows (agentchat wire 13): the
case is there; for a party its part in the case comes before the signature, for an arbiter after it. What needs the
record, such as the phase, is checked by the decision (see `filing`, `hearing`, `judging`).
"""

from collections.abc import Sequence

from moothall.court.books import Filing
from moothall.court.evidence import require_presentable, require_short
from moothall.court.records import Part
from moothall.court.rules import CourtRules
from moothall.court.signed import require_signature
from moothall.errors import DisputeNotArbiter, DisputeNotFound, DisputeNotParty
from moothall.identity import PublicKey
from moothall.market.bounds import MAX_REASON
from moothall.wire.agentchat import client

ArbiterStep = client.ArbiterAccept | client.ArbiterDecline | client.ArbiterVote


def require_intent(message: client.DisputeIntent, key: PublicKey, rules: CourtRules) -> None:
    """Its signature comes before anything that the books say (agentchat wire 13.2)."""
    require_short(message.reason, "reason", MAX_REASON)
    require_signature(message, key, rules)


def require_filing(
    message: client.DisputeReveal, key: PublicKey, filings: Sequence[Filing], rules: CourtRules
) -> str:
    """The id of the sender's own case about this deal. `filings` are all cases about it."""
    if not filings:
        raise DisputeNotFound("There is no dispute about this deal")
    own = next((filing.dispute_id for filing in filings if filing.disputant == key.raw), None)
    if own is None:
        raise DisputeNotParty("Only the party that filed a dispute reveals its nonce")
    require_signature(message, key, rules)
    return own


def require_party(message: client.Evidence, key: PublicKey, part: Part | None, rules: CourtRules) -> None:
    """`part` is the sender's part in the case; None: there is no case."""
    _require_found(part)
    if part not in ("disputant", "respondent"):
        raise DisputeNotParty("Only the parties bring evidence")
    require_presentable(message.items, message.statement)
    require_signature(message, key, rules)


def require_arbiter(message: ArbiterStep, key: PublicKey, part: Part | None, rules: CourtRules) -> None:
    _require_found(part)
    if isinstance(message, client.ArbiterVote):
        require_short(message.reasoning, "reasoning")
    elif isinstance(message, client.ArbiterDecline) and isinstance(message.reason, str):
        require_short(message.reason, "reason")
    require_signature(message, key, rules)
    if part != "arbiter":
        raise DisputeNotArbiter("You are not an arbiter of this dispute")


def require_viewer(part: Part | None) -> None:
    _require_found(part)
    if part == "stranger":
        raise DisputeNotParty("Only the parties and the arbiters of a case see its file")


def _require_found(part: Part | None) -> None:
    if part is None:
        raise DisputeNotFound("There is no such dispute")
