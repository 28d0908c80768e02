"""`moothall config`: every setting, its value, and where it came from."""

import json
import re
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moothall.cli import _completion
from moothall.cli._exits import tell
from moothall.cli._options import Config, Profile, Set, choose
from moothall.settings import Chosen
from moothall.settings.fields import described
from moothall.settings.sources import check_name

if TYPE_CHECKING:
    from dataclasses import Field

DEFAULT: Final = "default"  # where a value comes from

_PASSWORD: Final = re.compile(r"(://[^:/@]*:)[^@]*@")  # of a store's URL
_USER: Final = re.compile(r"://.*@")  # of a URL of the bus, where a user without a password is a token


def config(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAMES", help="Only these settings.", autocompletion=_completion.setting_names
        ),
    ] = None,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only settings that do not have their default.")
    ] = False,
    config: Config = None,
    profile: Profile = None,
    assign: Set = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show the settings of a hall and where each came from.

    \b
    moothall config
    moothall config max_frame rate_message
    moothall config --changed
    moothall config --profile agentchat-0.36 --json
    """
    wanted = {check_name(name) for name in names or ()}
    chosen = choose(config, assign, profile=profile)
    rows = [
        Row(entry.name, _value(entry, chosen), chosen.origins[entry.name], entry.metadata["help"])
        for entry in described()
        if (not wanted or entry.name in wanted) and not (changed and chosen.origins[entry.name] == DEFAULT)
    ]
    if as_json:
        table = {row.name: {"value": row.value, "from": row.origin, "help": row.help} for row in rows}
        typer.echo(json.dumps(table, indent=2))
        return
    if not rows:
        tell("no setting is changed: all have their default values")
    _show(rows)
    for variable in chosen.ignored:
        tell(f"not a setting: {variable}")


class Row(NamedTuple):
    name: str
    value: Any  # as JSON has it
    origin: str
    help: str


def _show(rows: list[Row]) -> None:
    width = max((len(row.name) for row in rows), default=0)
    for row in rows:
        typer.echo(f"{row.name:<{width}}  {_text(row.value) or '-'}  ({row.origin})")
        typer.secho(f"{'':<{width}}  {row.help}", dim=True)


def _value(entry: "Field[Any]", chosen: Chosen) -> Any:
    """As JSON has it: numbers are numbers, lists are lists. Secrets are only known to be set."""
    value = getattr(chosen.settings, entry.name)
    if entry.metadata["secret"]:
        return "(set)" if value else ""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, tuple) and not hasattr(value, "limit"):
        return [_USER.sub("://***@", part) if entry.name == "bus" else part for part in value]
    return _PASSWORD.sub(r"\1***@", str(value))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)
