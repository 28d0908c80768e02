"""`moothall admin budget`: what workers spend, and the caps of the operator."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from moothall.cli._addresses import HallCommand, HallGroup
from moothall.cli._admin_calls import AdminCalls, KeyFile, NoTls, done
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Timeout, Url
from moothall.cli._exits import group, tell
from moothall.cli._reading import read_public_key
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError
from moothall.tui.printable import shown_name

if TYPE_CHECKING:
    from moothall.client.admin import Budgets
    from moothall.identity import PublicKey

app = group("budget", None, HallGroup)

WHO: Final = "an agent's id, the name of an agent that is here, or a file that holds its public key"

Who = Annotated[str, typer.Argument(metavar="AGENT", help=f"{WHO.capitalize()}.", show_default=False)]
Tokens = Annotated[
    int,
    typer.Argument(metavar="TOKENS", min=0, max=2**53, help="Tokens of a day, in UTC.", show_default=False),
]


@app.callback(invoke_without_command=True, subcommand_metavar="[COMMAND]")
def budget(
    context: typer.Context,
    day: Annotated[
        str | None,
        typer.Option("--day", metavar="DAY", help="Another day than today, in UTC, such as 2026-03-01."),
    ] = None,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Show what workers have spent today, and their caps. The days of the last month are kept.

    A worker that spends more than its cap, or than is left of the total, is told so and stops.

    \b
    moothall admin budget
    moothall admin budget set @1f3a9c02 2000000
    moothall admin budget total 10000000
    """
    if context.invoked_subcommand is not None:
        if day is not None:
            raise UsageError("--day is for the list: caps are those of all days")
        # What was given before the name of the command is meant for it.
        given = {"key_file": key_file, "url": url, "timeout": timeout, "no_tls": no_tls, "as_json": as_json}
        context.default_map = {context.invoked_subcommand: given}
        return
    found = AdminCalls(url, key_file, timeout, no_tls=no_tls).ask(lambda admin: admin.budgets(day))
    if as_json:
        typer.echo(json.dumps(asdict(found)))
        return
    _show(found)


@app.command("set", cls=HallCommand)
def set_cap(
    agent: Who,
    tokens: Tokens,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Set how many tokens a day the key of an agent may spend.

    \b
    moothall admin budget set @1f3a9c02 2000000
    moothall admin budget set alice.pem 2000000
    """
    target = _target(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    address = calls.ask(lambda admin: admin.set_budget(target, tokens))
    text = f"{address} may spend {tokens:,} tokens a day"
    done(text, as_json=as_json, action="set_budget", agent_id=address, tokens=tokens)


@app.command(cls=HallCommand)
def total(
    tokens: Tokens,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Set how many tokens a day all workers together may spend.

    \b
    moothall admin budget total 10000000
    """
    AdminCalls(url, key_file, timeout, no_tls=no_tls).ask(lambda admin: admin.set_budget(None, tokens))
    text = f"all workers together may spend {tokens:,} tokens a day"
    done(text, as_json=as_json, action="set_budget", agent_id=None, tokens=tokens)


@app.command(cls=HallCommand)
def clear(
    agent: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help=f"{WHO.capitalize()}.", show_default=False)
    ] = None,
    is_total: Annotated[bool, typer.Option("--total", help="The cap for all together.")] = False,
    key_file: KeyFile = None,
    url: Url = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    no_tls: NoTls = False,
    as_json: AsJson = False,
) -> None:
    """Take a cap away.

    \b
    moothall admin budget clear @1f3a9c02
    moothall admin budget clear --total
    """
    if (agent is None) != is_total:
        raise UsageError("give either an agent or --total")
    target = None if agent is None else _target(agent)
    calls = AdminCalls(url, key_file, timeout, no_tls=no_tls)
    address = calls.ask(
        lambda admin: admin.set_budget(target, None), "`moothall admin budget` lists the caps"
    )
    text = "there is no total cap any more" if is_total else f"{address} has no cap any more"
    done(text, as_json=as_json, action="set_budget", agent_id=address, tokens=None)


def _target(word: str) -> "PublicKey | str":
    return read_public_key(word) if Path(word).is_file() else word


def _show(found: "Budgets") -> None:
    rows = [
        (each.agent_id, shown_name(each.name or ""), *_numbers(each.spent, each.cap)) for each in found.keys
    ]
    rows.append(("total", "", *_numbers(found.spent, found.cap)))
    headers = ("agent", "name", Right("spent"), Right("cap"), Right("left"))
    show_table(headers, rows, empty="")
    hidden = found.total - sum(each.spent > 0 for each in found.keys)
    if hidden > 0:
        tell(f"{hidden} more keys have spent less on {found.day}")


def _numbers(spent: int, cap: int | None) -> tuple[str, str | None, str | None]:
    if cap is None:
        return f"{spent:,}", None, None
    return f"{spent:,}", f"{cap:,}", f"{max(0, cap - spent):,}"
