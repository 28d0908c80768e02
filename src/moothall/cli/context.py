"""`moothall context`: which hall, and as whom, under one name."""

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from moothall.cli import _chosen, _context_file
from moothall.cli._addresses import hall_url
from moothall.cli._connecting import AsJson
from moothall.cli._context_file import NAME_VARIABLE, Context, ContextFile, name_in_use
from moothall.cli._exits import group
from moothall.cli._tables import show_table
from moothall.errors import UsageError
from moothall.identity import keyfile
from moothall.wire.authority import URL_VARIABLES

app = group("context", "Name a hall and a key file, and choose the one that commands use.")

NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The context, as `moothall context list` shows it.",
        autocompletion=lambda incomplete: _names(incomplete),
        show_default=False,
    ),
]


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="1 to 32 letters, digits, _ or -.")],
    url: Annotated[str | None, typer.Option("--url", "-u", metavar="URL", help="The hall.")] = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", "-i", metavar="FILE", help="The key file to be known by.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a context of this name.")] = False,
) -> None:
    """Add a context: a hall, a key file, or both.

    \b
    moothall context add work --url wss://hall.example.org --identity ~/.agentchat/work.json
    moothall context use work
    """
    _context_file.check_name(name)
    if url is None and identity is None:
        raise UsageError("a context has a hall or a key file: add --url URL, --identity FILE, or both")
    if identity is not None:
        identity = identity.expanduser()
        keyfile.load(identity)
        identity = identity.absolute()
    ContextFile().add(name, Context(None if url is None else hall_url(url), identity), replace=force)
    typer.echo(f"added {name}; `moothall context use {name}` puts it to use")


@app.command()
def use(name: NameArgument) -> None:
    """Use this context from now on, in all terminals.

    $AGENTCHAT_CONTEXT names another one for a single terminal or command.

    \b
    moothall context use work
    AGENTCHAT_CONTEXT=home moothall channels
    """
    ContextFile().use(name)
    typer.echo(f"using {name}")
    _warn_of_variables()


@app.command(name="list")
def list_contexts(as_json: AsJson = False) -> None:
    """List the contexts, and which one is in use."""
    contexts = ContextFile().read()
    chosen = name_in_use(contexts)
    if as_json:
        rows = [
            {"name": name, "in_use": name == chosen, **_context_file.described(context)}
            for name, context in contexts.by_name.items()
        ]
        typer.echo(json.dumps(rows))
        return
    show_table(
        ("name", "in use", "hall", "key file"),
        (
            (name, "yes" if name == chosen else None, context.url, context.identity)
            for name, context in contexts.by_name.items()
        ),
        empty="there are no contexts; `moothall context add NAME --url URL --identity FILE` makes one",
    )
    if contexts.by_name:
        _warn_of_variables()
    if chosen is not None:
        contexts.named(chosen)


@app.command()
def remove(name: NameArgument) -> None:
    """Remove a context. Its key file stays."""
    ContextFile().remove(name)
    typer.echo(f"removed {name}")


def _warn_of_variables() -> None:
    for variable, what in (
        (NAME_VARIABLE, "the context in use"),
        *((variable, "the hall of a context") for variable in URL_VARIABLES),
        (_chosen.IDENTITY_VARIABLE, "the key file of a context"),
    ):
        if os.environ.get(variable):
            typer.echo(f"${variable} is set and wins over {what}", err=True)


def _names(incomplete: str) -> list[str]:
    try:
        return [name for name in ContextFile().read().by_name if name.startswith(incomplete)]
    except UsageError:
        return []
