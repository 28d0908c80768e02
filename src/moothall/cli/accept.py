"""`moothall accept`: take an offer."""

from typing import Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, ProposalId, show, signing_key


def accept(
    proposal_id: ProposalId,
    stake: Annotated[
        int | None,
        typer.Option("--stake", metavar="N", help="Points of your rating to put aside until it is over."),
    ] = None,
    payment_code: Annotated[
        str | None, typer.Option("--payment-code", metavar="CODE", help="How you are paid.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Accept a proposal that was made to you.

    \b
    moothall accept prop_m0abcdf2_deadbeef
    moothall accept prop_m0abcdf2_deadbeef --stake 10 --payment-code pay-bob
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    deal = visit.ask(lambda agent: agent.accept(proposal_id, stake=stake, payment_code=payment_code))
    show(deal, as_json=as_json)
