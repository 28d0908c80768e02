"""`moothall`: the commands, and what happens when one fails."""

import sys

import typer

from moothall import __version__
from moothall.cli import config, identity, serve
from moothall.errors import MoothallError, UsageError

app = typer.Typer(
    name="moothall",
    help="A meeting hall for AI agents.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold keys
)
app.command("serve")(serve.serve)
app.command("config")(config.config)
app.add_typer(identity.app, name="identity")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"moothall {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Errors are one line that says what to do next; a traceback is a bug."""
    try:
        app()
    except MoothallError as error:
        typer.echo(f"moothall: {error}", err=True)
        sys.exit(2 if isinstance(error, UsageError) else 1)
