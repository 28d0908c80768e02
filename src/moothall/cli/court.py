"""`moothall court`: take a deal to court, judge, and check what was judged."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._addresses import HallCommand
from moothall.cli._connecting import DEFAULT_TIMEOUT, AsJson, Name, Timeout, Url, Visit
from moothall.cli._deals import KeyFile, Limit, ProposalId, signing_key, words
from moothall.cli._exits import FAILED, group
from moothall.cli._proofs import HallOption, Verbose, described, expected_halls
from moothall.cli._proofs import show as show_proof
from moothall.cli._reading import read_json, read_objects
from moothall.cli._tables import names_of, show_table
from moothall.errors import InternalError, Refusal, UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from moothall import Agent
    from moothall.cli._nonces import NonceFile
    from moothall.client.dispute import Dispute

app = group("court", "Take a deal to court, judge as an arbiter, and verify a case.")

EXAMPLE: Final = '[{"kind": "commit", "value": "abc123"}]'

DisputeId = Annotated[
    str, typer.Argument(metavar="DISPUTE", help="As `moothall court list` shows it.", show_default=False)
]
CaseId = Annotated[
    str, typer.Argument(metavar="ID", help="Of the dispute, or of its deal.", show_default=False)
]


# -- as the disputant ----------------------------------------------------------------------------------


@app.command(name="file", cls=HallCommand)
def file_dispute(
    proposal_id: ProposalId,
    reason: Annotated[str, typer.Option("--reason", "-r", metavar="TEXT", help="What went wrong.")],
    no_reveal: Annotated[
        bool, typer.Option("--no-reveal", help="Only commit; `moothall court reveal` goes on.")
    ] = False,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Take a deal to court: three arbiters, drawn by lot, will decide.

    Commits to a secret and reveals it, so that neither you nor the hall can choose the panel. The secret is kept
    beside your key until then: if anything breaks in between, run the same again. Exit code 1 when there
    are too few arbiters; then the deal is as it was.

    \b
    moothall court file prop_m0abcdf2_deadbeef --reason 'nothing was delivered'
    """
    from moothall.cli._nonces import NonceFile

    key = signing_key(identity)
    kept = NonceFile(key, proposal_id)
    visit = Visit(url, name, key, timeout)

    async def commit(agent: "Agent") -> "Dispute":
        said = words([reason]) or ""
        if no_reveal:
            return await _commit(agent, kept, proposal_id, said)
        return await commit_and_reveal(agent, kept, proposal_id, said)

    show_filed(visit.ask(commit), as_json=as_json)


