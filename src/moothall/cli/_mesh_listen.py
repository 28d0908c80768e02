"""`moothall mesh listen`: what happens on the mesh, for people or, as JSON lines, for programs."""

import asyncio
import json
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moothall.cli._amounts import shown
from moothall.cli._connecting import AsJson, Name, Url, seconds
from moothall.cli._deals import KeyFile
from moothall.cli._exits import tell
from moothall.cli._mesh_text import described_message, message_line, short
from moothall.cli._mesh_visit import MeshVisit, explained
from moothall.errors import ConnectionLost, MoothallError, ReplyTimeout
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.mesh import Assigned, Change, MeshAgent, Message, Missed

MOST_WAITING: Final = 1000  # events that were not printed yet
# What agents tell all others. FEEDBACK about you, and BROADCAST on your topics, is shown in any case.
PUBLIC: Final = frozenset(("ADVERTISE", "DISCOVER", "BEACON", "BOUNTY", "NOTARIZE_BID", "FEEDBACK"))


class Event(NamedTuple):
    text: str
    fields: dict[str, Any]


def listen(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="TOPICS", help="Named topics to subscribe to.")
    ] = None,
    public: Annotated[
        bool,
        typer.Option(
            "--public", help="Also what agents tell all: ADVERTISE, DISCOVER, BEACON, bids and ratings."
        ),
    ] = False,
    as_json: AsJson = False,
    limit: Annotated[
        int | None, typer.Option("-m", "--max", metavar="N", min=1, help="End after N events.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", callback=seconds, help="End with exit code 5 after SECONDS of silence."
        ),
    ] = None,
) -> None:
    """Print what is sent to you, until Ctrl-C.

    What becomes of your deals is printed too. First comes what waited in your inbox. Others see that you are there.
    A lost connection is taken up again.

    \b
    moothall mesh listen
    moothall mesh listen general --json | jq -r .type
    """
    visit = MeshVisit(url, name, identity)
    with suppress(KeyboardInterrupt):
        asyncio.run(
            _listen(visit, topics or [], public=public, as_json=as_json, limit=limit, silence=timeout)
        )


async def _listen(
    visit: MeshVisit,
    topics: list[str],
    *,
    public: bool,
    as_json: bool,
    limit: int | None,
    silence: float | None,
) -> None:
    with explained():
        agent = visit.agent(beacon=True, stays=True, inbox_limit=limit)
    events: asyncio.Queue[Event] = asyncio.Queue(MOST_WAITING)
    _hear(agent, events, public=public)
    async with agent:
        for topic in topics:
            await agent.subscribe(topic.removeprefix("#"))
        printing = asyncio.create_task(_print(events, as_json=as_json, limit=limit, silence=silence))
        ending = asyncio.create_task(agent.wait_closed())
        try:
            await asyncio.wait((printing, ending), return_when=asyncio.FIRST_COMPLETED)
            await (printing if printing.done() else ending)
        finally:
            printing.cancel()
            ending.cancel()
            await asyncio.gather(printing, ending, return_exceptions=True)


async def _print(
    events: "asyncio.Queue[Event]", *, as_json: bool, limit: int | None, silence: float | None
) -> None:
    printed = 0
    while limit is None or printed < limit:
        try:
            event = await asyncio.wait_for(events.get(), silence)
        except TimeoutError:
            raise ReplyTimeout(
                f"nothing happened for {silence:g} s; a longer --timeout waits longer"
            ) from None
        typer.echo(json.dumps(event.fields) if as_json else event.text)
        printed += 1


def _hear(agent: "MeshAgent", events: "asyncio.Queue[Event]", *, public: bool) -> None:
    @agent.on_message
    async def heard(message: "Message") -> None:
        if public or message.type not in PUBLIC or message.conversation is not None:
            await events.put(Event(message_line(message), described_message(message)))

    @agent.on_notary
    async def assigned(told: "Assigned") -> None:
        text = f"notary {short(told.notary)}, fee {shown(told.fee)} credits"
        fields = {"notary": told.notary, "fee": told.fee}
        await events.put(_notice("notary_assigned", told.conversation.id, text, fields))

    @agent.on_change
    async def changed(told: "Change") -> None:
        fields = {"state": told.state, "cause": told.cause}
        await events.put(
            _notice("conversation_changed", told.conversation.id, f"{told.state} ({told.cause})", fields)
        )

    @agent.on_missed
    async def missed(told: "Missed") -> None:
        tell(
            f"{told.count} messages had to make way in the inbox; `moothall mesh conversations` has your deals"
        )

    @agent.on_connect
    async def connected(_: str) -> None:
        tell(f"listening as {agent.id} ({agent.name})")

    @agent.on_disconnect
    async def disconnected(error: MoothallError) -> None:
        if isinstance(error, ConnectionLost):
            tell(f"disconnected: {one_line(str(error))}; reconnecting")


def _notice(kind: str, conversation_id: str, text: str, fields: dict[str, Any]) -> Event:
    moment = f"{datetime.now().astimezone():%H:%M:%S}"
    line = f"{moment}  {kind.upper():<15}  {conversation_id}  {one_line(text)}"
    return Event(line, {"type": kind, "conversation_id": conversation_id, **fields})
