"""How the commands about the court show disputes."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from moothall.tui.cases import local_time
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.client.dispute import Filing


def show(dispute: "Filing", *, as_json: bool) -> None:
    typer.echo(json.dumps(described(dispute)) if as_json else line(dispute))


def line(dispute: "Filing") -> str:
    """The id comes first, for `cut -d' ' -f1`."""
    columns = (
        dispute.dispute_id,
        f"{dispute.phase:<16}",
        dispute.role,
        dispute.proposal_id,
        f"{dispute.disputant} against {dispute.respondent}" if dispute.respondent else "",
        f"({dispute.reason})" if dispute.reason else "",
        _stand(dispute),
    )
    return one_line("  ".join(column for column in columns if column))


HEADERS: Final = (
    "dispute",
    "phase",
    "you are",
    "deal",
    "disputant",
    "name",
    "respondent",
    "name",
    "reason",
    "stand",
)


def cells(dispute: "Filing", names: Mapping[str, str]) -> tuple[object, ...]:
    """A row of a table with these headers; `names` are those of agents, as far as they are known."""
    return (
        dispute.dispute_id,
        dispute.phase,
        dispute.role,
        dispute.proposal_id,
        dispute.disputant,
        names.get(dispute.disputant or ""),
        dispute.respondent,
        names.get(dispute.respondent or ""),
        dispute.reason,
        _stand(dispute),
    )


def described(dispute: "Filing") -> dict[str, Any]:
    """With the names and the milliseconds of the wire (agentchat wire 6.5)."""
    ruling = dispute.ruling
    return {
        "dispute_id": dispute.dispute_id,
        "proposal_id": dispute.proposal_id,
        "phase": dispute.phase,
        "role": dispute.role,
        "slot": dispute.slot,
        "disputant": dispute.disputant,
        "respondent": dispute.respondent,
        "reason": dispute.reason,
        "deadline": _milliseconds(dispute.deadline),
        "filed_at": _milliseconds(dispute.filed_at),
        "arbiters": list(dispute.panel),
        "seed": dispute.seed,
        "server_nonce": dispute.server_nonce,
        "pool_hash": dispute.pool_hash,
        "verdict": dispute.verdict,
        "fallback": None if ruling is None else ruling.fallback,
    }


def _stand(dispute: "Filing") -> str:
    if dispute.verdict is not None:
        return f"verdict: {dispute.verdict}"
    if dispute.ruling is not None:
        return dispute.ruling.fallback or ""
    parts = [f"panel: {' '.join(dispute.panel)}" if dispute.panel else ""]
    if dispute.slot is not None:
        parts.append(f"you: {dispute.slot}")
    if dispute.deadline is not None:
        parts.append(f"until {local_time(dispute.deadline)}")
    return "  ".join(part for part in parts if part)


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
