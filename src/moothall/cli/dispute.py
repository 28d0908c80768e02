"""`moothall dispute`: a deal went wrong."""

from typing import Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, ProposalId, show, signing_key, words


def dispute(
    proposal_id: ProposalId,
    reason: Annotated[list[str], typer.Argument(metavar="REASON", help="What went wrong.")],
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Dispute a deal that went wrong.

    The other party loses rating, and its stake. `moothall court file` has three arbiters decide instead.

    \b
    moothall dispute prop_m0abcdf2_deadbeef nothing was delivered
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    show(visit.ask(lambda agent: agent.dispute(proposal_id, words(reason) or "")), as_json=as_json)
