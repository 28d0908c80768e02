"""`moothall leaderboard`: the best rated agents of a hall."""

import json
from dataclasses import asdict

import typer

from moothall.cli.connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli.deals import Limit
from moothall.tui.printable import one_line


def leaderboard(
    limit: Limit = 10,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the best rated agents.

    One line each: place, id, rating, and how many deals it comes from.

    \b
    moothall leaderboard --limit 3
    """
    ranked = Visit(url, name, identity, timeout).ask(lambda agent: agent.leaderboard(limit))
    if as_json:
        typer.echo(json.dumps([asdict(place) for place in ranked]))
        return
    for place in ranked:
        typer.echo(f"{place.rank:>4}  {one_line(place.agent):<18}{place.rating:>6}{place.transactions:>7}")
