"""The life of a case (seed 000, agentcourt dispute lifecycle; agentchat wire 13).

A case begins with a commitment: the disputant names the hash of a secret, the hall takes the pool of arbiters and
answers with its hash and a nonce of its own, and only then is the secret revealed. So neither of them could choose
the seed that both nonces make, and the seed alone orders the pool. When all three seats are taken by arbiters
that accepted, the parties bring their evidence; when both have, or time is up, the arbiters vote; when all have, or
time is up, the votes are the verdict, and the verdict settles the deal.

Wherever there cannot be three arbiters, or the secret is not revealed, the case falls back: it is closed without
a verdict, and the deal is again what it was before. Every open phase has a deadline, and every deadline leads
on, so no case stays open for ever. There is no way back and none out of `resolved` and `fallback`.
"""

from collections.abc import Mapping
from typing import Final, Literal

from moothall.errors import DisputeInvalidPhase

Phase = Literal["reveal_pending", "arbiter_response", "evidence", "deliberation", "resolved", "fallback"]
Event = Literal[
    "panel_drawn", "too_few_arbiters", "reveal_missed", "panel_seated", "evidence_closed", "verdict_reached"
]

TRANSITIONS: Final[Mapping[tuple[Phase, Event], Phase]] = {
    ("reveal_pending", "panel_drawn"): "arbiter_response",
    ("reveal_pending", "too_few_arbiters"): "fallback",
    ("reveal_pending", "reveal_missed"): "fallback",
    ("arbiter_response", "panel_seated"): "evidence",
    ("arbiter_response", "too_few_arbiters"): "fallback",
    ("evidence", "evidence_closed"): "deliberation",
    ("deliberation", "verdict_reached"): "resolved",
}

OPEN: Final = frozenset(phase for phase, _ in TRANSITIONS)


def next_phase(phase: Phase, event: Event) -> Phase:
    """Where the event leads, or DISPUTE_INVALID_PHASE."""
    following = TRANSITIONS.get((phase, event))
    if following is None:
        raise DisputeInvalidPhase(f"The dispute is in phase {phase}")
    return following
