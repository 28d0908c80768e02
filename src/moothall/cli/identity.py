"""`moothall identity`: make, show, rotate, revoke, publish and verify the key an agent is known by.

A private key is written to its file and never anywhere else.
"""

import json
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moothall.cli import _chosen
from moothall.cli._addresses import hall_url
from moothall.cli._connecting import DEFAULT_TIMEOUT, Timeout, Visit
from moothall.cli._exits import group
from moothall.cli._tables import show_table
from moothall.errors import InvalidCertificate, UsageError
from moothall.identity import keyfile
from moothall.identity.certificates import (
    DEFAULT_REASON,
    REVOCATION,
    revoke,
    rotation_records,
    timestamp_text,
    verify_chain,
    verify_revocation,
)
from moothall.identity.keyfile import Identity
from moothall.identity.keys import PrivateKey, PublicKey
from moothall.identity.signatures import SEED_BYTES

if TYPE_CHECKING:
    from moothall.known_halls import KnownHalls

app = group("identity", "Make, show, rotate, revoke and verify keys; pin those of halls.")

FileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]", help=f"The key file. Default: {keyfile.DEFAULT_PATH}.", show_default=False
    ),
]
OwnFileArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[FILE]",
        help=f"The key file. Default: ${_chosen.IDENTITY_VARIABLE}, that of the context in use, "
        f"else {keyfile.DEFAULT_PATH}.",
        show_default=False,
    ),
]
FileOption = Annotated[
    Path | None,
    typer.Option("--file", "--identity", "-i", metavar="FILE", help="The same.", show_default=False),
]


@app.command()
def new(
    file: FileArgument = None,
    file_option: FileOption = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name to appear under.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace a file that exists; its key is lost.")
    ] = False,
) -> None:
    """Make a new key and the file that keeps it.

    A file that exists is left alone.

    \b
    moothall identity new
    moothall identity new alice.json --name alice
    """
    if name is not None and not keyfile.AGENT_NAME.match(name):
        raise UsageError("--name takes 1 to 32 letters, digits, _ or -")
    identity = Identity(key=_new_key(), name=name, created=timestamp_text(_now_ms()))
    path = (_named_path(file, file_option) or keyfile.DEFAULT_PATH).expanduser()
    keyfile.save(identity, path, overwrite=force)
    typer.echo(f"made {path}")
    _show_ids(identity.public)


