"""`moothall file`: send files to an agent, and receive them."""

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from moothall.cli._addresses import HallCommand, hall_url
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, IdentityFile, Name, Url, Visit, seconds
from moothall.cli._exits import FAILED, group, tell
from moothall.cli._progress import ProgressLine
from moothall.cli._tables import Right, show_table
from moothall.errors import TransferTimeout, UsageError
from moothall.files.sending import OFFER_EXPIRY
from moothall.files.slurp import human_size
from moothall.tui.printable import one_line, shown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from moothall import FileOffer, FileTransfer, ReceivedFiles

SHOWN_NAMES: Final = 3  # of the files of an offer, in a table
WAIT_FOR_OFFERS: Final = 60.0  # seconds

app = group("file", "Send files to an agent, and receive them.")


@app.command(cls=HallCommand)
def send(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="An agent, as @id or @name.")],
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", callback=seconds, help="How long to wait for an answer."
        ),
    ] = OFFER_EXPIRY,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    as_json: AsJson = False,
) -> None:
    """Offer files to an agent, and send them when it accepts.

    At most 50 MB at once. Folders go with everything in them, except for links. With --identity, the transfer goes
    on after a lost connection. No answer in time is exit code 6, a transfer that fails is 1.

    \b
    moothall file send @1f3a9c02 report.pdf
    moothall file send @reviewer src docs --timeout 60
    """
    for given in paths:
        if not given.exists():
            raise UsageError(f"there is no file or folder {str(given)!r}: check the path")
    visit = Visit(url, name, identity, min(timeout, DEFAULT_TIMEOUT))
    sent, took = asyncio.run(_send(visit, target, paths, timeout))
    for path in sent.skipped:
        tell(f"not sent, because it is not a file: {one_line(path)}")
    if as_json:
        files = [{"name": file.name, "size": file.size} for file in sent.files]
        typer.echo(json.dumps({"transfer_id": sent.transfer_id, "to": sent.to, "files": files}))
    else:
        typer.echo(f"sent {_count(len(sent.files))} ({human_size(sent.size)}) to {sent.to} in {took:.0f} s")


async def _send(
    visit: Visit, target: str, paths: list[Path], patience: float
) -> "tuple[FileTransfer, float]":
    async with visit.agent().connected(hall_url(visit.url)) as agent:
        with ProgressLine() as line:
            sent = await agent.offer_files(target, paths, progress=line.show, timeout=patience)
            tell(
                f"offered {_count(len(sent.files))} ({human_size(sent.size)}) to {sent.to} as {agent.address}, "
                f"transfer {sent.transfer_id}"
            )
            try:
                await sent.outcome()
            except asyncio.CancelledError:
                await sent.cancel()
                raise
            return sent, sent.progress.seconds


@app.command(cls=HallCommand)
def receive(
    transfer_id: Annotated[
        str | None,
        typer.Argument(metavar="[TRANSFER_ID]", help="The offer to take; without it, the first that comes."),
    ] = None,
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="Where the files go; made if it is not there.")
    ] = Path(),
    sender: Annotated[
        str | None, typer.Option("--from", metavar="AGENT", help="Take files of this @id only.")
    ] = None,
    executable: Annotated[
        list[str] | None,
        typer.Option("--executable", metavar="NAME", help="Make this file executable (may be repeated)."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            callback=seconds,
            help="How long to wait for an offer.",
            show_default="no end",
        ),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    as_json: AsJson = False,
) -> None:
    """Wait for an offer, and save its files.

    The paths of the saved files go to standard output. Nothing is replaced: a file whose name is taken gets a
    number. A part of the archive that cannot be a safe file is skipped and reported, and the exit code is 1. No
    offer in time is exit code 6.

    \b
    moothall file receive --into inbox -i alice.json
    moothall file receive --from @1f3a9c02 --timeout 60
    """
    if into.exists() and not into.is_dir():
        raise UsageError(f"{str(into)!r} is not a folder: choose another one with --into")
    visit = Visit(url, name, identity, DEFAULT_TIMEOUT)
    received = asyncio.run(_receive(visit, _Wanted(transfer_id, sender), into, executable or [], timeout))
    _show_received(received, as_json=as_json)
    if received.skipped:
        raise typer.Exit(FAILED)


class _Wanted(NamedTuple):
    transfer_id: str | None
    sender: str | None

    def fits(self, offer: "FileOffer") -> bool:
        is_sender = self.sender in (None, offer.sender, offer.sender.removeprefix("@"))
        return is_sender and self.transfer_id in (None, offer.transfer_id)


async def _receive(
    visit: Visit, wanted: _Wanted, folder: Path, executable: list[str], patience: float | None
) -> "ReceivedFiles":
    agent = visit.agent()
    chosen: asyncio.Future[FileOffer] = asyncio.get_running_loop().create_future()

    @agent.on_file_offer
    async def choose(offer: "FileOffer") -> None:
        if wanted.fits(offer) and not chosen.done():
            chosen.set_result(offer)

    async with agent.connected(hall_url(visit.url)):
        tell(f"waiting for files as {agent.address} ({shown_name(agent.name)})")
        try:
            async with asyncio.timeout(patience):
                offer = await chosen
        except TimeoutError:
            raise TransferTimeout(f"no files were offered within {patience:g} s") from None
        tell(f"receiving {_described(offer)}")
        with ProgressLine() as line:
            return await offer.accept(folder, executable=executable, progress=line.show)


