"""What a row of the audit trail holds, as JSON."""

from typing import Any

from msgspec import Struct, field

from moothall.market.records import Curbs, SkillStanding


class Mark(Struct, frozen=True, omit_defaults=True, gc=False):
    """A standing at one moment."""

    rating: int
    transactions: int
    escrowed: int
    updated: int | None = None
    curbs: Curbs = Curbs()


class Move(Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """One standing before and after. `skills` are those that moved along, as they are now."""

    key: str  # in hex
    before: Mark
    after: Mark
    skills: dict[str, SkillStanding] = field(default_factory=dict)


class AuditData(Struct, kw_only=True, frozen=True, omit_defaults=True, gc=False):
    """`message` is what was signed, as its wire has it, except for what was redacted from it."""

    message: Any = None
    moves: tuple[Move, ...] = ()
