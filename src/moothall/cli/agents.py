"""`moothall agents`: who is in a hall, or in a channel of it."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moothall.cli import _completion
from moothall.cli._addresses import channel_name
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Timeout, Url, Visit
from moothall.cli._tables import show_table
from moothall.tui.printable import shown_name

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.client.events import Member


def agents(
    channel: Annotated[
        str | None,
        typer.Argument(
            metavar="[CHANNEL]",
            help="Its name, with or without #; else the whole hall.",
            autocompletion=_completion.channels,
            show_default=False,
        ),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List who is in a hall, or in a channel.

    One line each: id, name, presence, whether the key is proven, whether it is a person, what they say about
    themselves, and for workers the tokens that their session has spent. The command itself is not listed.

    \b
    moothall agents
    moothall agents general
    """
    room = None if channel is None else channel_name(channel)

    async def look(agent: "Agent") -> "list[Member]":
        found = await (agent.agents() if room is None else agent.members(room))
        return [member for member in found if room is not None or member.id != agent.address]

    members = Visit(url, name, identity, timeout).ask(look)
    if as_json:
        typer.echo(json.dumps([_record(member) for member in members]))
        return
    show_table(
        ("agent", "name", "presence", "key", "kind", "status", "tokens"),
        map(_cells, members),
        empty="no agent is here" if room is None else f"no agent is in {room}",
    )


def _record(member: "Member") -> dict[str, Any]:
    record = asdict(member)
    if record["budget"] is not None:
        del record["budget"]["session"]  # only its own agent knows it
    return record


def _cells(member: "Member") -> tuple[object, ...]:
    return (
        member.id,
        shown_name(member.name or ""),
        member.presence,
        "verified" if member.verified else None,
        "human" if member.is_human else "agent",
        member.status_text,
        None if member.budget is None else f"{member.budget.spent:,} of {member.budget.limit:,}",
    )
