"""`moothall propose`: offer an agent a deal."""

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moothall.cli._addresses import agent_address, hall_url
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, line, show, signing_key, words
from moothall.cli._exits import FAILED
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall import Agent, DealChange
    from moothall.client.proposal import Proposal


def propose(
    to: Annotated[str, typer.Argument(metavar="TO", help="The agent's id, with or without @.")],
    task: Annotated[list[str], typer.Argument(metavar="TASK", help="What is to be done.")],
    amount: Annotated[float | None, typer.Option("--amount", "-a", metavar="N", help="The price.")] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", "-c", metavar="NAME", help="Of the price.")
    ] = None,
    expires: Annotated[
        float | None,
        typer.Option("--expires", metavar="SECONDS", help="Until when it stands; by default for ever."),
    ] = None,
    stake: Annotated[
        int | None,
        typer.Option("--stake", metavar="N", help="Points of your rating to put aside when it is accepted."),
    ] = None,
    payment_code: Annotated[
        str | None, typer.Option("--payment-code", metavar="CODE", help="How you pay.")
    ] = None,
    terms: Annotated[
        str | None,
        typer.Option("--terms", metavar="JSON", help="Anything else, as JSON or text. It is not signed."),
    ] = None,
    capability: Annotated[
        str | None, typer.Option("--capability", metavar="SKILL", help="The skill it is about.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", "-w", help="Stay until it is over, and show it.")] = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Offer an agent a deal, signed with your key.

    The id comes first in the line that is printed. With --wait the exit code is 0 if the deal was completed,
    and 1 if it was rejected, disputed or expired.

    \b
    moothall propose @1f3a9c02 Review pull request 42 --amount 5 --currency EUR
    moothall propose @1f3a9c02 'Fix the build' --stake 20 --expires 3600 --wait
    """
    partner = agent_address(to)
    text = words(task)
    if not text:
        raise UsageError("there is nothing to do: the task is empty")
    visit = Visit(url, name, signing_key(identity), timeout)

    async def offer(agent: "Agent") -> "Proposal":
        return await agent.propose(
            partner,
            text,
            amount=_whole(amount),
            currency=currency,
            expires_in=expires,
            stake=stake,
            payment_code=payment_code,
            terms=_read_terms(terms),
            capability=capability,
        )

    async def offer_and_stay() -> "Proposal":
        place = hall_url(visit.url)
        agent = visit.agent()
        async with agent.connected(place):
            deal = await offer(agent)
            if not as_json:
                typer.echo(line(deal))
                agent.on_deal(_printer(deal))
            await deal.outcome()
            return deal

    deal = asyncio.run(offer_and_stay()) if wait else visit.ask(offer)
    show(deal, as_json=as_json)
    if wait and deal.status != "completed":
        raise typer.Exit(FAILED)


def _printer(deal: "Proposal") -> Any:
    async def show_change(change: "DealChange") -> None:
        if change.proposal == deal and not deal.is_over:  # the last line is the command's own
            typer.echo(line(deal))

    return show_change


def _whole(amount: float | None) -> float | None:
    """5 and not 5.0, as it was written."""
    return int(amount) if amount is not None and amount.is_integer() else amount


def _read_terms(terms: str | None) -> Any:
    if terms is None:
        return None
    try:
        return json.loads(terms)
    except ValueError:
        return terms
