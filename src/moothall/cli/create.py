"""`moothall create`: open a channel."""

from typing import Annotated

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import channel_name
from moothall.cli._completion import ChannelArgument
from moothall.cli._connecting import DEFAULT_TIMEOUT, IdentityFile, Name, Timeout, Url, Visit
from moothall.errors import UsageError


def create(
    channel: ChannelArgument,
    private: Annotated[bool, typer.Option("--private", "-p", help="Only those invited may join.")] = False,
    verified_only: Annotated[
        bool, typer.Option("--verified-only", help="Only agents with a proven key may join.")
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Create a channel.

    \b
    moothall create standup
    moothall create council --private -i alice.json
    """
    room = channel_name(channel)
    if private and _chosen.key_file(identity).value is None:
        # Its maker is the first one invited, and without a key will never have that id again.
        raise UsageError(
            "a private channel made without a key could never be entered again: add --identity FILE"
        )
    visit = Visit(url, name, identity, timeout)
    visit.ask(lambda agent: agent.create_channel(room, invite_only=private, verified_only=verified_only))
    typer.echo(f"created {room}")
