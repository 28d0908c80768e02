"""What commands that talk to a hall share: the flags that say where and as whom, and the visit itself."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypedDict, TypeVar, Unpack

import typer

from moothall.cli._addresses import hall_url
from moothall.cli._imports import imports_that_stay
from moothall.wire.authority import DEFAULT_URL, URL_VARIABLES

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.client.backoff import Backoff

Answer = TypeVar("Answer")

DEFAULT_TIMEOUT: Final = 10.0
LONGEST_WAIT: Final = 86_400  # seconds; operating systems do not wait for ever either

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        "-u",
        metavar="URL",
        help=f"The hall; may also come first. Default: {', '.join(f'${name}' for name in URL_VARIABLES)}, "
        f"the context in use, else {DEFAULT_URL}.",
        show_default=False,
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        "-n",
        metavar="NAME",
        help="The name to appear under. Default: $MOOTHALL_NAME, else that of the key file.",
    ),
]
IdentityFile = Annotated[
    Path | None,
    typer.Option(
        "--identity",
        "-i",
        metavar="FILE",
        help="The key file to prove who you are. Default: $MOOTHALL_IDENTITY, that of the context in use, "
        "else none.",
    ),
]


def seconds(value: float | None) -> float | None:
    if value is not None and not 0 < value <= LONGEST_WAIT:  # not a number is not either
        raise typer.BadParameter(f"{value:g} is not between 0 and {LONGEST_WAIT} seconds")
    return value


Timeout = Annotated[
    float,
    typer.Option(
        "--timeout", metavar="SECONDS", callback=seconds, help="How long to wait for the hall, each time."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON for programs.")]


class AgentOptions(TypedDict, total=False):
    """What a command may want otherwise than `Agent` has it."""

    human: bool
    reconnect: bool
    backoff: "Backoff"


@dataclass(frozen=True, slots=True)
class Visit:
    """Where a command goes, as whom, and how long it waits for anything there."""

    url: str | None = None
    name: str | None = None
    identity: Path | None = None
    timeout: float = DEFAULT_TIMEOUT

    def agent(self, **options: Unpack["AgentOptions"]) -> "Agent":
        with imports_that_stay():
            from moothall import Agent
            from moothall.cli import _chosen
            from moothall.identity import keyfile

        # The agent logs what it lives through; a person is told by the command, in its own words.
        logging.getLogger("moothall.agent").addHandler(logging.NullHandler())
        path = _chosen.key_file(self.identity).value
        identity = keyfile.load(path.expanduser()) if path else None
        name = _chosen.name(self.name)
        with _chosen.blamed(name.origin):
            return Agent(name.value, identity=identity, timeout=self.timeout, **options)

    def ask(self, question: "Callable[[Agent], Awaitable[Answer]]") -> Answer:
        """Connect, ask, take the answer and leave."""
        return asyncio.run(self._ask(question))

    async def _ask(self, question: "Callable[[Agent], Awaitable[Answer]]") -> Answer:
        async with self.agent(reconnect=False).connected(hall_url(self.url)) as agent:
            return await question(agent)
