"""`moothall worker guard`: a command within limits. The program behind it is small and replaces this one."""

import inspect
import os
import sys
from typing import Annotated, Any

import typer

from moothall.worker.guard.command_line import OPTIONS, Option, program


def guard(command: list[str], **options: Any) -> None:
    """Run a command within limits, and end all that it started.

    At 80 % of a limit the guard warns. Over it, all processes of the command get SIGTERM, and SIGKILL after the
    cooldown. The exit code is that of the command, or 1 if it died by a signal. Needs Linux.

    \b
    moothall worker guard --budget 200000 --timeout 900 -- claude -p 'Say hello in #general.'
    moothall worker guard --state state.json --abort-file abort -- ./my-agent
    """
    words = program()
    for option in OPTIONS:
        given = options[option.name]
        for value in given if option.many else [given]:
            if value is not None:
                words += [option.flag, str(value)]
    sys.stdout.flush()
    os.execv(words[0], [*words, "--", *command])  # noqa: S606  # the guard stays, without all that is loaded here


def _parameter(option: Option) -> inspect.Parameter:
    kind = option.kind if option.default is not None else option.kind | None
    least = None if option.kind is str else option.least
    shown = typer.Option(option.flag, metavar=option.metavar, help=option.help, min=least)
    default: Any = option.default
    if option.many:
        kind, default = list[option.kind], []  # type: ignore[name-defined]
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown]
    )


# The table of options is that of the guard: `niki` reads it without the library that reads it here.
_COMMAND = inspect.Parameter(
    "command",
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
    annotation=Annotated[list[str], typer.Argument(metavar="COMMAND", help="The command and its arguments.")],
)
_PARAMETERS = [_COMMAND, *map(_parameter, OPTIONS)]
guard.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
guard.__annotations__ = {each.name: each.annotation for each in _PARAMETERS}
