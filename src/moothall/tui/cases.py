"""The file of a case as lines of text, for the command line and for `moothall chat`."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.court.casefile import Arbiter, Case, Evidence

MARGIN: Final = 12
SHOWN_HASH: Final = 12  # digits; `--json` and `export` have them all


Rows = list[tuple[str, str]]  # a label and a text, which strangers may have written


def case_lines(case: "Case") -> Iterator[str]:
    for number, (label, text) in enumerate(case_rows(case)):
        yield one_line(f"  {label:<{MARGIN}}{text}" if number else text)


def case_rows(case: "Case") -> Iterator[tuple[str, str]]:
    until = "" if case.deadline is None else f" until {local_time(_moment(case.deadline))}"
    yield "case", f"{case.dispute_id}  {case.phase}{until}"
    yield "deal", f"{case.proposal_id}  {case.deal.from_} → {case.deal.to}  {_offer(case)}"
    yield "disputant", f"{case.disputant.id}: {case.reason}"
    yield "respondent", case.respondent.id
    if case.seed is not None:
        yield "seed", case.seed
    for passed in case.skipped:
        yield "passed over", f"{passed.id}  {passed.why.replace('_', ' ')}"
    for arbiter in case.arbiters:
        yield "arbiter", _arbiter(arbiter)
    yield from _evidence("disputant", case.evidence.disputant)
    yield from _evidence("respondent", case.evidence.respondent)
    if case.fallback is not None:
        yield "no verdict", case.fallback.reason
    if case.judgement is not None:
        yield "verdict", case.judgement.verdict
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


def _evidence(party: str, shown: "Evidence | None") -> Iterator[tuple[str, str]]:
    if shown is None:
        return
    yield "evidence", f"of the {party}: {shown.statement}" if shown.statement else f"of the {party}"
    for item, digest in zip(shown.items, shown.hashes, strict=False):
        yield "", item_line(item, digest)


def item_line(item: Mapping[str, Any], digest: str) -> str:
    """One line for an item. The hash identifies it, so a later reference can be checked."""
    known = [str(item[name]) for name in ("kind", "value", "label", "url") if item.get(name)]
    others = {name: value for name, value in item.items() if name not in ("kind", "value", "label", "url")}
    rest = [json.dumps(others, ensure_ascii=False)] if others else []
    return one_line("  ".join((digest[:SHOWN_HASH], *known, *rest)))


def _settlement(case: "Case") -> Iterator[tuple[str, str]]:
    if case.settlement is None:
        return
    for share in case.settlement.shares:
        moved = share.earned + share.awarded - share.staked
        yield "rating", f"{share.agent}  {share.rating_before} → {share.rating_after} ({moved:+d})"
    stakes = case.settlement.stakes
    if stakes.disputant or stakes.respondent:
        where = f"{stakes.settlement} to {stakes.to}" if stakes.to else stakes.settlement
        yield "stakes", f"{stakes.amount} {where}"


def _moment(ms: float) -> datetime:
    from moothall.client.ratings import moment

    return moment(ms)


def local_time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M}"
