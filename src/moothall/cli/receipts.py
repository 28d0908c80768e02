"""`moothall receipts`: proof of completed deals, to keep, to hand on and to check."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moothall.cli._addresses import HallCommand
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import Count, KeyFile, signing_key
from moothall.cli._exits import FAILED, group
from moothall.cli._proofs import HallOption, Verbose, described, expected_halls, show
from moothall.cli._reading import parse_json, read_content
from moothall.cli._tables import names_of, show_table
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall import Agent

app = group("receipts", "Proof of completed deals: list, export and verify it.")


@app.command(name="list", cls=HallCommand)
def list_receipts(
    limit: Count = 100,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the receipts of your completed deals, newest first."""
    visit = Visit(url, name, signing_key(identity), timeout)

    async def look(agent: "Agent") -> tuple[list[dict[str, Any]], dict[str, str]]:
        found = [receipt.raw for receipt in await agent.receipts(limit=limit)]
        parties = (receipt.get(party) for receipt in found for party in ("from", "to"))
        return found, {} if as_json else await names_of(agent, parties)

    found, names = visit.ask(look)
    if as_json:
        typer.echo(json.dumps(found))
        return
    show_table(
        ("deal", "from", "name", "to", "name", "completed by", "task"),
        (_cells(receipt, names) for receipt in found),
        empty="you have no receipts: a completed deal makes one",
    )


@app.command(cls=HallCommand)
def export(
    proposal_ids: Annotated[
        list[str] | None, typer.Argument(metavar="IDS", help="Only those of these deals.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Else standard output.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=1, help="Only the newest; by default all.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Write receipts out, one JSON object a line.

    Each carries the signed operations behind it, so that it can be checked anywhere.

    \b
    moothall receipts export -o receipts.jsonl
    moothall receipts export prop_m0abcdf2_deadbeef > receipt.json
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    found = visit.ask(lambda agent: agent.receipts(limit=limit or sys.maxsize))
    wanted = set(proposal_ids or ())
    if missing := sorted(wanted - {receipt.proposal_id for receipt in found}):
        raise UsageError(f"you have no receipt of {missing[0]}; `moothall receipts list` shows them")
    chosen = [receipt.body + b"\n" for receipt in found if not wanted or receipt.proposal_id in wanted]
    if output is None:
        typer.echo(b"".join(chosen), nl=False)
        return
    try:
        output.expanduser().write_bytes(b"".join(chosen))
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}") from None
    typer.echo(f"wrote {len(chosen)} receipt(s) to {output}", err=True)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Receipts, one a line; - is standard input.")],
    hall: HallOption = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check receipts, without any hall.

    Says what both parties signed, and what rests on the word of the hall that signed the receipt. Exit code 1 if
    anything does not fit, or if the hall that you expect did not sign it.

    \b
    moothall receipts verify receipts.jsonl
    moothall receipts verify receipts.jsonl --hall hall.pem -v
    """
    from moothall.market.receipts import verify_receipt

    halls = expected_halls(hall)
    checked = [(_id(body), verify_receipt(body, halls)) for body in _bodies(file)]
    if as_json:
        typer.echo(json.dumps([{"proposal_id": deal, **described(proof)} for deal, proof in checked]))
    else:
        for deal, proof in checked:
            show(deal, proof, halls, verbose=verbose)
    if not all(proof.holds for _, proof in checked):
        raise typer.Exit(FAILED)


def _bodies(file: Path) -> list[bytes]:
    """One receipt or a list of them, however they are laid out, or else one a line."""
    content = read_content(str(file))
    whole = _read(content)
    if not content.strip() or whole == []:
        raise UsageError(f"{file} holds no receipts")
    if whole is None:
        return [line for line in content.splitlines() if line.strip()]
    if isinstance(whole, list):
        return [json.dumps(entry).encode() for entry in parse_json(content, str(file))]
    return [content]


def _read(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _id(body: bytes) -> str:
    """What to call it, before anything about it is known."""
    receipt = _read(body)
    found = receipt.get("proposal_id") if isinstance(receipt, dict) else None
    return found if isinstance(found, str) else "?"


def _cells(receipt: dict[str, Any], names: Mapping[str, str]) -> tuple[object, ...]:
    operations = receipt.get("operations") or [{}]
    proposer, recipient = str(receipt.get("from")), str(receipt.get("to"))
    return (
        receipt.get("proposal_id"),
        proposer,
        names.get(proposer),
        recipient,
        names.get(recipient),
        receipt.get("completed_by"),
        operations[0].get("task"),
    )
