"""What the commands for a crew share: which crew is meant, and how to reach it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.worker.crew.office import Office
    from moothall.worker.crew.places import Places

CrewName = Annotated[
    str | None,
    typer.Option(
        "--crew",
        metavar="CREW",
        help="The name of a crew, or its file. Default: the crew of crew.toml in this folder.",
    ),
]
AgentName = Annotated[str, typer.Argument(metavar="NAME", help="The agent.")]
AgentNames = Annotated[list[str] | None, typer.Argument(metavar="NAME", help="The agents.")]


def places_of(crew: str | None) -> "Places":
    """The folder of the crew that is meant. Raises UsageError."""
    from moothall.worker.crew.finding import find

    return find(crew, Path.cwd(), os.environ)


def office_of(crew: str | None) -> "Office":
    """The way to the crew that is meant. Raises UsageError."""
    from moothall.worker.crew.office import Office

    return Office(places_of(crew), os.environ)


def say(text: str) -> None:
    """A line of what the crew does."""
    typer.echo(one_line(text))
