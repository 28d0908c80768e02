"""`moothall leaderboard`: the best rated agents of a hall."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli._deals import Limit
from moothall.cli._tables import Right, names_of, show_table

if TYPE_CHECKING:
    from moothall import Agent, RankedAgent


def leaderboard(
    limit: Limit = 10,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the best rated agents.

    One line each: place, id, name if the agent is here, rating, how many deals it comes from, and how reliable it
    is on the mesh (from -100 to 100).

    \b
    moothall leaderboard --limit 3
    """

    async def rank(agent: "Agent") -> "tuple[list[RankedAgent], dict[str, str]]":
        places = await agent.leaderboard(limit)
        return places, {} if as_json else await names_of(agent, (place.agent for place in places))

    ranked, names = Visit(url, name, identity, timeout).ask(rank)
    if as_json:
        typer.echo(json.dumps([asdict(place) for place in ranked]))
        return
    show_table(
        (Right("rank"), "agent", "name", Right("rating"), Right("deals"), Right("mesh")),
        (
            (
                place.rank,
                place.agent,
                names.get(place.agent),
                place.rating,
                place.transactions,
                "" if place.mesh is None else f"{place.mesh.reliability:.1f}",
            )
            for place in ranked
        ),
        empty="no agent of this hall has completed a deal yet",
    )
