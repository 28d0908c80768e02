"""`moothall mesh notarize|verdict`: what notaries do, and how to ask for one."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url
from moothall.cli._deals import KeyFile, words
from moothall.cli._mesh_text import show_step
from moothall.cli._mesh_visit import (
    ConversationId,
    MeshVisit,
    Words,
    find_conversation,
    full_conversation_id,
)
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall.mesh import Conversation, MeshAgent, Sent


class Judgement(StrEnum):
    APPROVE = "approve"
    REJECT = "reject"


def notarize(
    conversation: Annotated[
        str | None,
        typer.Argument(metavar="[ID]", help="The whole id of the conversation; by default any one."),
    ] = None,
    ask: Annotated[bool, typer.Option("--ask", help="As a party: ask for a notary, before ACCEPT.")] = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Offer to be a notary, or ask for one.

    An offer is for one conversation, or for any whose parties ask for a notary.

    The hall assigns a notary when an offer is accepted, by a rule that all can check, if a party asked for one and
    the requester agrees: it asked itself, or it accepts. `moothall mesh conversations` lists those that were
    assigned to you.

    \b
    moothall mesh notarize
    moothall mesh notarize 9c41aa02d0b34c0e8f3f2ad1c5e1b7aa
    moothall mesh notarize 9c41aa02 --ask
    """
    if ask and conversation is None:
        raise UsageError("say for which conversation you ask: give its ID")

    async def bid(agent: "MeshAgent") -> str | None:
        if conversation is None:
            await agent.bid()
            return None
        if ask:
            found = await find_conversation(agent, conversation)
            await agent.bid(found, offer=False)
            return found.id
        whole = full_conversation_id(conversation)
        await agent.bid(whole)
        return whole

    found = MeshVisit(url, name, identity, timeout).ask(bid)
    if as_json:
        typer.echo(json.dumps({"conversation_id": found, "bid": "request" if ask else "offer"}))
    else:
        typer.echo(
            f"{'asked for a notary of' if ask else 'offered to notarize'} {found or 'any conversation'}"
        )


def verdict(
    conversation: ConversationId,
    judgement: Annotated[
        Judgement, typer.Argument(metavar="VERDICT", help="approve or reject.", show_default=False)
    ],
    text: Words = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Judge what was delivered, as the notary. Both parties are told.

    `approve` pays the provider and you. After `reject` the provider may deliver again.

    \b
    moothall mesh verdict 9c41aa02 approve
    moothall mesh verdict 9c41aa02 reject half of it is missing
    """

    async def judge(agent: "MeshAgent") -> "tuple[Conversation, Sent]":
        found = await find_conversation(agent, conversation)
        note = (words(text) or "").encode()
        return found, await found.verdict(approve=judgement is Judgement.APPROVE, note=note)

    found, sent = MeshVisit(url, name, identity, timeout).ask(judge)
    show_step(found, sent, as_json=as_json)
