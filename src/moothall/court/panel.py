"""Who judges: the pool, and the draw that anybody can repeat (seed 000, reveal 5 to 9; agentchat wire 13.3).

The seed is the SHA-256 of the proposal's id, the disputant's secret and the hall's nonce. It drives a chain of
SHA-256 hashes, and the chain drives a Fisher-Yates shuffle of the pool; the first three are the panel. The pool
is the list of eligible addresses, sorted as texts: an order that does not depend on who connected first.

A replacement is drawn in the same way, from the pool as it is then, without the parties and everybody who had a
slot: it is the first after a shuffle whose seed is the SHA-256 of the text `<seed>:<number>`, where the number is
that of the new slot. The first panel has the slots 0, 1 and 2, so the first replacement is number 3.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from moothall.court.rules import CourtRules
from moothall.market.records import Standing
from moothall.wire.agentchat.jstext import utf8

PANEL_SIZE: Final = 3  # seed 000, reveal 9


class Candidate(NamedTuple):
    """An agent with a proven key that is connected and not away."""

    key: bytes
    address: str


def commitment_of(nonce: str) -> str:
    """The nonce is hashed as text, whatever it looks like (agentchat wire 13.2)."""
    return sha256(utf8(nonce)).hexdigest()


def seed_of(proposal_id: str, nonce: str, server_nonce: str) -> str:
    return sha256(utf8(proposal_id + nonce + server_nonce)).hexdigest()


def shuffled(seed: str, pool: Sequence[str]) -> list[str]:
    """Byte for byte what the reference does (agentchat wire 13.3)."""
    order = list(pool)
    state = seed
    for last in range(len(order) - 1, 0, -1):
        state = sha256(utf8(state)).hexdigest()
        chosen = int(state[:8], 16) % (last + 1)
        order[last], order[chosen] = order[chosen], order[last]
    return order


def draw_panel(seed: str, pool: Sequence[str]) -> list[str]:
    return shuffled(seed, pool)[:PANEL_SIZE]


def draw_replacement(seed: str, slot_number: int, pool: Sequence[str]) -> str | None:
    """None: nobody is left."""
    own_seed = sha256(utf8(f"{seed}:{slot_number}")).hexdigest()
    return next(iter(shuffled(own_seed, pool)), None)


def eligible(
    candidates: Iterable[Candidate],
    standings: Mapping[bytes, Standing],
    panels: Mapping[bytes, int],
    *,
    barred: Container[bytes],
    rules: CourtRules,
) -> list[Candidate]:
    """The pool, sorted. `barred` are the parties, and whoever had a slot; `panels` counts open cases."""
    pool = [
        candidate
        for candidate in candidates
        if candidate.key not in barred
        and (standing := standings.get(candidate.key)) is not None
        and standing.rating >= rules.arbiter_rating
        and standing.transactions >= rules.arbiter_transactions
        and not (rules.max_panels and panels.get(candidate.key, 0) >= rules.max_panels)
    ]
    return sorted(pool, key=lambda candidate: candidate.address)
