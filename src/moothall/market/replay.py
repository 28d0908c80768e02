"""Rebuilds every standing from the audit rows alone, and notices when they do not fit together."""

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct, field

from moothall.market.audit import mark
from moothall.market.audit_data import AuditData, Move
from moothall.market.records import AuditRow, Standing
from moothall.market.statuses import TRANSITIONS

_LEFT: Final = {status for status, _ in TRANSITIONS}
# The events after which nothing more can happen to a deal.
ENDS: Final = frozenset(event for (_, event), status in TRANSITIONS.items() if status not in _LEFT)

_decode: Final = msgspec.json.Decoder(AuditData).decode


class Replay(Struct, kw_only=True):
    standings: dict[bytes, Standing] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def replay(rows: Iterable[AuditRow]) -> Replay:
    """Rows in the order in which they were committed. Each says what it found; that must be what the rows
    before it left. The first row of an agent may find anything: an imported rating has no rows."""
    result = Replay()
    ended: dict[str, str] = {}
    for row in rows:
        if row.operation in ENDS:
            if row.deal in ended:
                result.problems.append(f"{row.deal}: {row.operation} after {ended[row.deal]}")
            ended[row.deal] = row.operation
        for move in _decode(row.data).moves:
            _apply(result, row, move)
    return result


def _apply(result: Replay, row: AuditRow, move: Move) -> None:
    key = bytes.fromhex(move.key)
    known = result.standings.get(key)
    if known is not None and mark(known) != move.before:
        result.problems.append(
            f"{row.deal}: {row.operation} found {move.key[:16]} at {move.before.rating},"
            f" the rows before it left {known.rating}"
        )
    result.standings[key] = Standing(
        key=key,
        rating=move.after.rating,
        transactions=move.after.transactions,
        escrowed=move.after.escrowed,
        updated=move.after.updated,
        curbs=move.after.curbs,
        skills={**(known.skills if known else {}), **move.skills},
    )
