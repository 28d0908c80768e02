"""The steps of a deal on the mesh: `moothall mesh propose`, `counter`, `accept` and so on."""

import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli._amounts import AmountArgument, AmountOption, millionths, shown
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url
from moothall.cli._deals import KeyFile, signing_key, words
from moothall.cli._mesh_text import show_step, tell_away
from moothall.cli._mesh_visit import (
    ConversationId,
    MeshVisit,
    Words,
    find_agent,
    find_conversation,
    full_conversation_id,
)
from moothall.errors import OutOfOrder, UsageError

if TYPE_CHECKING:
    from moothall.client.dispute import Dispute
    from moothall.mesh import Conversation, MeshAgent, Sent

    Step = Callable[[Conversation], Awaitable[Sent | None]]

STANDARD_INPUT: Final = "-"
_ROLES: Final = ("requester", "provider", "notary")


WithNotary = Annotated[bool, typer.Option("--notary", help="Ask for a notary as well.")]


class OutcomeName(StrEnum):
    NEGATIVE = "negative"
    NEUTRAL = "neutral"
    POSITIVE = "positive"


def propose(
    to: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id on the mesh.")],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What is to be done.")],
    amount: AmountOption = "0",
    offer_work: Annotated[
        bool, typer.Option("--offer-work", help="You do the work, and the other agent pays.")
    ] = False,
    notary: WithNotary = False,
    rounds: Annotated[
        int, typer.Option("--rounds", metavar="N", min=1, max=1000, help="How often each side may counter.")
    ] = 2,
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="An id that was never used; by default a new one."),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Offer an agent a deal, which opens a conversation.

    The id of the conversation comes first in the line that is printed. Credits are put aside when the offer is
    accepted. There is a notary if a party asks for one, the requester agrees, and an agent has offered.

    \b
    moothall mesh propose 29acbae141bccaf0 'Translate this page' --amount 5 --notary
    moothall mesh propose 29acbae141bccaf0 'I translate it for you' --amount 4 --offer-work
    """
    said = words(text) or ""
    price = millionths(amount)
    conversation_id = None if id_ is None else full_conversation_id(id_)

    async def offer(agent: "MeshAgent") -> "Conversation":
        return await agent.propose(
            await find_agent(agent, to),
            said,
            amount=price,
            max_rounds=rounds,
            role="provider" if offer_work else "requester",
            conversation_id=conversation_id,
            wants_notary=notary,
        )

    conversation = MeshVisit(url, name, identity, timeout).ask(offer)
    show_step(conversation, conversation.sent, as_json=as_json)


def counter(
    conversation: ConversationId,
    amount: AmountArgument,
    text: Words = None,
    notary: WithNotary = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Offer another price.

    \b
    moothall mesh counter 9c41aa02 7.5 'It is a long page' --notary
    """
    price = millionths(amount)

    async def offer(found: "Conversation") -> "Sent":
        if notary:  # before the offer, which the other party may accept at once
            await found.ask_notary()
        return await found.counter(price, words(text) or "")

    _take(MeshVisit(url, name, identity, timeout), conversation, offer, as_json=as_json)


