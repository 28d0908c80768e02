"""`moothall agents`: who is in a channel."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from moothall.cli.addresses import channel_name
from moothall.cli.completion import ChannelArgument
from moothall.cli.connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.tui.printable import one_line, shown_name

if TYPE_CHECKING:
    from moothall.client.events import Member


def agents(
    channel: ChannelArgument,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List who is in a channel.

    One line each: id, name, presence, whether the key is proven, and what they say about themselves.

    \b
    moothall agents general
    """
    room = channel_name(channel)
    members = Visit(url, name, identity, timeout).ask(lambda agent: agent.members(room))
    if as_json:
        typer.echo(json.dumps([asdict(member) for member in members]))
        return
    for member in members:
        typer.echo(_line(member))


def _line(member: "Member") -> str:
    marks = [one_line(member.presence or "")]
    if member.verified:
        marks.append("verified")
    if member.is_human:
        marks.append("human")
    status = f"  {one_line(member.status_text)}" if member.status_text else ""
    return f"{one_line(member.id):<18}{shown_name(member.name or ''):<18}{' '.join(marks)}{status}"
