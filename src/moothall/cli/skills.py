"""`moothall skills`: offer what you can do, and find who can do what."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._addresses import HallCommand
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, signing_key
from moothall.cli._exits import group
from moothall.cli._reading import STANDARD_INPUT, read_objects
from moothall.cli._tables import Right, names_of, show_table
from moothall.errors import UsageError

if TYPE_CHECKING:
    from moothall import Agent, SkillOffer

app = group("skills", "Offer what you can do, and find who can do what.")

EXAMPLE: Final = '[{"capability": "review", "rate": 5}]'
JSON_FILE: Final = ".json"


@app.command(cls=HallCommand)
def register(
    skills: Annotated[
        list[str],
        typer.Argument(metavar="SKILLS", help="Names of skills; or a .json file (- is standard input)."),
    ],
    rate: Annotated[float | None, typer.Option("--rate", metavar="N", help="What each costs.")] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", "-c", metavar="NAME", help="Of the rate.")
    ] = None,
    description: Annotated[
        str | None, typer.Option("--description", "-d", metavar="SENTENCE", help="In a sentence.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Offer these skills, and no others any more.

    A file holds a list of objects with `capability` and perhaps `description`, `rate`, `currency` and others.

    \b
    moothall skills register review translation --rate 5 --currency EUR
    moothall skills register skills.json
    """
    common = {"description": description, "rate": rate, "currency": currency}
    offered = _offered(skills, {field: value for field, value in common.items() if value is not None})
    visit = Visit(url, name, signing_key(identity), timeout)
    count = visit.ask(lambda agent: agent.register_skills(offered))
    typer.echo(json.dumps({"skills_count": count}) if as_json else f"registered {count} skill(s)")


@app.command(cls=HallCommand)
def search(
    capability: Annotated[
        str | None, typer.Argument(metavar="CAPABILITY", help="A part of the skill's name.")
    ] = None,
    max_rate: Annotated[
        float | None, typer.Option("--max-rate", metavar="N", help="At most so dear.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option("--currency", "-c", metavar="NAME", help="Only in this one.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="How many at most.")] = 50,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Find agents by what they offer, the best rated first.

    A skill that names no rate, or no currency, is found whatever is asked for.

    \b
    moothall skills search review --max-rate 10 --currency EUR
    """

    async def look(agent: "Agent") -> "tuple[list[SkillOffer], dict[str, str]]":
        found = await agent.search_skills(capability, max_rate=max_rate, currency=currency, limit=limit)
        return found, {} if as_json else await names_of(agent, (offer.agent for offer in found))

    found, names = Visit(url, name, identity, timeout).ask(look)
    if as_json:
        typer.echo(json.dumps([asdict(offer) for offer in found]))
        return
    show_table(
        ("agent", "name", Right("rating"), "here", "skill", "price", "description"),
        (_cells(offer, names) for offer in found),
        empty="no agent offers this" if capability else "no agent offers a skill",
    )


def _offered(words: list[str], common: dict[str, Any]) -> list[Any]:
    if len(words) > 1 or not _is_file(words[0]):
        return [{"capability": word, **common} for word in words]
    if common:
        raise UsageError("a file says itself what each skill costs: leave --rate and the others out")
    return read_objects(words[0], "skills", EXAMPLE)


def _is_file(word: str) -> bool:
    return word == STANDARD_INPUT or word.endswith(JSON_FILE)


def _cells(offer: "SkillOffer", names: Mapping[str, str]) -> tuple[object, ...]:
    return (
        offer.agent,
        names.get(offer.agent),
        offer.skill_rating,
        {True: "online", False: "offline", None: None}[offer.online],
        offer.capability,
        None if offer.rate is None else f"{offer.rate:g} {offer.currency or ''}",
        offer.description,
    )
