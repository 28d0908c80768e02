"""Who judges: the pool, and the draw that each verifier can repeat (seed 000, reveal 5 to 9; agentchat wire 13.3).

The pool is taken when DISPUTE_INTENT arrives, before the hall shows its nonce, and DISPUTE_INTENT_ACK commits to
it with a hash. The specification takes it at the reveal. Then the disputant knows the seed while it can still
choose who is present, and with a few agents of its own it chooses the panel.

The seed is the SHA-256 of the proposal's id, the disputant's secret and the hall's nonce. It drives a chain of
SHA-256 hashes, and the chain drives a Fisher-Yates shuffle of the pool. The pool is a list of addresses, sorted as
texts: an order that does not depend on who connected first.

Seats are filled down the shuffled order, past agents that are not eligible at that moment. A replacement
continues where the walk stopped. So each agent of the pool is asked once at most, and an agent that goes away or
declines gives its seat to the next in an order that it cannot change.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from moothall.court.rules import CourtRules
from moothall.market.records import Standing
from moothall.wire.agentchat.jstext import utf8

PANEL_SIZE: Final = 3  # seed 000, reveal 9
# A case keeps its pool and PANEL_FORMED shows it. Of more agents, the hall's nonce picks as many. The parties do
# not know it then, and a deal has one intent of each party, so they cannot try again.
MAX_POOL: Final = 100

# Why an agent of the pool was passed over. It was not connected, away or no longer approved; or it does not meet
# the court's requirements any more.
Why = Literal["absent", "not_eligible"]


class Candidate(NamedTuple):
    """An agent with a proven key that is connected and not away."""

    key: bytes
    address: str


class Experience(NamedTuple):
    """What a rating does not say: fresh keys that trade with each other have one too."""

    counterparties: int  # different agents with which deals were completed, among the latest
    since: int | None  # when the rating first moved; None: never


class Walk(NamedTuple):
    """The next agents to ask, and those on the way to them that were passed over, with the reason."""

    seated: list[str]
    skipped: list[tuple[str, Why]]


def commitment_of(nonce: str) -> str:
    """The nonce is hashed as text, whatever it looks like (agentchat wire 13.2)."""
    return sha256(utf8(nonce)).hexdigest()


def seed_of(proposal_id: str, nonce: str, server_nonce: str) -> str:
    return sha256(utf8(proposal_id + nonce + server_nonce)).hexdigest()


def pool_hash_of(pool: Iterable[str]) -> str:
    """The hash of the sorted addresses, joined with commas."""
    return sha256(utf8(",".join(pool))).hexdigest()


def lottery(candidates: Iterable[Candidate], server_nonce: str) -> list[Candidate]:
    """In an order that only the hall knows before it shows its nonce: the first that are eligible are the pool."""
    salt = utf8(server_nonce)
    return sorted(candidates, key=lambda candidate: sha256(salt + candidate.key).digest())


def shuffled(seed: str, pool: Sequence[str]) -> list[str]:
    """Byte for byte what the reference does (agentchat wire 13.3)."""
    order = list(pool)
    state = seed
    for last in range(len(order) - 1, 0, -1):
        state = sha256(utf8(state)).hexdigest()
        chosen = int(state[:8], 16) % (last + 1)
        order[last], order[chosen] = order[chosen], order[last]
    return order


def walk(order: Sequence[str], seats: int, past: Collection[str], unfit: Mapping[str, Why]) -> Walk:
    """Down the order from where an earlier walk stopped. `past` had a seat or were passed over then."""
    found = Walk([], [])
    for address in order:
        if len(found.seated) == seats:
            break
        if address in past:
            continue
        why = unfit.get(address)
        if why is None:
            found.seated.append(address)
        else:
            found.skipped.append((address, why))
    return found


def draw_replacement(seed: str, slot_number: int, pool: Sequence[str]) -> str | None:
    """How halls replaced an arbiter before the pool was taken at intent: from a pool of that moment, with a seed
    of its own. Only old cases have such arbiters. None: the pool is empty."""
    own_seed = sha256(utf8(f"{seed}:{slot_number}")).hexdigest()
    return next(iter(shuffled(own_seed, pool)), None)


def eligible(
    candidates: Iterable[Candidate],
    standings: Mapping[bytes, Standing],
    panels: Mapping[bytes, int],
    rules: CourtRules,
) -> list[Candidate]:
    """Those that may judge, in their order. `panels` counts the open cases that each has a seat in."""
    return [
        candidate
        for candidate in candidates
        if (standing := standings.get(candidate.key)) is not None
        and standing.rating >= rules.arbiter_rating
        and standing.transactions >= rules.arbiter_transactions
        and not (rules.max_panels and panels.get(candidate.key, 0) >= rules.max_panels)
    ]


def experienced(
    candidates: Iterable[Candidate], experience: Mapping[bytes, Experience], rules: CourtRules, now: int
) -> list[Candidate]:
    """Those that the operator's further requirements admit, in their order."""
    return [
        candidate
        for candidate in candidates
        if (found := experience[candidate.key]).counterparties >= rules.arbiter_counterparties
        and not (rules.arbiter_age and (found.since is None or now - found.since < rules.arbiter_age))
    ]