@app.command(cls=HallCommand)
def reveal(
    proposal_id: ProposalId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Draw the panel of a dispute that was only filed.

    For a dispute after `file --no-reveal`, or when something broke in between.

    \b
    moothall court reveal prop_m0abcdf2_deadbeef
    """
    from moothall.cli._nonces import NonceFile

    key = signing_key(identity)
    kept = NonceFile(key, proposal_id)
    nonce = kept.read()
    if nonce is None:
        raise UsageError(
            f"{kept.path} does not exist: `moothall court file` makes it, and forgets it afterwards"
        )
    visit = Visit(url, name, key, timeout)
    dispute = visit.ask(lambda agent: agent.reveal_dispute(proposal_id, nonce))
    kept.forget()
    show_filed(dispute, as_json=as_json)


async def commit_and_reveal(agent: "Agent", kept: "NonceFile", proposal_id: str, reason: str) -> "Dispute":
    """File a dispute. If anything breaks in between, the secret is kept for the next attempt."""
    dispute = await _commit(agent, kept, proposal_id, reason)
    if dispute.phase == "reveal_pending":
        await dispute.reveal()
    kept.forget()
    return dispute


async def _commit(agent: "Agent", kept: "NonceFile", proposal_id: str, reason: str) -> "Dispute":
    """With the secret of an earlier attempt, if there was one."""
    nonce = kept.read()
    if nonce is not None:
        return await agent.file_dispute(proposal_id, reason, nonce=nonce, reveal=False)
    try:
        return await agent.file_dispute(proposal_id, reason, nonce=kept.make(), reveal=False)
    except Refusal as refused:
        if not isinstance(refused, InternalError):
            kept.forget()  # nothing was filed with it
        raise


def show_filed(dispute: "Dispute", *, as_json: bool) -> None:
    from moothall.cli._cases import show as show_dispute

    show_dispute(dispute, as_json=as_json)
    if dispute.phase == "fallback":
        raise typer.Exit(FAILED)


# -- as a party ----------------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def evidence(
    dispute_id: DisputeId,
    items: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="A JSON list of objects; - is standard input."),
    ] = None,
    statement: Annotated[
        str,
        typer.Option("--statement", "-s", metavar="TEXT", help="What happened, in your words. Not signed."),
    ] = "",
    commits: Annotated[
        list[str] | None, typer.Option("--commit", metavar="HASH", help="A commit; may be repeated.")
    ] = None,
    messages: Annotated[
        list[str] | None, typer.Option("--message", metavar="TEXT", help="What was said; may be repeated.")
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="PATH", help="A file's name, size and hash, not its content."),
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show the arbiters what happened: once, and everything in one go.

    Prints each item with its hash. A file holds a list of objects with `kind`, `value`, and perhaps `label`, `url`
    and others; at most ten items.

    \b
    moothall court evidence disp_m0abcdg3_cafef00d --statement 'It never came' --commit abc123 --file build.log
    moothall court evidence disp_m0abcdg3_cafef00d evidence.json
    """
    from moothall.client.evidence import EvidenceItem, evidence_items

    shown: list[Any] = [] if items is None else read_objects(items, "items", EXAMPLE)
    shown += [EvidenceItem.commit(word) for word in commits or ()]
    shown += [EvidenceItem.message(text) for text in messages or ()]
    shown += [EvidenceItem.file(path) for path in files or ()]
    if not shown and not statement:
        raise UsageError("there is nothing to show: give a FILE, --statement, --commit, --message or --file")
    chosen = evidence_items(shown)
    visit = Visit(url, name, signing_key(identity), timeout)
    visit.ask(lambda agent: agent.submit_evidence(dispute_id, chosen, words([statement]) or ""))
    _show_submitted(dispute_id, chosen, as_json=as_json)


def _show_submitted(dispute_id: str, items: list[dict[str, Any]], *, as_json: bool) -> None:
    from moothall.court.evidence import item_hash
    from moothall.tui.cases import item_line

    hashes = [item_hash(item) for item in items]
    if as_json:
        typer.echo(json.dumps({"dispute_id": dispute_id, "hashes": hashes}))
        return
    typer.echo(f"{one_line(dispute_id)}  evidence received, {len(items)} item(s)")
    for item, digest in zip(items, hashes, strict=True):
        typer.echo(f"  {item_line(item, digest)}")


# -- as an arbiter -------------------------------------------------------------------------------------


@app.command(cls=HallCommand)
def accept(
    dispute_id: DisputeId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Judge a dispute that you were drawn for.

    An arbiter that accepts and does not vote loses rating.

    \b
    moothall court accept disp_m0abcdg3_cafef00d
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    visit.ask(lambda agent: agent.accept_case(dispute_id))
    _show_slot(dispute_id, "accepted", as_json=as_json)


@app.command(cls=HallCommand)
def decline(
    dispute_id: DisputeId,
    reason: Annotated[str | None, typer.Option("--reason", "-r", metavar="TEXT", help="Why not.")] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Let another arbiter be drawn in your place.

    \b
    moothall court decline disp_m0abcdg3_cafef00d --reason 'I know them both'
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    visit.ask(lambda agent: agent.decline_case(dispute_id, words([reason]) if reason else None))
    _show_slot(dispute_id, "declined", as_json=as_json)


@app.command(cls=HallCommand)
def vote(
    dispute_id: DisputeId,
    verdict: Annotated[str, typer.Argument(metavar="VERDICT", help="disputant, respondent or mutual.")],
    reasoning: Annotated[
        str, typer.Option("--reasoning", "-r", metavar="TEXT", help="Why. Not signed.")
    ] = "",
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Vote on a case that you accepted.

    For the disputant, for the respondent, or for mutual fault.

    \b
    moothall court show disp_m0abcdg3_cafef00d
    moothall court vote disp_m0abcdg3_cafef00d disputant --reasoning 'there is no such commit'
    """
    from moothall.client.dispute import checked_verdict

    chosen = checked_verdict(verdict)
    visit = Visit(url, name, signing_key(identity), timeout)
    visit.ask(lambda agent: agent.vote(dispute_id, chosen, words([reasoning]) or ""))
    _show_slot(dispute_id, "voted", chosen, as_json=as_json)


def _show_slot(dispute_id: str, slot: str, verdict: str | None = None, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"dispute_id": dispute_id, "slot": slot, "verdict": verdict}))
    else:
        typer.echo(f"{one_line(dispute_id)}  {slot}" + (f"  {verdict}" if verdict else ""))


# -- looking -------------------------------------------------------------------------------------------


@app.command(name="list", cls=HallCommand)
def list_disputes(
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are not decided.")] = False,
    limit: Limit = 100,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """List your disputes, newest first.

    Those in which you are a party or an arbiter.

    \b
    moothall court list --open
    """
    from moothall.cli._cases import HEADERS, cells
    from moothall.cli._cases import described as described_dispute

    async def look(agent: "Agent") -> "tuple[list[Dispute], dict[str, str]]":
        found = await agent.disputes(open_only=open_only, limit=limit)
        parties = (party for dispute in found for party in (dispute.disputant, dispute.respondent))
        return found, {} if as_json else await names_of(agent, parties)

    found, names = Visit(url, name, signing_key(identity), timeout).ask(look)
    if as_json:
        typer.echo(json.dumps([described_dispute(dispute) for dispute in found]))
        return
    show_table(
        HEADERS,
        (cells(dispute, names) for dispute in found),
        empty="you have no open disputes" if open_only else "you have no disputes",
    )


@app.command(cls=HallCommand)
def show(
    case_id: CaseId,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a case that you have a part in.

    The deal, the panel, what was shown and how they voted. While the case is open, you see what you may see.

    \b
    moothall court show disp_m0abcdg3_cafef00d
    moothall court show prop_m0abcdf2_deadbeef --json
    """
    from moothall.client.case_import import read
    from moothall.tui.cases import case_lines

    visit = Visit(url, name, signing_key(identity), timeout)
    case = visit.ask(lambda agent: agent.case_file(case_id))
    if as_json:
        typer.echo(json.dumps(case))
        return
    for shown in case_lines(read(case)):
        typer.echo(shown)


@app.command(cls=HallCommand)
def export(
    case_id: CaseId,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Else standard output.")
    ] = None,
    url: Url = None,
    name: Name = None,
    identity: KeyFile = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Write the file of a case, for others to verify. The hall signs it when the case is closed.

    \b
    moothall court export disp_m0abcdg3_cafef00d -o case.json
    """
    visit = Visit(url, name, signing_key(identity), timeout)
    case = visit.ask(lambda agent: agent.case_file(case_id))
    content = json.dumps(case, indent=2) + "\n"
    if output is None:
        typer.echo(content, nl=False)
        return
    try:
        output.expanduser().write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}") from None
    typer.echo(f"wrote {output}", err=True)


@app.command()
def verify(
    file: Annotated[str, typer.Argument(metavar="CASE.json", help="From `export`; - is standard input.")],
    hall: HallOption = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check the file of a case, without any hall.

    Computes the seed, the panel, the hashes, the signatures, the tally and the settlement again. Says what parties
    and arbiters signed, and what rests on the word of the hall that signed the case. Exit code 1 if something does
    not fit, or if the hall that you expect did not sign it.

    \b
    moothall court verify case.json
    moothall court verify case.json --hall hall.pem -v
    """
    from moothall.court.verify import verify_case

    case = read_json(file)
    halls = expected_halls(hall)
    proof = verify_case(case, halls)
    if as_json:
        typer.echo(json.dumps(described(proof)))
    else:
        show_proof(_id(case), proof, halls, verbose=verbose)
    if not proof.holds:
        raise typer.Exit(FAILED)


def _id(case: object) -> str:
    """What to call it, before anything about it is known."""
    found = case.get("dispute_id") if isinstance(case, dict) else None
    return found if isinstance(found, str) else "?"
