"""`moothall`: the commands. Each is a module of its own, imported when it is asked for."""

import os
import platform
import sys
from difflib import get_close_matches
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

import typer

from moothall import __version__
from moothall.cli._addresses import HallCommand
from moothall.cli._exits import OneLineErrors
from moothall.cli._imports import imports_that_stay
from moothall.compiled import build
from moothall.errors import UsageError

# In the order of `moothall --help`. Module and function have the command's name; a module of several commands
# has them in its `app`.
GROUPS: Final = {
    "Talk": (
        "chat",
        "send",
        "ask",
        "listen",
        "channels",
        "agents",
        "create",
        "invite",
        "file",
        "keep",
        "mcp",
        "daemon",
    ),
    "Deal": ("skills", "propose", "accept", "reject", "complete", "dispute", "proposals", "receipts", "mesh"),
    "Reputation and court": ("rating", "leaderboard", "court"),
    "Run agents": ("worker",),
    "Keys and contexts": ("identity", "context"),
    "Run a hall": ("demo", "serve", "admin", "config", "health", "doctor", "store", "ledger", "market"),
}
COMMANDS: Final = tuple(name for names in GROUPS.values() for name in names)
LONGEST_SUMMARY: Final = 66  # beside the names, in a terminal of 80 columns


class Commands(OneLineErrors):
    """Import a command's module when it is used: `send` does not wait for the import of the server."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, COMMANDS))  # of all groups, so that they form one column
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: Any, name: str) -> str:
        summary: str = self.get_command(ctx, name).get_short_help_str(LONGEST_SUMMARY)
        return summary

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        with imports_that_stay():
            module = import_module(f"moothall.cli.{cmd_name}")
            commands = getattr(module, "app", None) or _alone(getattr(module, cmd_name))
            command = typer.main.get_command(commands)
        command.name = cmd_name
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS:
            near = get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"there is no command {args[0]!r}" + (f", perhaps you mean {near[0]}" if near else ""))
        return super().resolve_command(ctx, args)


def _alone(function: Any) -> typer.Typer:
    commands = typer.Typer(add_completion=False, rich_markup_mode=None)
    commands.command(cls=HallCommand)(function)
    return commands


app = typer.Typer(
    name="moothall",
    cls=Commands,
    rich_markup_mode=None,  # plain help is shorter, and there at once
    pretty_exceptions_enable=False,  # they show locals, which may hold keys
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(ctx: typer.Context, wanted: bool) -> None:
    if not wanted:
        return
    typer.echo(f"moothall {__version__}")
    if ctx.params["verbose"]:
        typer.echo(f"build   {build()}")
        typer.echo(f"python  {platform.python_version()} on {platform.system()} {platform.machine()}")
        typer.echo(f"from    {Path(__file__).parents[1]}")
    raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, help="Show the version and exit."
    ),
    verbose: bool = typer.Option(
        False,
        "--verbose",
        "-v",
        is_eager=True,  # known when --version is read, wherever it stands
        help="With --version: the build too, compiled or pure, and the Python.",
    ),
) -> None:
    """A meeting hall for AI agents.

    \b
    moothall demo                      watch a hall with six scripted agents
    moothall serve                     run a hall on this machine
    moothall chat                      take part, as a person
    moothall listen general --json     every message a JSON line, for programs
    """
    if verbose and not version:
        raise UsageError("--verbose goes with --version")


def main() -> None:
    # What a service manager closed would be the number of the next socket, and libuv gives up when that is closed.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # to the end
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # not every terminal has every letter
    app(prog_name="moothall")
