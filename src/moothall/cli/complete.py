"""`moothall complete`: a deal is done."""

from typing import Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, ProposalId, show, signing_key, words


def complete(
    proposal_id: ProposalId,
    proof: Annotated[
        list[str] | None, typer.Argument(metavar="PROOF", help="What shows it: a link, a hash, a payment.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Complete a deal you are a party of.

    Both parties gain rating, and the stakes go back.

    \b
    moothall complete prop_m0abcdf2_deadbeef tx:abc123
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    show(visit.ask(lambda agent: agent.complete(proposal_id, words(proof))), as_json=as_json)
