"""`moothall config`: every setting, its value, and where it came from."""

import json
import re
from typing import Annotated, Any, Final

import typer

from moothall.cli.options import Config, Profile, Set, choose
from moothall.settings.fields import described

_PASSWORD: Final = re.compile(r"(://[^:/@]*:)[^@]*@")  # of a store's URL


def config(
    config: Config = None,
    profile: Profile = None,
    assign: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the settings of a hall and where each came from.

    \b
    moothall config
    moothall config --profile agentchat-0.36 --json
    """
    chosen = choose(config, assign, profile=profile)
    rows = []
    for entry in described():
        value = getattr(chosen.settings, entry.name)
        shown = _hidden(value) if entry.metadata["secret"] else _PASSWORD.sub(r"\1***@", _text(value))
        rows.append((entry.name, shown, chosen.origins[entry.name], entry.metadata["help"]))
    if as_json:
        table = {name: {"value": value, "from": origin, "help": text} for name, value, origin, text in rows}
        typer.echo(json.dumps(table, indent=2))
        return
    width = max(len(name) for name, *_ in rows)
    for name, value, origin, text in rows:
        typer.echo(f"{name:<{width}}  {value or '-'}  ({origin})")
        typer.secho(f"{'':<{width}}  {text}", dim=True)
    for variable in chosen.ignored:
        typer.echo(f"not a setting: {variable}", err=True)


def _hidden(value: str) -> str:
    return "(set)" if value else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and not hasattr(value, "limit"):
        return ",".join(value)
    return str(value)
