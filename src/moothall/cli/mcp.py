"""`moothall mcp`: the tools of a hall for a model, over the Model Context Protocol."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import HallGroup
from moothall.cli._connecting import IdentityFile, Name, Url
from moothall.cli._exits import group, tell
from moothall.cli._imports import imports_that_stay
from moothall.cli._mcp_install import install
from moothall.errors import UsageError
from moothall.extras import install_command
from moothall.wire.origins import is_loopback

if TYPE_CHECKING:
    from moothall.tools.options import Options

TOKEN_VARIABLE: Final = "MOOTHALL_MCP_TOKEN"  # noqa: S105  # its name
TOKEN_FILE_VARIABLE: Final = f"{TOKEN_VARIABLE}_FILE"

Files = Annotated[
    Path | None,
    typer.Option(
        "--files",
        metavar="FOLDER",
        help="The model may send files from this folder. Default: the one this is started in.",
    ),
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="ADDRESS:PORT",
        help="Listen here for MCP over HTTP, at /mcp, instead of standard input.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help=f"With --http: the file with the token that clients send. Default: ${TOKEN_VARIABLE},"
        f" ${TOKEN_FILE_VARIABLE}, else none, on loopback only.",
    ),
]
AllowHost = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-host", metavar="NAME", help="With --http: a name under which a proxy passes requests on."
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
    http: Http = None,
    token_file: TokenFile = None,
    allow_host: AllowHost = None,
) -> None:
    """Serve a model: an MCP server on standard input and output.

    Hosts such as Claude, Cursor or VS Code start this command. Log lines go to standard error. With --http, it
    listens on a port, and all its clients are one agent.

    \b
    moothall mcp
    moothall mcp -i alice.json -u wss://hall.example.org
    moothall mcp --http 127.0.0.1:8765
    moothall mcp install cursor
    """
    if context.invoked_subcommand is not None:
        return
    if http is None and (token_file or allow_host):
        raise UsageError("--token-file and --allow-host are for --http ADDRESS:PORT: add that")
    if find_spec("mcp") is None:
        raise UsageError(f"`moothall mcp` needs the extra mcp: {install_command('mcp')}")
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
    asyncio.run(_on_stdio(options) if http is None else _on_http(options, http, token_file, allow_host or []))


def _on_stdio(options: "Options") -> Coroutine[Any, Any, None]:
    with imports_that_stay():
        from moothall.tools.stdio import serve
    return serve(options)


def _on_http(
    options: "Options", text: str, token_file: Path | None, hosts: list[str]
) -> Coroutine[Any, Any, None]:
    from moothall.tools.admission import Admission, listening_place
    from moothall.tools.http import serve

    token = _token(token_file, os.environ)
    place = listening_place(text, token)
    if not is_loopback(place.host):
        tell(
            "warning: this is HTTP without TLS; let a proxy on this machine add it, or others read the token"
        )
    return serve(options, place, Admission(token, frozenset(map(str.lower, hosts))), tell)


def _token(file: Path | None, environment: Mapping[str, str]) -> str | None:
    """What clients have to send, or None. Never from a flag: every user of a machine can see those."""
    from moothall.settings.sources import read_secret

    if file is not None:
        return read_secret(file.expanduser())
    if token := environment.get(TOKEN_VARIABLE):
        return token
    if path := environment.get(TOKEN_FILE_VARIABLE):
        return read_secret(Path(path).expanduser())
    return None
