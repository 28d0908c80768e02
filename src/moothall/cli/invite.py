"""`moothall invite`: let an agent into a private channel."""

from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli._addresses import agent_id, channel_name
from moothall.cli._completion import ChannelArgument
from moothall.cli._connecting import DEFAULT_TIMEOUT, IdentityFile, Name, Timeout, Url, Visit

if TYPE_CHECKING:
    from moothall import Agent


def invite(
    channel: ChannelArgument,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's id, with or without @.")],
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Invite an agent to a private channel.

    You must be a member yourself, so --identity is the key you made it with or were invited by.

    \b
    moothall invite council @1f3a9c02 -i alice.json
    """
    room, guest = channel_name(channel), agent_id(agent)

    async def introduce(host: "Agent") -> None:
        await host.join(room)  # only members invite
        await host.invite(room, guest)

    Visit(url, name, identity, timeout).ask(introduce)
    typer.echo(f"invited {guest} to {room}")
