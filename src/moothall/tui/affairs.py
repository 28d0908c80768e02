"""The deals and cases that a person has a part in: what waits for an answer, and how they are shown. Pure."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from rich.text import Text

from moothall.client.dispute import Filing
from moothall.client.proposal import Deal
from moothall.tui.cases import Rows, local_time
from moothall.tui.cells import column
from moothall.tui.printable import steady_line

MAX_KEPT: Final = 200  # deals, and as many cases; others decide how many offers they make
WAITING: Final = "!"
STATUS_CELLS: Final = 16
PARTNER_CELLS: Final = 14

Affair = Deal | Filing
NameOf = Callable[[str], str]  # of an address, as far as it is known

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Affairs:
    """What the agent has heard of its deals and cases. They stay as they are until the hall says more."""

    def __init__(self) -> None:
        self._kept: dict[str, Affair] = {}

    def keep(self, affairs: Iterable[Affair]) -> None:
        for affair in affairs:
            self._kept.pop(id_of(affair), None)
            self._kept[id_of(affair)] = affair
        for kind in (Deal, Filing):
            of_kind = [key for key, affair in self._kept.items() if isinstance(affair, kind)]
            of_kind.sort(key=lambda key: not is_over(self._kept[key]))  # those that are over go first
            for key in of_kind[: max(0, len(of_kind) - MAX_KEPT)]:
                del self._kept[key]

    def get(self, affair_id: str) -> Affair | None:
        return self._kept.get(affair_id)

    def listed(self) -> list[Affair]:
        """First what waits for the person, then what is open, then what is over; the latest first."""
        latest = sorted(self._kept.values(), key=_changed_at, reverse=True)
        return sorted(latest, key=lambda affair: (not is_waiting(affair), is_over(affair)))

    def waiting(self) -> int:
        """How many wait for the person."""
        return sum(map(is_waiting, self._kept.values()))


def id_of(affair: Affair) -> str:
    return affair.id if isinstance(affair, Deal) else affair.dispute_id


def is_over(affair: Affair) -> bool:
    return affair.is_over


def is_waiting(affair: Affair) -> bool:
    """True if nothing happens until the person answers."""
    if isinstance(affair, Deal):
        return affair.status == "pending" and not affair.is_mine
    return is_asked_to_judge(affair) or is_asked_to_vote(affair)


def is_asked_to_judge(case: Filing) -> bool:
    return case.role == "arbiter" and case.phase == "arbiter_response" and case.slot == "pending"


def is_asked_to_vote(case: Filing) -> bool:
    return case.role == "arbiter" and case.phase == "deliberation" and case.slot == "accepted"


def _changed_at(affair: Affair) -> datetime:
    if isinstance(affair, Deal):
        return affair.updated_at or affair.created_at or _LONG_AGO
    return affair.filed_at or _LONG_AGO


# -- as text ---------------------------------------------------------------------------------------


def affair_row(affair: Affair, name_of: NameOf) -> Text:
    """One row of the list: what waits, how it stands, with whom, and what it is about."""
    mark = WAITING if is_waiting(affair) else " "
    status: str
    if isinstance(affair, Deal):
        status, about = affair.status, affair.task
        partner = f"{'to' if affair.is_mine else 'from'} {name_of(affair.partner)}"
    else:
        status, about = f"case: {affair.phase}", affair.reason
        partner = f"as {affair.role}"
    return Text.assemble(
        (f"{mark} ", "bold red"),
        (column(status.replace("_", " "), STATUS_CELLS), "dim" if is_over(affair) else "bold"),
        f" {column(partner, PARTNER_CELLS)} {steady_line(about)}",
        no_wrap=True,
        overflow="ellipsis",
    )


def deal_rows(deal: Deal, name_of: NameOf) -> Rows:
    """All that is known of a deal."""
    return _told(
        ("deal", deal.id),
        ("status", f"{deal.status}, in court: {deal.frozen_by}" if deal.frozen_by else deal.status),
        ("offered by", _person(deal.proposer, name_of)),
        ("to", _person(deal.recipient, name_of)),
        ("task", deal.task),
        ("price", _joined(deal.amount, deal.currency)),
        ("stakes", _stakes(deal)),
        ("skill", deal.capability),
        ("terms", None if deal.terms is None else json.dumps(deal.terms, ensure_ascii=False)),
        ("pays with", deal.payment_code),
        ("expires", local_time(deal.expires) if deal.expires else None),
        ("reason", deal.reason),
        ("proof", deal.proof),
        ("ended by", _person(deal.ended_by, name_of) if deal.ended_by else None),
        *(
            ("rating", f"{_person(agent, name_of)} {change.change:+d}")
            for agent, change in deal.rating_changes.items()
        ),
    )


def filing_rows(case: Filing, name_of: NameOf) -> Rows:
    """What a list of cases tells; the file of the case has the rest."""
    return _told(
        ("case", case.dispute_id),
        ("deal", case.proposal_id),
        ("phase", case.phase.replace("_", " ")),
        ("you are", case.role if case.slot is None else f"{case.role}, {case.slot}"),
        ("disputant", _person(case.disputant, name_of)),
        ("respondent", _person(case.respondent, name_of) if case.respondent else None),
        ("reason", case.reason),
        ("until", local_time(case.deadline) if case.deadline else None),
        ("verdict", case.verdict),
        ("no verdict", case.ruling.fallback if case.ruling else None),
    )


def _told(*rows: tuple[str, object]) -> Rows:
    """The rows that have something to say."""
    return [(label, str(value)) for label, value in rows if value not in (None, "")]


def _person(address: str, name_of: NameOf) -> str:
    name = name_of(address)
    return steady_line(address if name == address else f"{name} {address}")


def _joined(amount: object, currency: object) -> str | None:
    return None if amount is None else f"{amount} {currency or ''}".rstrip()


def _stakes(deal: Deal) -> str | None:
    if not deal.stake and not deal.acceptor_stake:
        return None
    return f"{deal.stake} of the proposer, {deal.acceptor_stake} of the recipient"
