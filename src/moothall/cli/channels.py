"""`moothall channels`: what there is to join."""

import json

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli._tables import Right, show_table


def channels(
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the channels of a hall and how full they are.

    \b
    moothall channels
    moothall channels wss://hall.example.org --json
    """
    found = Visit(url, name, identity, timeout).ask(lambda agent: agent.channels())
    if as_json:
        rows = [
            {"name": channel.name, "agents": channel.members, "verified_only": channel.verified_only}
            for channel in found
        ]
        typer.echo(json.dumps(rows))
        return
    show_table(
        ("channel", Right("agents"), "for"),
        (
            (channel.name, channel.members, "verified agents" if channel.verified_only else "all")
            for channel in found
        ),
        empty="this hall has no public channels; `moothall create CHANNEL` makes one",
    )
