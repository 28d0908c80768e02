"""`moothall mesh log|prove|verify`: the log of the mesh, and proofs from it."""

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._connecting import AsJson
from moothall.cli._exits import FAILED
from moothall.cli._options import Config, choose
from moothall.cli._proofs import HallOption, Verbose, described, expected_halls, show
from moothall.cli._reading import MAX_JSON, read_content
from moothall.cli._stores import DataDir, StoreUrl, opened_store
from moothall.cli._tables import Right, show_table
from moothall.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from moothall.store.dialect import Connection

FEWEST_DIGITS: Final = 8  # of the hash of an envelope

Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="File to write; else standard output."),
]


def log(
    epoch: Annotated[
        int | None,
        typer.Argument(metavar="EPOCH", min=0, help="By default, list the epochs.", show_default=False),
    ] = None,
    output: Annotated[
        str | None,  # a path would forget the slash at its end
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, or a folder for a file with the usual name; else standard output.",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """List the epochs of the log, or write one out.

    An epoch is a day, in UTC. Its file has each envelope after its length in four bytes, as other nodes of the mesh
    write it. A hall signs the root of an epoch when the epoch has ended. It may be used while a hall is running.

    \b
    moothall mesh log
    moothall mesh log 20773 -o logs/
    """
    from moothall.store import reading_mesh_log as reading
    from moothall.store.migrations import require_current

    with opened_store(data_dir, store, config) as connection:
        require_current(connection)
        with reading.one_moment(connection):
            if epoch is None:
                _show_epochs(list(_epochs(connection)), as_json=as_json)
            else:
                _write_epoch(connection, epoch, output)


def _epochs(connection: "Connection") -> "Iterator[dict[str, Any]]":
    from moothall.store import reading_mesh_log as reading

    for closed in reading.closed_epochs(connection):
        yield _row(closed.epoch, closed.envelopes, closed.root.hex())
    for epoch, envelopes in reading.open_epochs(connection):
        yield _row(epoch, envelopes, None)


def _row(epoch: int, envelopes: int, root: str | None) -> dict[str, Any]:
    return {"epoch": epoch, "day": day_of(epoch), "envelopes": envelopes, "root": root}


def day_of(epoch: int) -> str:
    try:
        return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=epoch):%Y-%m-%d}"
    except OverflowError:
        raise UsageError(f"there is no epoch {epoch}: an epoch is the number of a day since 1970") from None


def epoch_now() -> int:
    from moothall.wire.mesh.epochs import epoch_of

    return epoch_of(int(time()))


def _show_epochs(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
        return
    show_table(
        (Right("epoch"), "day", Right("envelopes"), "root"),
        ((row["epoch"], row["day"], row["envelopes"], row["root"] or "(has not ended)") for row in rows),
        empty="the log is empty",
    )


def _write_epoch(connection: "Connection", epoch: int, output: str | None) -> None:
    from moothall.store import reading_mesh_log as reading
    from moothall.store.files import replace
    from moothall.wire.mesh.epochs import log_name
    from moothall.wire.mesh.frames import frame

    day = day_of(epoch)
    written = 0

    def frames() -> "Iterator[bytes]":
        nonlocal written
        for envelope in reading.envelopes(connection, epoch):
            written += 1
            yield frame(envelope)

    if output is None:
        sys.stdout.buffer.writelines(frames())
    else:
        target = Path(output).expanduser()
        try:
            if output.endswith("/"):
                target.mkdir(exist_ok=True)
            if target.is_dir():
                target /= log_name(epoch)
            replace(target, frames())
        except OSError as error:
            raise UsageError(f"{target}: {error.strerror}") from None
        typer.echo(f"wrote {target}", err=True)
    if not written:
        typer.echo(f"epoch {epoch} ({day}) has no envelopes; `moothall mesh log` lists the epochs", err=True)


def prove(
    envelope: Annotated[
        str,
        typer.Argument(
            metavar="HASH",
            help="The Keccak-256 of the envelope in hex, or its first digits, at least 8.",
            show_default=False,
        ),
    ],
    output: Output = None,
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
) -> None:
    """Prove that an envelope is in the log.

    Writes JSON for `moothall mesh verify`: the envelope, its way to the root of its epoch, and the root with the
    hall's signature. If the epoch has not ended, the hall's key signs the root so far.

    \b
    moothall mesh prove 6a1e0c77 -o proof.json
    """
    digits = envelope.lower().removeprefix("0x")
    if not re.fullmatch(rf"[0-9a-f]{{{FEWEST_DIGITS},64}}", digits):
        raise UsageError(f"the hash of an envelope has 64 hex digits; give {FEWEST_DIGITS} of them, or more")
    secret = choose(config, None, data_dir=data_dir, store=store).settings.store_secret
    with opened_store(data_dir, store, config) as connection:
        proof = _proof(connection, digits, secret)
    content = json.dumps(proof, indent=2) + "\n"
    if output is None:
        typer.echo(content, nl=False)
        return
    try:
        output.expanduser().write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{output}: {error.strerror}") from None
    typer.echo(f"wrote {output}", err=True)


def _proof(connection: "Connection", digits: str, secret: str) -> dict[str, Any]:
    from moothall.market.epoch_ends import read_record
    from moothall.market.epoch_proof import proof_of
    from moothall.store import reading_mesh_log as reading
    from moothall.store.migrations import require_current
    from moothall.wire.mesh import merkle

    require_current(connection)
    with reading.one_moment(connection):
        found = reading.find(connection, digits)
        if not found:
            raise UsageError(f"the log has no envelope {digits}; `moothall mesh log` lists its epochs")
        if len(found) > 1:
            raise UsageError(f"the log has several envelopes {digits}...; give more digits")
        place = found[0]
        siblings = merkle.prove(reading.leaves(connection, place.epoch), place.index)
        root = merkle.root_above(merkle.leaf(place.envelope), place.index, siblings)
        closed = reading.closed_epoch(connection, place.epoch)
        if closed is None:
            record = _sealed_so_far(connection, place.epoch, root, secret)
        elif closed.root != root:
            raise UsageError(
                f"the log of epoch {place.epoch} is not the one that the hall signed; `moothall store check`"
                " says more"
            )
        else:
            record = read_record(closed).sealed
    return proof_of(place.envelope, place.index, siblings, record)


def _sealed_so_far(connection: "Connection", epoch: int, root: bytes, secret: str) -> dict[str, Any]:
    from moothall.identity.lockbox import opened
    from moothall.identity.seals import Seal
    from moothall.market.epoch_proof import sealed_epoch
    from moothall.store.hall_key import stored_key
    from moothall.store.reading_mesh_log import open_epochs

    record = stored_key(connection)
    if record is None:
        raise UsageError("the store has no key of a hall; `moothall serve` makes one")
    envelopes = dict(open_epochs(connection))[epoch]
    seal = Seal(opened(record, secret))
    return sealed_epoch(epoch, envelopes, root, is_closed=False, at=int(time() * 1000), seal=seal)


def verify(
    file: Annotated[str, typer.Argument(metavar="PROOF", help="From `prove`; - is standard input.")],
    hall: HallOption = None,
    verbose: Verbose = False,
    as_json: AsJson = False,
) -> None:
    """Check a proof, without any hall.

    Says what the sender of the envelope signed, and what rests on the word of the hall that signed the root. Exit
    code 1 if anything does not fit, or if the hall that you expect did not sign it.

    \b
    moothall mesh verify proof.json
    moothall mesh verify proof.json --hall hall.pem -v
    """
    from moothall.market.epoch_proof import verify_proof

    content = read_content(file)
    if len(content) > MAX_JSON:
        raise UsageError(f"{file} has more than {MAX_JSON} bytes, so it is not read")
    halls = expected_halls(hall)
    proof = verify_proof(content, halls)
    if as_json:
        typer.echo(json.dumps(described(proof)))
    else:
        show(_name(content), proof, halls, verbose=verbose)
    if not proof.holds:
        raise typer.Exit(FAILED)


def _name(content: bytes) -> str:
    """What to call it: the hash of its envelope, before anything about it is known."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return "?"
    named = found.get("hash") if isinstance(found, dict) else None
    return named if isinstance(named, str) else "?"
