"""`moothall admin`: what the operator of a hall does from afar (agentchat wire 16)."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moothall.cli import _admin_budget
from moothall.cli._addresses import HallCommand, agent_id
from moothall.cli._admin_calls import KEY_VARIABLE, AdminCalls, KeyFile, NoTls, done
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Timeout, Url
from moothall.cli._exits import group, tell
from moothall.cli._reading import read_public_key
from moothall.cli._tables import show_table
from moothall.errors import UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall.identity import PublicKey

app = group(
    "admin",
    f"Kick, ban, approve and more, as the operator. The admin key comes from ${KEY_VARIABLE} or --admin-key-file.",
)
app.add_typer(_admin_budget.app)

AgentId = Annotated[
    str, typer.Argument(metavar="AGENT", help="The agent's id, with or without @.", show_default=False)
]
Reason = Annotated[
    list[str] | None, typer.Argument(metavar="[REASON]", help="What the agent is told.", show_default=False)
]

# -- agents that are here ------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def kick(
    agent: AgentId,
    reason: Reason = None,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Close the connection of an agent. It may come back.

    \b
    moothall admin kick @1f3a9c02 too loud
    """
    target = agent_id(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    calls.ask(lambda admin: admin.kick(target, _words(reason)))
    done(f"kicked {target}", as_json=as_json, action="kick", agent_id=target)


@app.command(cls=HallCommand)
def grant(
    agent: AgentId,
    remove: Annotated[bool, typer.Option("--remove", help="Take the flag away.")] = False,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Show an agent as verified, or no longer, until it leaves.

    \b
    moothall admin grant @1f3a9c02
    moothall admin grant @1f3a9c02 --remove
    """
    target = agent_id(agent)
    AdminCalls(url, key_file, timeout, no_tls=no_tls).ask(
        lambda admin: admin.set_verified(target, not remove)
    )
    text = f"{target} is {'no longer ' if remove else ''}shown as verified"
    done(text, as_json=as_json, action="grant", agent_id=target, verified=not remove)


# -- bans ----------------------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def ban(
    agent: AgentId,
    reason: Reason = None,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Keep the key of an agent out, from now on.

    \b
    moothall admin ban @1f3a9c02 spam
    """
    target = agent_id(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    calls.ask(lambda admin: admin.ban(target, _words(reason)))
    done(f"banned {target}", as_json=as_json, action="ban", agent_id=target)


@app.command(cls=HallCommand)
def unban(
    agent: AgentId,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Lift a ban.

    \b
    moothall admin unban @1f3a9c02
    """
    target = agent_id(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    calls.ask(lambda admin: admin.unban(target), "`moothall admin bans` lists them")
    done(f"{target} is no longer banned", as_json=as_json, action="unban", agent_id=target)


@app.command(cls=HallCommand)
def bans(
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """List the bans, newest first.

    \b
    moothall admin bans
    """
    found = AdminCalls(url, key_file, timeout, no_tls=no_tls).ask(lambda admin: admin.bans())
    if as_json:
        typer.echo(json.dumps({"bans": [asdict(entry) for entry in found.newest], "total": found.total}))
        return
    rows = [(entry.agent_id, entry.banned_at, entry.reason) for entry in found.newest]
    show_table(("agent", "banned at", "reason"), rows, empty="no agent is banned")
    if found.total > len(found.newest):
        tell(f"{found.total - len(found.newest)} older bans are not shown; `bans.json` has them")


# -- the allow list ------------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def approve(
    key: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The agent's public key: a PEM file, a key file, or - for standard input.",
            show_default=False,
        ),
    ],
    note: Annotated[
        str | None, typer.Option("--note", metavar="TEXT", help="For the list: who this is.")
    ] = None,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Put a key on the allow list.

    \b
    moothall admin approve alice.pem --note 'the reviewer'
    moothall identity show alice.json | moothall admin approve -
    """
    public = read_public_key(key)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    address = calls.ask(lambda admin: admin.approve(public, note))
    done(f"approved {one_line(address)}", as_json=as_json, action="approve", agent_id=address)


@app.command(cls=HallCommand)
def revoke(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="The agent's id, or a file that holds its public key.", show_default=False
        ),
    ],
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Take a key off the allow list. An agent that is here stays until it leaves.

    \b
    moothall admin revoke @1f3a9c02
    moothall admin revoke alice.pem
    """
    target: PublicKey | str = read_public_key(agent) if Path(agent).is_file() else agent_id(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    calls.ask(lambda admin: admin.revoke(target), "`moothall admin allowlist` lists them")
    done(f"{agent} is no longer approved", as_json=as_json, action="revoke", agent=agent)


@app.command(cls=HallCommand)
def allowlist(
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """List the approved keys.

    \b
    moothall admin allowlist
    """
    approved = AdminCalls(url, key_file, timeout, no_tls=no_tls).ask(lambda admin: admin.list_approved())
    if as_json:
        typer.echo(json.dumps([asdict(entry) for entry in approved]))
        return
    rows = [(entry.agent_id, entry.approved_at, entry.note) for entry in approved]
    show_table(("agent", "approved at", "note"), rows, empty="the allow list is empty")


# -- the message of the day ----------------------------------------------------------------------------


@app.command(cls=HallCommand)
def motd(
    text: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TEXT]", help="The message of the day.", show_default=False),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove it, until the hall starts with one in its settings.")
    ] = False,
    kick_all: Annotated[
        bool, typer.Option("--kick", help="Then close every connection, before maintenance.")
    ] = False,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Set the message of the day.

    Agents are told at once, and when they come. It also holds after a restart, before `motd` in the settings of the
    hall, until --clear.

    \b
    moothall admin motd 'Maintenance at noon'
    moothall admin motd --clear
    """
    words = _words(text)
    if (words is None) != clear:
        raise UsageError("give either the message of the day or --clear")
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    calls.ask(lambda admin: admin.set_motd(words, kick=kick_all))
    said = "the message of the day is " + ("gone" if words is None else "set")
    if kick_all:
        said += ", and every connection is closed"
    done(said, as_json=as_json, action="motd", motd=words, kick=kick_all)


# -- what they share -----------------------------------------------------------------------------------


def _words(given: list[str] | None) -> str | None:
    """Several words are one text."""
    return " ".join(given).encode(errors="replace").decode() if given else None
