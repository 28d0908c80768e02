"""`moothall proposals`: one's own deals."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import HEADERS, Count, KeyFile, cells, described, signing_key
from moothall.cli._tables import names_of, show_table

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.client.proposal import Proposal


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

    async def look(agent: "Agent") -> "tuple[list[Proposal], dict[str, str]]":
        found = await agent.proposals(open_only=open_only, limit=limit)
        parties = (party for deal in found for party in (deal.proposer, deal.recipient))
        return found, {} if as_json else await names_of(agent, parties)

    found, names = visit.ask(look)
    if as_json:
        typer.echo(json.dumps([described(deal) for deal in found]))
        return
    show_table(
        HEADERS,
        (cells(deal, names) for deal in found),
        empty="you have no open deals" if open_only else "you have no deals; `moothall propose` offers one",
    )
