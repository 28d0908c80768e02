"""What the commands about deals share: the key they are signed with, and how a deal is shown."""

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.errors import UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.client.proposal import Deal

ProposalId = Annotated[
    str, typer.Argument(metavar="ID", help="The deal, as `moothall proposals` shows it.", show_default=False)
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        "-i",
        metavar="FILE",
        help="The key file to sign with. Default: $MOOTHALL_IDENTITY, that of the context in use, "
        "else ~/.agentchat/identity.json.",
        show_default=False,
    ),
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", min=1, max=1000, help="How many at most.")]
Count = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")]  # in pages

_RIGHT: Final = "→"


def signing_key(given: Path | None) -> Path:
    """The key file to sign with. Raises UsageError when it is missing, or when none is named or default."""
    from moothall.cli import _chosen
    from moothall.identity.keyfile import DEFAULT_PATH

    if (path := _chosen.key_file(given).value) is not None:
        return path
    if os.path.lexists(DEFAULT_PATH.expanduser()):
        return DEFAULT_PATH
    raise UsageError(
        "deals and disputes are signed: add --identity FILE, or make a key with `moothall identity new`"
    )


def words(given: list[str] | None) -> str | None:
    """Several words are one text; bytes of the command line that were no UTF-8 cannot be signed."""
    return " ".join(given).encode(errors="replace").decode() if given else None


def show(deal: "Deal", *, as_json: bool) -> None:
    typer.echo(json.dumps(described(deal)) if as_json else line(deal))


def line(deal: "Deal") -> str:
    """The id comes first, for `cut -d' ' -f1`."""
    parties = f"{one_line(deal.proposer)} {_RIGHT} {one_line(deal.recipient)}"
    notes = [note for note in (_price(deal), _stakes(deal), _court(deal), _ending(deal)) if note]
    return "  ".join((one_line(deal.id), f"{deal.status:<9}", parties, one_line(deal.task), *notes)).rstrip()


HEADERS: Final = ("deal", "status", "from", "name", "to", "name", "price", "stakes", "task", "notes")


def cells(deal: "Deal", names: Mapping[str, str]) -> tuple[object, ...]:
    """A row of a table with these headers; `names` are those of agents, as far as they are known."""
    return (
        deal.id,
        deal.status,
        deal.proposer,
        names.get(deal.proposer),
        deal.recipient,
        names.get(deal.recipient),
        _price(deal),
        f"{deal.stake}+{deal.acceptor_stake}" if deal.stake or deal.acceptor_stake else None,
        deal.task,
        "  ".join(note for note in (_court(deal), _ending(deal)) if note),
    )


def described(deal: "Deal") -> dict[str, Any]:
    """With the names and the milliseconds of the wire (agentchat wire 6.4)."""
    return {
        "proposal_id": deal.id,
        "status": deal.status,
        "from": deal.proposer,
        "to": deal.recipient,
        "is_mine": deal.is_mine,
        "task": deal.task,
        "amount": deal.amount,
        "currency": deal.currency,
        "payment_code": deal.payment_code,
        "terms": deal.terms,
        "capability": deal.capability,
        "expires": _milliseconds(deal.expires),
        "created_at": _milliseconds(deal.created_at),
        "updated_at": _milliseconds(deal.updated_at),
        "proposer_stake": deal.stake,
        "acceptor_stake": deal.acceptor_stake,
        "response_payment_code": deal.acceptor_payment_code,
        "reason": deal.reason,
        "proof": deal.proof,
        "ended_by": deal.ended_by,
        "frozen_by": deal.frozen_by,
        "rating_changes": {agent: change.change for agent, change in deal.rating_changes.items()},
        "stakes_went": deal.stakes_went,
    }


def _price(deal: "Deal") -> str:
    if deal.amount is None:
        return ""
    return one_line(f"{deal.amount} {deal.currency or ''}".rstrip())


def _stakes(deal: "Deal") -> str:
    if not deal.stake and not deal.acceptor_stake:
        return ""
    return f"stakes {deal.stake} and {deal.acceptor_stake}"


def _court(deal: "Deal") -> str:
    return "" if deal.frozen_by is None else f"in court: {one_line(deal.frozen_by)}"


def _ending(deal: "Deal") -> str:
    """Why it ended, or what was shown, and what it did to the ratings."""
    said = deal.reason if deal.reason is not None else deal.proof
    changes = ", ".join(f"{agent} {change.change:+d}" for agent, change in deal.rating_changes.items())
    return one_line("  ".join(part for part in (f"({said})" if said is not None else "", changes) if part))


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
