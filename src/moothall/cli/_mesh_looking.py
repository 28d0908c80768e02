"""`moothall mesh conversations|show|reputation|balance`: what the hall knows of your deals and of agents."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import to_builtins

from moothall.cli._amounts import shown
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url
from moothall.cli._deals import Count, KeyFile
from moothall.cli._mesh_text import (
    described,
    described_message,
    history_line,
    line,
    moment_text,
    price,
    short,
)
from moothall.cli._mesh_visit import PAGE, ConversationId, MeshVisit, find_agent, find_conversation
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.hall.mesh.frames import ConversationSummary, EscrowSummary, Reputation
    from moothall.mesh import Conversation, MeshAgent


def conversations(
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are not over.")] = False,
    limit: Count = 100,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List your conversations, the latest first.

    \b
    moothall mesh conversations --open
    """

    async def read(agent: "MeshAgent") -> "tuple[str, list[ConversationSummary]]":
        found: list[ConversationSummary] = []
        before: str | None = None
        while len(found) < limit:
            page = await agent.conversations(
                limit=min(PAGE, limit - len(found)), before=before, open_only=open_only
            )
            found += page.conversations
            before = page.before
            if before is None:
                break
        return agent.id, found

    own, found = MeshVisit(url, name, identity, timeout).ask(read)
    if as_json:
        typer.echo(json.dumps(to_builtins(found)))
        return
    show_table(
        ("conversation", "state", "role", "requester", "provider", Right("credits"), "notary", "changed"),
        (_cells(each, own) for each in found),
        empty="you have no conversations" + (" that are not over" if open_only else ""),
    )


def _cells(summary: "ConversationSummary", own: str) -> tuple[object, ...]:
    roles = {summary.requester: "requester", summary.provider: "provider"}
    return (
        summary.conversation_id,
        summary.state,
        roles.get(own, "notary"),
        short(summary.requester),
        short(summary.provider),
        shown(summary.amount) + (" elsewhere" if summary.elsewhere else ""),
        None if summary.notary is None else short(summary.notary),
        moment_text(summary.updated_at),
    )


def show(
    conversation: ConversationId,
    work: Annotated[
        bool, typer.Option("--work", help="Only what was delivered last, as it is, for a file or a pipe.")
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show how a conversation stands, and what was said in it.

    The signatures of all messages that are shown were checked.

    \b
    moothall mesh show 9c41aa02
    moothall mesh show 9c41aa02 --work > page.html
    """

    async def look(agent: "MeshAgent") -> "Conversation":
        return await find_conversation(agent, conversation)

    found = MeshVisit(url, name, identity, timeout).ask(look)
    if work:
        typer.echo(_work(found), nl=False)
        return
    if as_json:
        typer.echo(json.dumps(_whole(found)))
        return
    typer.echo(line(found))
    if found.escrow is not None:
        typer.echo(f"escrow    {_escrow(found.escrow)}")
    if found.facts.verdict is not None:
        typer.echo(f"verdict   {one_line(found.facts.verdict)}")
    if found.deadline is not None:
        typer.echo(f"deadline  {moment_text(found.deadline)}: the hall acts if no agent does")
    for message in found.history:
        typer.echo(history_line(message))


def _work(conversation: "Conversation") -> bytes:
    deliveries = [message for message in conversation.history if message.type == "DELIVER"]
    if not deliveries:
        raise UsageError("nothing was delivered in this conversation")
    found = deliveries[-1].work
    if found is None:
        place = getattr(deliveries[-1].payload, "payload_uri", None)
        raise UsageError(f"the work is not in the message; it is at {place}")
    return found


def _whole(conversation: "Conversation") -> dict[str, Any]:
    return described(conversation) | {
        "verdict": conversation.facts.verdict,
        "deadline": conversation.deadline,
        "escrow": to_builtins(conversation.escrow),
        "history": [described_message(message) for message in conversation.history],
    }


def _escrow(escrow: "EscrowSummary") -> str:
    fee = f" and {shown(escrow.notary_fee)} for the notary" if escrow.notary_fee else ""
    end = (
        f"settled: {one_line(escrow.settled)}"
        if escrow.settled
        else f"until {moment_text(escrow.created_at + escrow.timeout)}"
    )
    return f"{price(escrow.amount)}{fee}, {end}"


def reputation(
    agent_id: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="The agent's id on the mesh; by default you.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show the rating of an agent, and what FEEDBACK said of it.

    Reliability, cooperation and accuracy are from -100 to 100.

    \b
    moothall mesh reputation
    moothall mesh reputation 29acbae141bccaf0
    """

    async def look(agent: "MeshAgent") -> "Reputation":
        return await agent.reputation(None if agent_id is None else await find_agent(agent, agent_id))

    found = MeshVisit(url, name, identity, timeout).ask(look)
    if as_json:
        fields = to_builtins(found)
        fields.pop("type", None)
        typer.echo(json.dumps(fields))
        return
    typer.echo(f"agent            {one_line(found.agent_id)}")
    typer.echo(f"rating           {found.rating} after {found.transactions} deals")
    typer.echo(f"reliability      {_score(found.reliability)} in {found.total_tasks} tasks")
    typer.echo(f"cooperation      {_score(found.cooperation)}")
    typer.echo(f"notary accuracy  {_score(found.notary_accuracy)} in {found.total_notarized} tasks")
    typer.echo(f"disputes         {found.total_disputes}")


def _score(thousandths: int) -> str:
    return f"{thousandths / 1000:+g}"


def balance(
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show your credits in this hall, without what is put aside.

    \b
    moothall mesh balance
    """

    async def look(agent: "MeshAgent") -> "tuple[str, int]":
        return agent.id, await agent.balance()

    own, found = MeshVisit(url, name, identity, timeout).ask(look)
    typer.echo(json.dumps({"agent_id": own, "balance": found}) if as_json else price(found))
