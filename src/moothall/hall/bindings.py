"""Bindings: which key each id belongs to, as the hall sees it in the store. The first key of an id wins."""

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol


class BindingBooks(Protocol):
    """One unit of work."""

    def owners(self, ids: Collection[str]) -> dict[str, bytes]:
        """The key of each of these ids that has one."""

    def bound_ids(self) -> int:
        """How many ids have a key. Numbers that were drawn in vain may count too."""

    def bind(self, agent_id: str, key: bytes, now: int) -> None:
        """From now on this id is this key's. Fails if another unit bound it meanwhile."""


class IdClaim(NamedTuple):
    agent_id: str
    key: bytes
    now: int  # ms since the epoch
    may_bind: bool  # False only looks


class Holding(NamedTuple):
    """The answer to a claim."""

    owner: bytes | None  # None: the id has no key, and could not or should not get this one
    is_new: bool = False  # it was bound by this claim


def settle(books: BindingBooks, claims: Sequence[IdClaim], capacity: int) -> list[Holding]:
    """One unit of work: the first claim of an id binds it, as long as there is room."""
    owners = books.owners({claim.agent_id for claim in claims})
    room: int | None = None
    holdings: list[Holding] = []
    for claim in claims:
        owner = owners.get(claim.agent_id)
        if owner is not None or not claim.may_bind:
            holdings.append(Holding(owner))
            continue
        if room is None:
            room = capacity - books.bound_ids()
        if room <= 0:
            holdings.append(Holding(None))
            continue
        room -= 1
        books.bind(claim.agent_id, claim.key, claim.now)
        owners[claim.agent_id] = claim.key
        holdings.append(Holding(claim.key, is_new=True))
    return holdings
