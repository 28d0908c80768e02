"""`moothall proposals`: one's own deals."""

import json
from typing import Annotated

import typer

from moothall.cli.connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli.deals import Count, KeyFile, described, line, signing_key


def proposals(
    open_only: Annotated[bool, typer.Option("--open", help="Only those pending or accepted.")] = False,
    limit: Count = 100,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List your deals, newest first.

    Those you offered and those you were offered.

    \b
    moothall proposals --open
    moothall proposals --json | jq '.[] | select(.status == "pending")'
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    found = visit.ask(lambda agent: agent.proposals(open_only=open_only, limit=limit))
    if as_json:
        typer.echo(json.dumps([described(deal) for deal in found]))
        return
    for deal in found:
        typer.echo(line(deal))
