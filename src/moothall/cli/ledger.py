"""`moothall ledger`: credits of a hall, which its operator issues and agents of the mesh pay each other."""

import json
import os
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._agent_keys import AGENT_HELP, agent_key
from moothall.cli._amounts import AmountArgument, millionths, shown
from moothall.cli._connecting import AsJson
from moothall.cli._deals import Count
from moothall.cli._exits import FAILED, group
from moothall.cli._options import Config
from moothall.cli._stores import DataDir, StoreUrl, look_into, opened_store, run_unit
from moothall.cli._tables import Right, show_table
from moothall.errors import OutcomeUnknown, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from moothall.market.credit_books import CreditBooks, JournalEntry
    from moothall.market.records import Entry
    from moothall.store.books import StoreBooks

app = group("ledger", "Credits: issue them, take them back, see where they are.")

PAGE: Final = 500  # entries that are read at once

AgentArgument = Annotated[str, typer.Argument(metavar="AGENT", help=AGENT_HELP)]
OptionalAgent = Annotated[str | None, typer.Argument(metavar="AGENT", help=f"{AGENT_HELP} Default: all.")]
Reference = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT",
        help="A name for this operation, such as the number of an invoice. It counts once, however often it runs.",
        show_default=False,
    ),
]


@app.command()
def deposit(
    agent: AgentArgument,
    amount: AmountArgument,
    reference: Reference = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Issue credits to an agent. It may be used while a hall is running.

    \b
    moothall ledger deposit @1f3a9c02 20
    moothall ledger deposit @1f3a9c02 20 --reference invoice-17   # once, also if it is repeated
    """
    from moothall.market.credit_books import deposit as issue

    _move("deposit", issue, agent, amount, reference, (data_dir, store, config), as_json=as_json)


@app.command()
def withdraw(
    agent: AgentArgument,
    amount: AmountArgument,
    reference: Reference = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Take credits back from an agent.

    It may be used while a hall is running. What is in escrows stays there.
    """
    from moothall.market.credit_books import withdraw as take_back

    _move("withdraw", take_back, agent, amount, reference, (data_dir, store, config), as_json=as_json)


@app.command()
def balance(
    agent: OptionalAgent = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Show what an agent can spend, or what all of them hold together."""
    if agent is None:
        totals = look_into(data_dir, store, config, lambda books: books.totals())
        if as_json:
            typer.echo(json.dumps(totals))
            return
        for holder in ("agents", "escrows", "treasury"):
            typer.echo(f"{holder:<9} {shown(totals[holder])}")
        typer.echo(f"{'issued':<9} {shown(-totals['external'])}")
        return

    def look(books: "StoreBooks") -> tuple[bytes, int]:
        from moothall.market.ledger import agent_account

        key = agent_key(books, agent)
        return key, books.balance(agent_account(key))

    key, held = look_into(data_dir, store, config, look)
    typer.echo(json.dumps({"agent_id": key.hex(), "balance": held}) if as_json else shown(held))


@app.command()
def journal(
    agent: OptionalAgent = None,
    limit: Count = 100,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the entries of the ledger, newest first.

    With --json, also the envelopes that authorised them.

    \b
    moothall ledger journal @1f3a9c02
    moothall ledger journal --limit 1000 --json > journal.json
    """

    def look(books: "StoreBooks") -> "tuple[str | None, list[JournalEntry]]":
        from moothall.market.ledger import agent_account

        account = None if agent is None else agent_account(agent_key(books, agent))
        return account, _entries(books, account, limit)

    account, found = look_into(data_dir, store, config, look)
    if as_json:
        typer.echo(json.dumps([_described(each) for each in found]))
        return
    show_table(
        ("time", "operation", "deal", "account", Right("credits")),
        (row for each in found for row in _rows(each.entry, account)),
        empty="there are no entries yet: `moothall ledger deposit` makes one",
    )


@app.command()
def check(data_dir: DataDir = None, store: StoreUrl = None, config: Config = None) -> None:
    """Compare the journal with balances, escrows and envelopes. The exit code is 1 if they do not fit.

    It may be used while a hall is running. `moothall store check` includes it.
    """
    from moothall.store import migrations
    from moothall.store.credit_checks import credit_problems, sum_problems

    found = 0
    with opened_store(data_dir, store, config) as connection:
        migrations.require_current(connection)
        connection.execute(connection.dialect.snapshot)
        for problems in (sum_problems, credit_problems):
            for problem in problems(connection):
                typer.echo(problem)
                found += 1
        connection.execute("ROLLBACK")
    if found:
        raise typer.Exit(FAILED)
    typer.echo("no problems found")


# -- what they share -----------------------------------------------------------------------------------

Place = tuple[Path | None, str | None, Path | None]


def _move(
    operation: str,
    unit: "Callable[..., Entry]",
    agent: str,
    amount: str,
    reference: str | None,
    place: Place,
    *,
    as_json: bool,
) -> None:
    moved, now = millionths(amount), int(time() * 1000)
    name = reference if reference is not None else os.urandom(8).hex()

    def work(books: "StoreBooks") -> "tuple[bytes, Entry, int, bool]":
        from moothall.market.credits import reference_name
        from moothall.market.ledger import agent_account

        key = agent_key(books, agent)
        repeated = books.posted(reference_name(name), operation) is not None
        entry = unit(books, key, moved, name, now=now)
        return key, entry, books.balance(agent_account(key)), repeated

    try:
        key, entry, held, repeated = run_unit(*place, work)
    except OutcomeUnknown as error:
        raise UsageError(f"{error}. Run it again with --reference {name}: it counts once") from error
    if as_json:
        facts = {
            "agent_id": key.hex(),
            "operation": operation,
            "amount": moved,
            "reference": name,
            "at": entry.at,
            "repeated": repeated,
            "balance": held,
        }
        typer.echo(json.dumps(facts))
    elif repeated:
        typer.echo(f"reference {name} was used before, and counts once; the balance is {shown(held)}")
    else:
        did = "deposited" if operation == "deposit" else "withdrew"
        typer.echo(f"{did} {shown(moved)}, reference {name}; the balance is {shown(held)}")


def _entries(books: "CreditBooks", account: str | None, limit: int) -> "list[JournalEntry]":
    found: list[JournalEntry] = []
    while len(found) < limit:
        before = found[-1].entry if found else None
        page = books.journal(account, limit=min(PAGE, limit - len(found)), before=before)
        if not page:
            break
        found += page
    return found


def _described(each: "JournalEntry") -> dict[str, Any]:
    entry, authority = each.entry, each.authority
    facts: dict[str, Any] = {
        "at": entry.at,
        "deal": entry.deal,
        "operation": entry.operation,
        "postings": [{"account": posting.account, "amount": posting.amount} for posting in entry.postings],
    }
    if authority is not None:
        facts["authority"] = {
            "envelope": authority.envelope.hex(),
            "sender": authority.sender.hex(),
            "nonce": authority.nonce,
        }
    return facts


def _rows(entry: "Entry", account: str | None) -> "Iterator[tuple[object, ...]]":
    """One row per posting; of one account, its own."""
    from moothall.identity.certificates import timestamp_text

    for posting in entry.postings:
        if account in (None, posting.account):
            holder = _short(posting.account)
            yield timestamp_text(entry.at), entry.operation, entry.deal, holder, shown(posting.amount)


def _short(account: str) -> str:
    """Accounts of agents as their ids. An escrow is that of the deal in the same row."""
    from moothall.identity import PublicKey

    kind, _, rest = account.partition(":")
    return f"@{PublicKey(bytes.fromhex(rest)).agent_id()}" if kind == "agent" else kind
