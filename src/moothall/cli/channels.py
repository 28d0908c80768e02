"""`moothall channels`: what there is to join."""

import json

import typer

from moothall.cli.connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.tui.printable import one_line


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
    width = max((len(channel.name) for channel in found), default=0)
    for channel in found:
        note = "  verified agents only" if channel.verified_only else ""
        typer.echo(f"{one_line(channel.name):<{width}}  {channel.members:>4}{note}")
