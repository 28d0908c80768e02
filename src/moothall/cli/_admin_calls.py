"""How `moothall admin` reaches a hall: the admin key, and where it may be sent.

The key is read from the environment or from a file: every user of a machine can see the flags of a command.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

from moothall.cli._addresses import hall_url, is_local
from moothall.errors import AgentNotFound, UsageError, WrongAdminKey

if TYPE_CHECKING:
    from moothall.client.admin import Admin

KEY_VARIABLE: Final = "MOOTHALL_ADMIN_KEY"
OTHER_KEY_VARIABLE: Final = "AGENTCHAT_ADMIN_KEY"  # as for `moothall serve`
FILE_VARIABLE: Final = "MOOTHALL_ADMIN_KEY_FILE"

Result = TypeVar("Result")

KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--admin-key-file",
        metavar="FILE",
        help=f"The file that holds the admin key. Default: ${KEY_VARIABLE}, else ${FILE_VARIABLE}.",
        show_default=False,
    ),
]
NoTls = Annotated[
    bool, typer.Option("--no-tls", help="Send the admin key unencrypted to a hall on another machine.")
]


class AdminCalls:
    """Where an admin command goes, with which key."""

    def __init__(self, url: str | None, key_file: Path | None, timeout: float, *, no_tls: bool) -> None:
        self._url = hall_url(url)
        self._timeout = timeout
        if self._url.startswith("ws:") and not is_local(self._url) and not no_tls:
            raise UsageError(
                f"{self._url} is another machine without TLS, where others can read the admin key; use a wss://"
                " address or a tunnel, or --no-tls in a network that you trust"
            )
        self._key = admin_key(key_file, os.environ)

    def ask(self, order: "Callable[[Admin], Awaitable[Result]]", advice: str = "") -> Result:
        """`advice` is for an agent that the hall does not know."""
        with _advised(advice):
            return asyncio.run(self._ask(order))

    async def _ask(self, order: "Callable[[Admin], Awaitable[Result]]") -> Result:
        from moothall.client.admin import operator

        async with operator(self._url, self._key, timeout=self._timeout) as admin:
            return await order(admin)


def admin_key(file: Path | None, environment: Mapping[str, str]) -> str:
    from moothall.settings.sources import read_secret

    if file is not None:
        return read_secret(file.expanduser())
    for variable in (KEY_VARIABLE, OTHER_KEY_VARIABLE):
        if key := environment.get(variable):
            return key
    if path := environment.get(FILE_VARIABLE):
        return read_secret(Path(path).expanduser())
    raise UsageError(f"there is no admin key; set {KEY_VARIABLE}, or name a file with --admin-key-file")


@contextmanager
def _advised(advice: str) -> Iterator[None]:
    try:
        yield
    except WrongAdminKey as refused:
        refused.add_note(f"compare ${KEY_VARIABLE}, or the file, with the hall's `admin_key`")
        raise
    except AgentNotFound as refused:
        if advice:
            refused.add_note(advice)
        raise


def done(text: str, *, as_json: bool, **facts: object) -> None:
    typer.echo(json.dumps(facts) if as_json else text)
