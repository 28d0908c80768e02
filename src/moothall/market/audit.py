"""The audit trail: one row per decision, with the signed operation and what it changed.

A row repeats nothing that another row says, and all rows together say everything: see `replay`.
"""

from typing import Any

from msgspec import Struct, field

from moothall.market.records import AuditRow, Curbs, SkillStanding, Standing
from moothall.market.settlement import Movement
from moothall.market.signed import Signed, SignedCommand
from moothall.market.storable import kept_json


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


def audit_row(
    operation: str,
    deal: str,
    at: int,
    *,
    order: Signed[SignedCommand] | None = None,
    movement: Movement | None = None,
) -> AuditRow:
    """The audit row of a decision. Without an `order` the clock or the hall decided."""
    if order is None:
        return _row(operation, deal, at, None, None, movement)
    return _row(operation, deal, at, order.key, order.message, movement)


def envelope_row(
    operation: str, deal: str, at: int, *, sender: bytes, envelope: bytes, movement: Movement | None
) -> AuditRow:
    """The audit row of a decision that an envelope of the mesh caused. Its hash stands for it."""
    return _row(operation, deal, at, sender, {"envelope": envelope.hex()}, movement)


def _row(
    operation: str, deal: str, at: int, actor: bytes | None, message: Any, movement: Movement | None
) -> AuditRow:
    moved = () if movement is None else movement.moved
    data = AuditData(message=message, moves=tuple([_move(before, after) for before, after in moved]))
    return AuditRow(at=at, operation=operation, deal=deal, actor=actor, data=kept_json(data))


def mark(standing: Standing) -> Mark:
    return Mark(standing.rating, standing.transactions, standing.escrowed, standing.updated, standing.curbs)


def _move(before: Standing, after: Standing) -> Move:
    skills = {} if after.skills is before.skills else _changed(before.skills, after.skills)
    return Move(key=before.key.hex(), before=mark(before), after=mark(after), skills=skills)


def _changed(before: dict[str, SkillStanding], after: dict[str, SkillStanding]) -> dict[str, SkillStanding]:
    return {name: skill for name, skill in after.items() if before.get(name) != skill}
