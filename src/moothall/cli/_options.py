"""Flags that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from moothall.cli import _completion
from moothall.errors import SettingsError
from moothall.settings import Chosen, load
from moothall.settings.sources import SECRETS, check_name

Config = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings file; ./moothall.toml is read if it exists.")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting; `moothall config` lists them.",
        autocompletion=_completion.settings,
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="Behave as this server: seeds, agentchat-0.36.",
        autocompletion=_completion.profiles,
    ),
]


def choose(config: Path | None, assignments: list[str] | None, **flags: object) -> Chosen:
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not equals:
            raise SettingsError(f"--set {assignment!r} is not NAME=VALUE")
        flags[_open_setting(name)] = value
    return load(flags, config=config)


def _open_setting(name: str) -> str:
    name = check_name(name)
    if name in SECRETS:
        raise SettingsError(
            f"{name} is a secret, and other users can read a command line. Set MOOTHALL_{name.upper()}"
        )
    return name
