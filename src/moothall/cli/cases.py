"""How the commands about the court show disputes and the files of cases."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import typer

from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.client.dispute import Filing
    from moothall.court.casefile import Arbiter, Case, Evidence

MARGIN: Final = 12
SHOWN_HASH: Final = 12  # digits; `--json` and `export` have them all


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
        parts.append(f"until {_local(dispute.deadline)}")
    return "  ".join(part for part in parts if part)


# -- the file of a case --------------------------------------------------------------------------------


def case_lines(case: "Case") -> Iterator[str]:
    until = "" if case.deadline is None else f" until {_local(_moment(case.deadline))}"
    yield one_line(f"{case.dispute_id}  {case.phase}{until}")
    yield _row("deal", f"{case.proposal_id}  {case.deal.from_} → {case.deal.to}  {_offer(case)}")
    yield _row("disputant", f"{case.disputant.id}: {case.reason}")
    yield _row("respondent", case.respondent.id)
    if case.seed is not None:
        yield _row("seed", case.seed)
    for passed in case.skipped:
        yield _row("passed over", f"{passed.id}  {passed.why.replace('_', ' ')}")
    for arbiter in case.arbiters:
        yield _row("arbiter", _arbiter(arbiter))
    yield from _evidence("disputant", case.evidence.disputant)
    yield from _evidence("respondent", case.evidence.respondent)
    if case.fallback is not None:
        yield _row("no verdict", case.fallback.reason)
    if case.judgement is not None:
        yield _row("verdict", case.judgement.verdict)
    yield from _settlement(case)


def _offer(case: "Case") -> str:
    offer, accept = case.deal.proposal, case.deal.accept
    price = "" if offer.amount is None else f"{offer.amount} {offer.currency or ''}".rstrip()
    staked = offer.elo_stake or accept.elo_stake
    stakes = f"stakes {offer.elo_stake or 0} and {accept.elo_stake or 0}" if staked else ""
    return "  ".join(part for part in (offer.task, price, stakes) if part)


def _arbiter(arbiter: "Arbiter") -> str:
    said = f"{arbiter.id}  {arbiter.status}" + (" (replacement)" if arbiter.is_replacement else "")
    if arbiter.declined is not None and arbiter.declined.reason:
        said += f": {arbiter.declined.reason}"
    if arbiter.vote is not None:
        said += f" for {arbiter.vote.verdict}"
        said += f": {arbiter.vote.reasoning}" if arbiter.vote.reasoning else ""
    return said


def _evidence(party: str, shown: "Evidence | None") -> Iterator[str]:
    if shown is None:
        return
    yield _row("evidence", f"of the {party}: {shown.statement}" if shown.statement else f"of the {party}")
    for item, digest in zip(shown.items, shown.hashes, strict=False):
        yield _row("", item_line(item, digest))


def item_line(item: Mapping[str, Any], digest: str) -> str:
    """The hash stands for the item: whoever refers to it later can be held to it."""
    known = [str(item[name]) for name in ("kind", "value", "label", "url") if item.get(name)]
    others = {name: value for name, value in item.items() if name not in ("kind", "value", "label", "url")}
    rest = [json.dumps(others, ensure_ascii=False)] if others else []
    return one_line("  ".join((digest[:SHOWN_HASH], *known, *rest)))


def _settlement(case: "Case") -> Iterator[str]:
    if case.settlement is None:
        return
    for share in case.settlement.shares:
        moved = share.earned + share.awarded - share.staked
        yield _row("rating", f"{share.agent}  {share.rating_before} → {share.rating_after} ({moved:+d})")
    stakes = case.settlement.stakes
    if stakes.disputant or stakes.respondent:
        where = f"{stakes.settlement} to {stakes.to}" if stakes.to else stakes.settlement
        yield _row("stakes", f"{stakes.amount} {where}")


def _row(name: str, text: str) -> str:
    return one_line(f"  {name:<{MARGIN}}{text}")


def _moment(ms: float) -> datetime:
    from moothall.client.ratings import moment

    return moment(ms)


def _local(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
