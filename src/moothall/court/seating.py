"""Which agents of a case's pool are asked next, and which are passed over (see `panel`)."""

from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from moothall.court.panel import Candidate, Why, shuffled, walk
from moothall.court.records import Dispute, Skipped, Slot

# Why each of these cannot be asked now; the others can. Called once everything else holds.
Unfit = Callable[[Sequence[Candidate]], Mapping[str, Why]]


def seat(case: Dispute, seats: int, unfit: Unfit, now: int) -> tuple[Dispute, tuple[Slot, ...]]:
    """The case with so many new slots, and the slots; or without any, when too few of the pool are eligible.

    The case names the agents that were passed over on the way. They are not asked later.
    """
    past = {*(slot.address for slot in case.slots), *(skipped.address for skipped in case.skipped)}
    keys = dict(zip(case.pool, case.pool_keys, strict=True))
    left = [Candidate(keys[address], address) for address in case.pool if address not in past]
    found = walk(shuffled(case.seed or "", case.pool), seats, past, unfit(left))
    slots = tuple(
        Slot(arbiter=keys[address], address=address, assigned_at=now)
        for address in found.seated
        if len(found.seated) == seats
    )
    skipped = tuple(Skipped(address=address, why=why, at=now) for address, why in found.skipped)
    return structs.replace(case, slots=(*case.slots, *slots), skipped=(*case.skipped, *skipped)), slots
