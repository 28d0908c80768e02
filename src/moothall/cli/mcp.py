"""`moothall mcp`: the tools of a hall for a model, over the Model Context Protocol."""

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import HallGroup
from moothall.cli._connecting import IdentityFile, Name, Url
from moothall.cli._exits import group, install_command
from moothall.cli._mcp_install import install
from moothall.errors import UsageError

Files = Annotated[
    Path | None,
    typer.Option(
        "--files",
        metavar="FOLDER",
        help="The model may send files from this folder. Default: the one this is started in.",
    ),
]

app = group("mcp", None, HallGroup)
app.command()(install)


@app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
def mcp(
    context: typer.Context,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    files: Files = None,
) -> None:
    """Serve a model: an MCP server on standard input and output.

    Hosts such as Claude, Cursor or VS Code start this command. Log lines go to standard error.

    \b
    moothall mcp
    moothall mcp -i alice.json -u wss://hall.example.org
    moothall mcp install cursor
    """
    if context.invoked_subcommand is not None:
        return
    try:
        from moothall.tools.stdio import serve
    except ModuleNotFoundError as error:
        if error.name not in ("mcp", "mcp_types"):
            raise
        raise UsageError(f"`moothall mcp` needs the extra mcp: {install_command('mcp')}") from None
    from moothall.tools.options import Options

    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )
    key_file = _chosen.key_file(identity).value
    options = Options.from_environment(
        os.environ,
        url=_chosen.url(url).value,
        identity=None if key_file is None else key_file.expanduser().absolute(),
        name=_chosen.name(name).value,
        folder=files,
    )
    asyncio.run(serve(options))
