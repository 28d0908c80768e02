"""`moothall reject`: turn an offer down."""

from typing import Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, ProposalId, show, signing_key, words


def reject(
    proposal_id: ProposalId,
    reason: Annotated[list[str] | None, typer.Argument(metavar="REASON", help="Why.")] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Reject a proposal that was made to you.

    \b
    moothall reject prop_m0abcdf2_deadbeef too busy this week
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    show(visit.ask(lambda agent: agent.reject(proposal_id, words(reason))), as_json=as_json)
