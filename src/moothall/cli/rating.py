"""`moothall rating`: how an agent stands, and how it came to that."""

import json
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, signing_key
from moothall.cli._tables import names_of
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall import Agent, MeshReputation, Rating


def rating(
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Its id, with or without @; else yourself.")
    ] = None,
    history: Annotated[
        int, typer.Option("--history", metavar="N", min=1, max=1000, help="How many steps to show.")
    ] = 10,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show how an agent stands.

    Its rating, what of it is at stake, and the deals that made it.

    \b
    moothall rating
    moothall rating @1f3a9c02 --history 3
    """
    visit = Visit(url, name, _key(agent, identity), timeout)

    async def look(visitor: "Agent") -> "tuple[Rating, str]":
        found = await visitor.rating(agent, history=history)
        names = {} if as_json else await names_of(visitor, [found.agent])
        return found, names.get(found.agent, "")

    found, called = visit.ask(look)
    if as_json:
        typer.echo(json.dumps(asdict(found), default=datetime.isoformat))
        return
    for shown in _lines(found, called):
        typer.echo(shown)


def _key(agent: str | None, identity: Path | None) -> Path | None:
    """Looking at another agent needs no key, and without a key it displaces no session of ours."""
    return signing_key(identity) if agent is None else identity


def mesh_line(mesh: "MeshReputation") -> str:
    """Scores from -100 to 100, and how many agents gave them."""
    parts = []
    if mesh.total_tasks:
        parts.append(
            f"reliability {mesh.reliability:.1f}, cooperation {mesh.cooperation:.1f} ({mesh.total_tasks})"
        )
    if mesh.total_notarized:
        parts.append(f"as a notary {mesh.notary_accuracy:.1f} ({mesh.total_notarized})")
    if mesh.total_disputes:
        parts.append(f"disputes {mesh.total_disputes}")
    return f"  on the mesh: {'; '.join(parts)}"


def _lines(found: "Rating", called: str) -> list[str]:
    at_stake = f", {found.escrowed} of it at stake" if found.escrowed else ""
    deals = "1 deal" if found.transactions == 1 else f"{found.transactions} deals"
    who = f"{one_line(found.agent)}  {called}".rstrip()
    lines = [f"{who}  {found.rating} after {deals}{at_stake}; {found.available} can be staked"]
    lines += [
        f"  {one_line(capability)}  {skill.rating} ({skill.transactions})"
        for capability, skill in sorted(found.skills.items())
    ]
    if found.mesh is not None:
        lines.append(mesh_line(found.mesh))
    lines += [
        f"  {point.at:%Y-%m-%d %H:%M}  {point.rating}  {one_line(point.why)}" for point in found.history
    ]
    return lines
