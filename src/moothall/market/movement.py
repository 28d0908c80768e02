"""What moves when a deal ends: the shares of the agents, and the movement that they become."""

from collections.abc import Iterator

from msgspec import Struct

from moothall.market import ledger
from moothall.market.records import Change, Curbs, Entry, EscrowResult, RatingPoint, Standing
from moothall.market.reputation_vector import UNRATED


class Share(Struct, kw_only=True, frozen=True, gc=False):
    """What one agent leaves a deal with."""

    address: str
    standing: Standing
    earned: int  # or, below zero, lost; stakes aside
    staked: int = 0  # its own stake, which leaves the escrow now
    awarded: int = 0  # what it gets out of the escrow
    in_capability: bool = True  # whether its rating in the deal's capability moves along
    withheld: int = 0  # what the rules against farming kept from it
    curbs: Curbs | None = None  # what they remember of it afterwards; None is what they did before

    @property
    def change(self) -> int:
        return self.earned + self.awarded - self.staked


class Movement(Struct, kw_only=True, frozen=True, gc=False):
    """Standings before and after, and the entry that says the same.

    `shares` are what the ratings moved by, in the order of `moved`; none if only stakes moved. `stakes` is where
    these went, if that is to be told.
    """

    moved: tuple[tuple[Standing, Standing], ...]
    entry: Entry
    points: tuple[RatingPoint, ...] = ()
    shares: tuple[Share, ...] = ()
    stakes: EscrowResult | None = None

    def changes(self) -> tuple[Change, ...]:
        """The changes to save."""
        if not self.moved:
            return ()
        return (*self._openings(), self.entry, *(after for _, after in self.moved), *self.points)

    def _openings(self) -> Iterator[Entry]:
        for before, _ in self.moved:
            # Perhaps its first entry; if not, this one is a repetition and counts for nothing.
            if not before.transactions and not before.escrowed and before.mesh == UNRATED:
                yield ledger.opening(before.key, before.rating, self.entry.at)


class Transfer(Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What a winner gets of a loser's points, and everything that this follows from. None: the rule is off, or does
    not apply."""

    due: int  # by the arithmetic, stake included
    paid: int
    left: int | None = None  # the loser is a newcomer, and could still lose so much to others
    nth: int = 1  # win of the winner against a newcomer, of this window
    room: int | None = None  # what the winner could gain at this moment

    @property
    def burned(self) -> int:
        return self.due - self.paid