def _show_received(received: "ReceivedFiles", *, as_json: bool) -> None:
    if as_json:
        found = {
            "folder": str(received.folder),
            "files": [{"name": f.name, "path": str(f.path), "size": f.size} for f in received.files],
            "skipped": [{"name": each.name, "reason": each.reason} for each in received.skipped],
            "more_skipped": received.more_skipped,
        }
        typer.echo(json.dumps(found))
        return
    for file in received.files:
        typer.echo(one_line(str(file.path)))
        if file.path != received.folder / file.name:
            tell(f"{one_line(file.name)} was there already, and is kept")
    for each in received.skipped:
        tell(f"skipped {one_line(each.name)[:80]!r}: {each.reason}")
    if received.more_skipped:
        tell(f"skipped {received.more_skipped:,} more")


@app.command(cls=HallCommand)
def offers(
    daemon: Annotated[
        str | None,
        typer.Option("--daemon", metavar="INSTANCE", help="Read the inbox of this daemon, and do not wait."),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", callback=seconds, help="How long to wait.")
    ] = WAIT_FOR_OFFERS,
    url: Url = None,
    name: Name = None,
    identity: IdentityFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what files other agents offer.

    Waits for the first offer and shows it; it stays open for 30 minutes, but only `file receive`, or a program
    that is connected when it comes, can take it. With --daemon, shows the offers of the last 30 minutes that the
    daemon heard. No offer in time is exit code 6.

    \b
    moothall file offers -i alice.json --timeout 300
    moothall file offers --daemon default
    """
    if daemon is not None and (url or name or identity):
        raise UsageError("--daemon reads a file, and needs no hall: leave out --url, --name and --identity")
    if daemon is not None:
        found = _from_daemon(daemon)
    else:
        found = [_row(offer) for offer in asyncio.run(_wait_for_offers(Visit(url, name, identity), timeout))]
    if as_json:
        typer.echo(json.dumps(found))
        return
    show_table(
        ("transfer", "agent", "name", Right("files"), Right("size"), Right("age"), "names"),
        map(_cells, found),
        empty="no files were offered within the last 30 minutes",
    )


async def _wait_for_offers(visit: Visit, patience: float) -> "list[FileOffer]":
    agent = visit.agent()
    first = agent.wait_for("file_offer", timeout=patience)
    async with agent.connected(hall_url(visit.url)):
        tell(f"waiting for offers as {agent.address} ({shown_name(agent.name)})")
        try:
            await first
        except TimeoutError:
            raise TransferTimeout(f"no files were offered within {patience:g} s") from None
        return agent.file_offers()


def _from_daemon(instance: str) -> list[dict[str, Any]]:
    """The offers that a daemon heard, without those that were taken back."""
    from moothall.daemon.folder import Folder
    from moothall.daemon.inbox import DEFAULT_LIMIT, SCANNED, Inbox

    now = time.time()
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for record in Inbox(Folder.of(instance)).tail(DEFAULT_LIMIT, max_characters=SCANNED).records:
        _note(record.fields, now, found)
    return list(found.values())


def _note(fields: "Mapping[str, Any]", now: float, found: dict[tuple[str, str], dict[str, Any]]) -> None:
    from moothall.files import control
    from moothall.files.offers import objection

    content, sender, ts = fields.get("content"), fields.get("from"), fields.get("ts")
    if not (isinstance(content, str) and isinstance(sender, str) and isinstance(ts, int | float)):
        return
    message = control.decode(content)
    age = now - ts / 1000
    if isinstance(message, control.Cancel):
        found.pop((sender, message.tid), None)
    elif isinstance(message, control.Offer) and age < OFFER_EXPIRY and objection(message) is None:
        kept = control.trimmed(message)
        found[sender, kept.tid] = {
            "transfer_id": kept.tid,
            "from": sender,
            "from_name": fields.get("from_name"),
            "files": [{"name": file.name, "size": file.size} for file in kept.files],
            "more_files": kept.more,
            "total_size": kept.total_size,
            "chunks": kept.chunks,
            "age_seconds": round(age),
        }


def _row(offer: "FileOffer") -> dict[str, Any]:
    return {
        "transfer_id": offer.transfer_id,
        "from": offer.sender,
        "from_name": offer.sender_name,
        "files": [{"name": file.name, "size": file.size} for file in offer.files],
        "more_files": offer.more_files,
        "total_size": offer.size,
        "chunks": offer.chunks,
        "age_seconds": round(offer.age),
    }


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    names = [file["name"] for file in row["files"]]
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES or row["more_files"] else "")
    count = len(names) + row["more_files"]
    age = f"{row['age_seconds']} s"
    return (
        row["transfer_id"],
        row["from"],
        shown_name(row["from_name"] or ""),
        count,
        human_size(row["total_size"]),
        age,
        shown,
    )


def _described(offer: "FileOffer") -> str:
    count = _count(len(offer.files) + offer.more_files)
    mark = "✓" if offer.verified else ""
    sender = f"{shown_name(offer.sender_name)}{mark} ({one_line(offer.sender)})"
    return f"{count} ({human_size(offer.size)}) from {sender}, transfer {offer.transfer_id}"


def _count(files: int) -> str:
    return "1 file" if files == 1 else f"{files:,} files"