def accept(
    conversation: ConversationId,
    text: Words = None,
    amount: Annotated[
        str | None,
        typer.Option("--amount", "-a", metavar="CREDITS", help="Accept only if this is the last offer."),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Accept the last offer of the other party. Credits are put aside for it.

    \b
    moothall mesh accept 9c41aa02
    moothall mesh accept 9c41aa02 'Until Friday' --amount 7.5
    """
    wanted = None if amount is None else millionths(amount)

    async def agree(found: "Conversation") -> "Sent":
        if wanted is not None and found.amount != wanted:
            raise OutOfOrder(
                f"The last offer is {shown(found.amount)} credits, not {shown(wanted)}", found.state
            )
        return await found.accept(words(text) or "")

    _take(MeshVisit(url, name, identity, timeout), conversation, agree, as_json=as_json)


def reject(
    conversation: ConversationId,
    text: Words = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Reject the last offer. The conversation is closed.

    \b
    moothall mesh reject 9c41aa02 too busy this week
    """
    visit = MeshVisit(url, name, identity, timeout)
    _take(visit, conversation, lambda found: found.reject(words(text) or ""), as_json=as_json)


def deliver(
    conversation: ConversationId,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="The work, up to 48 KiB; - is standard input.")
    ] = None,
    text: Annotated[str | None, typer.Option("--text", metavar="TEXT", help="The work is this text.")] = None,
    uri: Annotated[str | None, typer.Option("--uri", metavar="URI", help="Where the work is.")] = None,
    content_type: Annotated[
        str | None, typer.Option("--content-type", metavar="TYPE", help="Its media type, as in text/html.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Deliver the work, or say where it is.

    \b
    moothall mesh deliver 9c41aa02 page.html --content-type text/html
    moothall mesh deliver 9c41aa02 --text 'Der Saal ist offen.'
    """
    if sum(each is not None for each in (file, text, uri)) != 1:
        raise UsageError("deliver one thing: a FILE, --text or --uri")
    work = text if file is None else _read(file)
    visit = MeshVisit(url, name, identity, timeout)
    _take(
        visit,
        conversation,
        lambda found: found.deliver(work, content_type=content_type, uri=uri),
        as_json=as_json,
    )


def approve(
    conversation: ConversationId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Approve what was delivered, as the requester. The provider is paid.

    \b
    moothall mesh approve 9c41aa02
    """
    visit = MeshVisit(url, name, identity, timeout)
    _take(visit, conversation, lambda found: found.approve(), as_json=as_json)


def dispute(
    conversation: ConversationId,
    text: Words = None,
    to_court: Annotated[
        bool, typer.Option("--to-court", help="Then take it to court; TEXT is the reason.")
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Challenge a delivery or a verdict. The parties negotiate again.

    The credits stay put aside, and the notary stays assigned. If there is none, --to-court has three arbiters
    decide: `moothall court` goes on from there. What is disputed already only goes to court.

    \b
    moothall mesh dispute 9c41aa02 half of it is missing
    moothall mesh dispute 9c41aa02 --to-court 'half of it is missing'
    """
    visit = MeshVisit(url, name, identity, timeout)
    if to_court:
        _go_to_court(visit, conversation, words(text), as_json=as_json)
        return
    _take(visit, conversation, lambda found: found.dispute(words(text) or ""), as_json=as_json)


def feedback(
    conversation: ConversationId,
    score: Annotated[
        int, typer.Argument(metavar="SCORE", min=-100, max=100, help="From -100 to 100.", show_default=False)
    ],
    about: Annotated[
        str | None,
        typer.Option(
            "--about", metavar="WHO", help="requester, provider, notary or an id; by default the other party."
        ),
    ] = None,
    outcome: Annotated[
        OutcomeName | None,
        typer.Option(
            metavar="OUTCOME", help="negative, neutral or positive; by default it follows from SCORE."
        ),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Rate a participant of a conversation that is resolved.

    It ends the conversation for you. You may rate the other party and the notary, once each.

    \b
    moothall mesh feedback 9c41aa02 80 --about notary
    moothall mesh feedback 9c41aa02 100
    moothall mesh feedback 9c41aa02 -50
    """

    async def rate(agent: "MeshAgent") -> "tuple[Conversation, Sent]":
        found = await find_conversation(agent, conversation)
        target = None if about is None else await _participant(agent, found, about)
        return found, await found.feedback(
            score, outcome=None if outcome is None else outcome.value, about=target
        )

    found, sent = MeshVisit(url, name, identity, timeout).ask(rate)
    show_step(found, sent, as_json=as_json)


def cancel(
    conversation: ConversationId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Take back what is put aside, as the requester.

    Before a delivery, after the notary rejected it, or with the consent of the provider.

    \b
    moothall mesh cancel 9c41aa02
    """
    _take(
        MeshVisit(url, name, identity, timeout), conversation, lambda found: found.cancel(), as_json=as_json
    )


def consent(
    conversation: ConversationId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Let the requester cancel, as the provider.

    \b
    moothall mesh consent 9c41aa02
    """
    _take(
        MeshVisit(url, name, identity, timeout), conversation, lambda found: found.consent(), as_json=as_json
    )


def _go_to_court(visit: MeshVisit, word: str, reason: str | None, *, as_json: bool) -> None:
    from moothall.cli._nonces import NonceFile
    from moothall.cli.court import commit_and_reveal, show_filed
    from moothall.market.credits import deal_name

    if not reason:
        raise UsageError("say why: the court needs a reason")
    key = signing_key(visit.identity)

    async def go(agent: "MeshAgent") -> "Dispute":
        found = await find_conversation(agent, word)
        if found.state == "DELIVERED":
            tell_away(await found.dispute(reason))
        deal = deal_name(found.record.id)
        return await commit_and_reveal(await agent.agentchat(), NonceFile(key, deal), deal, reason)

    show_filed(visit.ask(go), as_json=as_json)


def _take(visit: MeshVisit, word: str, step: "Step", *, as_json: bool) -> None:
    """One step in a conversation that is there, and the conversation after it."""

    async def take(agent: "MeshAgent") -> "tuple[Conversation, Sent | None]":
        found = await find_conversation(agent, word)
        sent = await step(found)
        if found.record.is_stale:  # the hall did more than the step says, as when it assigns a notary
            await found.refresh()
        return found, sent

    found, sent = visit.ask(take)
    show_step(found, sent, as_json=as_json)


async def _participant(agent: "MeshAgent", conversation: "Conversation", who: str) -> str:
    if who not in _ROLES:
        return await find_agent(agent, who)
    participants = (conversation.requester, conversation.provider, conversation.notary)
    found = participants[_ROLES.index(who)]
    if found is None:
        raise UsageError("this conversation has no notary")
    return found


def _read(file: str) -> bytes:
    """As much as shows that it is too much."""
    from moothall.wire.mesh.outcomes import MAX_INLINE

    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_INLINE + 1)
    try:
        with Path(file).expanduser().open("rb") as work:
            return work.read(MAX_INLINE + 1)
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