@app.command()
def show(
    file: OwnFileArgument = None,
    file_option: FileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the ids and the public key."""
    path = _own_path(file, file_option)
    identity = keyfile.load(path)
    if as_json:
        typer.echo(json.dumps(_description(identity, path), indent=2))
        return
    typer.echo(f"{'file':<12} {path}")
    if identity.name:
        typer.echo(f"{'name':<12} {identity.name}")
    _show_ids(identity.public)
    if identity.created:
        typer.echo(f"{'created':<12} {_printable(identity.created)}")
    typer.echo(f"{'rotations':<12} {len(identity.rotations)}")
    typer.echo(identity.public.pem, nl=False)


@app.command()
def rotate(file: OwnFileArgument = None, file_option: FileOption = None) -> None:
    """Replace the key by a new one that the old one vouches for. A hall will see a new agent."""
    path = _own_path(file, file_option)
    old = keyfile.load(path)
    rotated, retired = keyfile.save_rotated(old, path, _new_key(), now_ms=_now_ms())
    typer.echo(f"rotated {path}; the key of @{old.public.agent_id()} is kept in {retired}")
    _show_ids(rotated.public)


@app.command(name="revoke")
def revoke_key(
    file: OwnFileArgument = None,
    file_option: FileOption = None,
    reason: Annotated[str, typer.Option(metavar="SENTENCE", help="Why, in your own words.")] = DEFAULT_REASON,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the notice here instead of printing it.")
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="URL", help="Bring the notice to this hall as well.")
    ] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Sign a notice that the key is no longer to be trusted. Publish it where your peers will see it.

    A hall that has the notice refuses the key from then on; that cannot be undone.

    \b
    moothall identity revoke --reason stolen --out notice.json
    moothall identity revoke --reason stolen --publish ws://127.0.0.1:6667
    """
    identity = keyfile.load(_own_path(file, file_option))
    rotations = _sound_rotations(identity)
    notice = revoke(identity.key, now_ms=_now_ms(), reason=reason or DEFAULT_REASON, rotations=rotations)
    content = keyfile.file_bytes(notice)
    if out is None:
        typer.echo(content, nl=False)
    else:
        _write_notice(content, out.expanduser())
    if publish is not None:
        _publish(notice, publish, timeout)


@app.command(name="publish")
def publish_notice(
    notice: Annotated[Path, typer.Argument(metavar="NOTICE", help="A revocation notice.")],
    url: Annotated[str | None, typer.Argument(metavar="[URL]", help="The hall.", show_default=False)] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Bring a revocation notice to a hall. The notice is the proof: no key is needed.

    \b
    moothall identity publish notice.json ws://127.0.0.1:6667
    """
    fields = keyfile.read_object(notice.expanduser(), secret=False)
    verify_revocation(fields)
    _publish(fields, url, timeout)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An identity file or a revocation notice.")],
) -> None:
    """Check the rotations of an identity, or a revocation notice."""
    path = file.expanduser()
    fields = keyfile.read_object(path, secret=False)
    if fields.get("type") == REVOCATION:
        revoked = verify_revocation(fields)
        typer.echo(f"holds: {_named(revoked)} is revoked, reason: {_printable(str(fields['reason']))}")
        return
    if not fields.keys() & {"publicKey", "pubkey"}:
        raise UsageError(f"{path} is neither an identity file nor a revocation notice")
    if fields.keys() & {"privateKey", "privkey"}:
        keyfile.load(path)  # a private key must be closed to others, and belong to the public one
    current = keyfile.public_key(fields)
    rotations = rotation_records(fields)
    first = verify_chain(rotations, current)
    typer.echo(f"holds: {_named(current)} goes back to {_named(first)}, rotations: {len(rotations)}")


@app.command(name="pins")
def list_pins(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the halls that you have met.

    Each with the key that it had at the first contact.
    """
    pins = _known_halls().read()
    if as_json:
        typer.echo(json.dumps({place: pin._asdict() for place, pin in pins.items()}, indent=2))
        return
    show_table(
        ("key", "hall", "pinned"),
        (
            (pin.key, _printable(place), "by you" if pin.by_user else "at the first contact")
            for place, pin in pins.items()
        ),
        empty="you have met no hall yet",
    )


@app.command(name="pin")
def pin_hall(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address that you dial.")],
    key: Annotated[str, typer.Argument(metavar="KEY", help="The hall's key: 64 hex digits.")],
) -> None:
    """Say which key the hall at an address has. `moothall serve` shows it.

    Use this where the address that you dial is not the hall's own: a tunnel, or a second name of the same hall.

    \b
    moothall identity pin ws://127.0.0.1:7000 0a1b…
    """
    if re.fullmatch("[0-9a-f]{64}", key.lower()) is None:
        raise UsageError(f"{key[:80]!r} is not the key of a hall: it has 64 hex digits")
    place = _place(url)
    with _saving() as halls:
        halls.pin(place, key.lower(), by_user=True)
    typer.echo(f"pinned {place}")


@app.command(name="unpin")
def unpin_hall(
    url: Annotated[str, typer.Argument(metavar="URL", help="The address that you dial.")],
) -> None:
    """Forget the key of the hall at an address. The next contact is the first again.

    \b
    moothall identity unpin wss://hall.example.org
    """
    place = _place(url)
    with _saving() as halls:
        if not halls.unpin(place):
            raise UsageError(f"there is no pin for {place}: `moothall identity pins` lists them")
    typer.echo(f"unpinned {place}")


def _named_path(argument: Path | None, option: Path | None) -> Path | None:
    if argument is not None and option is not None:
        raise UsageError(f"two key files are named, {argument} and {option}; name one")
    return argument or option


def _own_path(argument: Path | None, option: Path | None) -> Path:
    path = _chosen.key_file(_named_path(argument, option)).value
    return (path or keyfile.DEFAULT_PATH).expanduser()


def _known_halls() -> "KnownHalls":
    from moothall.known_halls import KnownHalls

    return KnownHalls()


def _place(url: str) -> str:
    from moothall.known_halls import place_of

    return place_of(hall_url(url))


@contextmanager
def _saving() -> "Iterator[KnownHalls]":
    halls = _known_halls()
    try:
        yield halls
    except OSError as error:
        raise UsageError(f"{halls.path}: {error.strerror}") from None


def _publish(notice: Mapping[str, Any], url: str | None, timeout: float) -> None:
    visit = Visit(url, "publisher", None, timeout)
    fingerprint = visit.ask(lambda agent: agent.revoke(notice))
    typer.echo(f"the hall at {hall_url(url)} has revoked {_printable(fingerprint)}", err=True)


def _new_key() -> PrivateKey:
    return PrivateKey(secrets.token_bytes(SEED_BYTES))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _sound_rotations(identity: Identity) -> tuple[object, ...]:
    """A notice is urgent: records that do not hold are left out of it, they do not prevent it."""
    try:
        verify_chain(identity.rotations, identity.public)
    except InvalidCertificate as error:
        typer.echo(f"warning: the notice leaves the rotations out: {error}", err=True)
        return ()
    return identity.rotations


def _write_notice(content: bytes, out: Path) -> None:
    try:
        with out.open("xb") as notice:
            notice.write(content)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror}; choose another path for the notice") from None
    typer.echo(f"wrote {out}")


def _show_ids(key: PublicKey) -> None:
    typer.echo(f"{'agent id':<12} @{key.agent_id()}")
    typer.echo(f"{'fingerprint':<12} {key.fingerprint} (the agent id on agentchat 0.36 servers)")
    typer.echo(f"{'mesh id':<12} {key.raw.hex()}")


def _named(key: PublicKey) -> str:
    return f"@{key.agent_id()} ({key.fingerprint})"


def _description(identity: Identity, path: Path) -> dict[str, object]:
    return {
        "file": str(path),
        "name": identity.name,
        "agent_id": identity.public.agent_id(),
        "fingerprint": identity.public.fingerprint,
        "mesh_id": identity.public.raw.hex(),
        "public_key": identity.public.pem,
        "created": identity.created,
        "rotations": len(identity.rotations),
    }


def _printable(text: str) -> str:
    """A text from a file, with whatever could steer a terminal escaped."""
    return json.dumps(text)[1:-1]
