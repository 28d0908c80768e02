"""What the child of a runner does that serves the tools with a sealed key (`tool_server.py`)."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moothall.errors import MoothallError, UsageError
from moothall.extras import install_command
from moothall.worker.runner.tool_server import HOST, Serve
from moothall.worker.supervisor.credentials import is_in_container

if TYPE_CHECKING:
    from moothall.tools.options import Options

_SHOWN_PATH: Final = Path("the identity of the agent")  # for errors; there is no file any more


def check() -> None:
    """Raises UsageError if what the server needs is not installed."""
    if find_spec("mcp") is None:
        raise UsageError(
            f"an agent with a sealed key needs the extra mcp: {install_command('mcp')}; or give it no identity file"
        )


def serving(identity: str, variables: Mapping[str, str]) -> Serve:
    """The work of the child. `identity` is the text of a key file; `variables` are for its environment."""

    def serve(listening: socket.socket, bearer: str, lifeline: int, ready: Callable[[], None]) -> None:
        os.environ.update(variables)
        logging.basicConfig(
            stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
        )
        try:
            asyncio.run(_hold(_options(identity), listening, bearer, lifeline, ready))
        except MoothallError as error:
            raise UsageError(str(error)) from None

    return serve


def _options(identity: str) -> "Options":
    from moothall.identity.keyfile import parse
    from moothall.tools.options import Options

    return Options.from_environment(
        os.environ,
        url=os.environ.get("AGENTCHAT_URL"),
        name=os.environ.get("MOOTHALL_NAME"),
        identity=parse(identity.encode(), _SHOWN_PATH),
        folder=Path.cwd() if is_in_container() else None,  # its workspace, however near to the root it is
    )


async def _hold(
    options: "Options", listening: socket.socket, bearer: str, lifeline: int, ready: Callable[[], None]
) -> None:
    from moothall.tools.admission import Admission
    from moothall.tools.http import serve
    from moothall.wire.authority import Authority

    loop = asyncio.get_running_loop()

    def runner_ended() -> None:
        loop.remove_reader(lifeline)
        signal.raise_signal(signal.SIGTERM)

    loop.add_reader(lifeline, runner_ended)
    place = Authority(HOST, listening.getsockname()[1])
    # Without sessions of MCP: a client does not notice that the server was started again between two requests.
    await serve(options, place, Admission(bearer), lambda _: ready(), listening=listening, has_sessions=False)
