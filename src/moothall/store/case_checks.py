"""Whether the court's tables hold together, with each other and with the deals: a part of `checks`."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from moothall.court.casefile import case_file
from moothall.court.records import Dispute
from moothall.court.verify import inspect_case
from moothall.identity.seals import CASE, NoSeal, sealed_by
from moothall.market.records import Proposal
from moothall.store.dialect import Connection, Row
from moothall.store.rows import listed_case, parts_of

_proposal: Final = msgspec.json.Decoder(Proposal).decode
_record: Final = msgspec.json.Decoder(dict[str, Any]).decode
_dispute: Final = msgspec.json.Decoder(Dispute).decode

Parts = dict[tuple[str, bytes], tuple[str, int, int]]


def case_problems(connection: Connection, open_deals: Sequence[Proposal]) -> Iterator[str]:
    frozen = {deal.frozen_by: deal.id for deal in open_deals if deal.frozen_by is not None}
    parts: Parts = {}
    counting: set[str] = set()
    columns = "id, proposal_id, disputant, phase, is_open, deadline, filed_at, listed, record"
    for row in connection.stream(
        f"SELECT {', '.join(f'disputes.{column}' for column in columns.split(', '))}, proposals.record"  # noqa: S608
        " FROM disputes JOIN proposals ON proposals.id = proposal_id ORDER BY disputes.id"
    ):
        yield from _row_problems(row, frozen, parts, counting)
    for dispute_id, deal in frozen.items():
        yield f"deal {deal} is frozen by {dispute_id}, which is not an open case of it"
    for (deal,) in connection.stream(
        "SELECT id FROM proposals WHERE frozen = 1 AND status <> 'accepted' ORDER BY id"
    ):
        yield f"deal {deal} is over and still frozen"
    yield from _part_problems(connection, parts)
    yield from _file_problems(connection)
    yield from _story_problems(connection)


def _row_problems(row: Row, frozen: dict[str, str], parts: Parts, counting: set[str]) -> Iterator[str]:
    """Takes the case out of `frozen`, adds its parts to `parts`, and its deal to `counting` if it counts."""
    case, deal = _dispute(row[8]), _proposal(row[9])
    said = (
        case.id,
        case.proposal_id,
        case.disputant,
        case.phase,
        int(case.is_open),
        case.deadline,
        case.filed_at,
    )
    if said != tuple(row[:7]) or row[7] not in (None, listed_case(case)):
        yield f"case {row[0]}: the columns do not say what the record says"
    if not case.is_unrevealed:
        if case.proposal_id in counting:
            yield f"case {case.id}: its deal {case.proposal_id} has another case that was revealed or is open"
        counting.add(case.proposal_id)
    for key, role, live in parts_of(case):
        parts[case.id, key] = (role, int(live), case.filed_at)
    if case.is_open:
        if frozen.pop(case.id, None) != case.proposal_id:
            yield f"case {case.id} is open, and its deal {case.proposal_id} is not frozen by it"
        return
    if case.phase == "resolved" and deal.status != "disputed":
        yield f"case {case.id} has a verdict, and its deal {deal.id} is {deal.status}"
    for problem in inspect_case(msgspec.to_builtins(case_file(case, deal, case.disputant))).problems:
        yield f"case {case.id}: {problem}"


def _part_problems(connection: Connection, parts: Parts) -> Iterator[str]:
    for dispute_id, key, *found in connection.stream(
        "SELECT dispute_id, key, role, live, filed_at FROM case_parts ORDER BY dispute_id, key"
    ):
        if parts.pop((dispute_id, key), None) != tuple(found):
            yield f"case {dispute_id}: the part of {key.hex()[:16]} is not the one that the record says"
    for dispute_id, key in parts:
        yield f"case {dispute_id}: the part of {key.hex()[:16]} is missing"


def _file_problems(connection: Connection) -> Iterator[str]:
    for dispute_id, is_open, body in connection.stream(
        "SELECT dispute_id, is_open, body FROM case_files JOIN disputes ON id = dispute_id ORDER BY dispute_id"
    ):
        if is_open:
            yield f"case {dispute_id} is open, and has the file of a closed one"
        try:
            record = _record(body)
            sealed_by(CASE, record)
        except (msgspec.DecodeError, UnicodeDecodeError, NoSeal) as reason:
            yield f"case {dispute_id}: its file is not as the hall signed it: {reason}"
        else:
            if record.get("dispute_id") != dispute_id:
                yield f"case {dispute_id} has the file of another case"


def _story_problems(connection: Connection) -> Iterator[str]:
    untold = (
        "SELECT id FROM disputes WHERE phase = 'resolved' AND NOT EXISTS"
        " (SELECT 1 FROM audit WHERE deal = proposal_id AND operation = 'verdict') ORDER BY id"
    )
    for (dispute_id,) in connection.stream(untold):
        yield f"case {dispute_id} has a verdict, and the audit trail does not know it"
