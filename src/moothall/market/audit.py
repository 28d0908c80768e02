"""The audit trail: one row per decision, with the signed operation and what it changed.

A row repeats nothing that another row says, and all rows together say everything: see `replay`.
"""

from typing import Any

from moothall.market.audit_data import AuditData, Mark, Move
from moothall.market.movement import Movement
from moothall.market.records import AuditRow, SkillStanding, Standing
from moothall.market.signed import Signed, SignedCommand
from moothall.market.storable import kept_json


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
