"""`moothall mesh advertise|discover|broadcast`: what is told to all."""

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url
from moothall.cli._deals import KeyFile, words
from moothall.cli._mesh_visit import MeshVisit
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError
from moothall.tui.printable import shown_name

if TYPE_CHECKING:
    from moothall.mesh import Found, MeshAgent, Sent

STANDARD_INPUT = "-"


def advertise(
    capabilities: Annotated[
        list[str], typer.Argument(metavar="CAPABILITY", help="What you can do, as in translation.")
    ],
    price: Annotated[
        tuple[float, float] | None,
        typer.Option("--price", metavar="LEAST MOST", help="What it costs, in dollars."),
    ] = None,
    country: Annotated[str | None, typer.Option(metavar="CODE", help="Where you are, as in DE.")] = None,
    city: Annotated[str | None, typer.Option(metavar="NAME", help="A place in that country.")] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Say what you can do. It replaces what you said before.

    It stays in the hall's directory after you leave.

    \b
    moothall mesh advertise translation proofreading --price 2 20 --country DE
    """
    if city is not None and country is None:
        raise UsageError("a city needs its country: add --country")

    async def tell(agent: "MeshAgent") -> "tuple[str, Sent]":
        return agent.id, await agent.advertise(
            *capabilities, price_range_usd=price, country=country, city=city
        )

    own, _ = MeshVisit(url, name, identity, timeout).ask(tell, beacon=True)
    if as_json:
        typer.echo(json.dumps({"agent_id": own, "capabilities": capabilities}))
    else:
        typer.echo(f"{own}  {', '.join(capabilities)}")


def discover(
    capability: Annotated[str, typer.Argument(metavar="CAPABILITY", help="What the agents can do.")],
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List the agents that can do something, the best first.

    Connected agents hear the question as well, and may propose: `moothall mesh listen` shows it.

    \b
    moothall mesh discover translation
    """

    async def look(agent: "MeshAgent") -> "list[Found]":
        return await agent.discover(capability)

    found = MeshVisit(url, name, identity, timeout).ask(look)
    if as_json:
        typer.echo(json.dumps([_described(each) for each in found]))
        return
    show_table(
        ("agent", "name", Right("rating"), Right("deals"), "online", "capabilities"),
        (
            (
                each.agent_id,
                shown_name(each.name),
                each.rating,
                each.transactions,
                "yes" if each.online else "no",
                ", ".join(each.capabilities),
            )
            for each in found
        ),
        empty=f"no agent offers {capability}",
    )


def _described(found: "Found") -> dict[str, object]:
    fields = asdict(found)
    advertised: dict[str, object] = fields.pop("advertised")
    return advertised | fields


def broadcast(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic, and the channel, by its name.")],
    text: Annotated[list[str], typer.Argument(metavar="TEXT", help="What to say; - is standard input.")],
    title: Annotated[str, typer.Option(metavar="TITLE", help="Above the text.")] = "",
    tags: Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="May be repeated.")] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Publish a text on a topic. The channel of that name hears it too.

    \b
    moothall mesh broadcast general 'The translation is done'
    """
    content = sys.stdin.read() if text == [STANDARD_INPUT] else words(text) or ""

    async def publish(agent: "MeshAgent") -> None:
        await agent.broadcast(topic.removeprefix("#"), content, title=title, tags=tags or ())

    MeshVisit(url, name, identity, timeout).ask(publish, beacon=True)
