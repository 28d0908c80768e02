"""How `receipts verify` and `court verify` learn whose word counts, and say what was found."""

import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from moothall.cli._reading import read_content
from moothall.errors import InvalidKey, UsageError
from moothall.tui.printable import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from moothall.market.proof import Proof

MARGIN: Final = 10
MAX_ID: Final = 64  # characters of an id, and of a sentence: both may hold what a forger wrote
MAX_SENTENCE: Final = 400

HallOption = Annotated[
    list[str] | None,
    typer.Option(
        "--hall",
        metavar="KEY",
        help="The hall whose word counts: a file with its public key, the key in hex or base64, or its key id of"
        " 32 hex digits. May be repeated. Default: the halls that you have met (`moothall identity pins`).",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Everything that was checked.")]


def expected_halls(words: list[str] | None) -> "Mapping[str, str]":
    """The key ids of the halls that the user named, or else has met; and what the user calls each."""
    if words:
        return {_named(word): "named with --hall" for word in words}
    from moothall.client.verifying import known_halls

    return {hall: f"met at {place}" for hall, place in known_halls().items()}


def _named(word: str) -> str:
    from moothall.identity.seals import read_hall

    with suppress(InvalidKey):
        return read_hall(word)  # not a file of that name: it may have come along with the records
    try:
        return read_hall(_in_file(word) if Path(word).expanduser().is_file() else word)
    except (InvalidKey, OSError) as error:
        raise UsageError(f"--hall {word}: {error}") from None


def _in_file(word: str) -> str:
    """A PEM text, or the file of an identity such as `hall-key.json`: its public key."""
    content = read_content(word)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict):
        return str(fields.get("publicKey"))
    return content.decode(errors="replace")


def described(proof: "Proof") -> dict[str, Any]:
    return {
        "holds": proof.holds,
        "hall": None if proof.hall is None else proof.hall.raw.hex(),
        "proven": proof.proven,
        "consistent": proof.consistent,
        "hall_word": proof.hall_word,
        "problems": proof.problems,
    }


def show(name: str, proof: "Proof", halls: "Mapping[str, str]", *, verbose: bool) -> None:
    """The result in the first line, then on what it rests: two lines, or all. `halls` are the expected ones."""
    typer.echo(f"{_id(name)}  {_result(proof)}")
    for label, sentence in _everything(proof, halls) if verbose else _summary(proof, halls):
        typer.echo(f"  {label:<{MARGIN}}{_bounded(sentence)}")


def _id(name: str) -> str:
    """The result stands after it, so it must not look like one."""
    return name if name.isascii() and name.isprintable() and " " not in name and len(name) <= MAX_ID else "?"


def _bounded(sentence: str) -> str:
    """On one line, without gaps that would push its end to where the next line begins."""
    shown = " ".join(one_line(sentence).split())
    return shown if len(shown) <= MAX_SENTENCE else f"{shown[: MAX_SENTENCE - 1]}…"


def _result(proof: "Proof") -> str:
    if proof.holds:
        return "holds"
    return "does not hold" if proof.contradictions else "not proven"


def _summary(proof: "Proof", halls: "Mapping[str, str]") -> "Iterator[tuple[str, str]]":
    """Two lines: the first problem, or what was signed; and whose word the rest is."""
    problems = [("WRONG", sentence) for sentence in proof.contradictions]
    problems += [("MISSING", sentence) for sentence in proof.unproven]
    if problems:
        yield problems[0]
    else:
        steps = [kind if count == 1 else f"{count} {kind}" for kind, count in Counter(proof.steps).items()]
        judged = any(kind.startswith("ARBITER_") for kind in proof.steps)
        yield "signed", f"by {'parties and arbiters' if judged else 'the parties'}: {', '.join(steps)}."
    if proof.contradictions:
        yield "", f"{len(problems)} problem(s) in all: do not rely on it. -v lists all that was checked."
    else:
        rest = f"{len(proof.hall_word)} fact(s) rest on its word alone"
        yield "hall", f"{_hall(proof, halls)}; {rest}: -v lists them."


def _everything(proof: "Proof", halls: "Mapping[str, str]") -> "Iterator[tuple[str, str]]":
    yield from (("WRONG", sentence) for sentence in proof.contradictions)
    yield from (("MISSING", sentence) for sentence in proof.unproven)
    yield from (("signed", sentence) for sentence in proof.proven)
    yield from (("fits", sentence) for sentence in proof.consistent)
    yield "hall", f"{_hall(proof, halls)}. On its word alone rest:"
    yield from (("", sentence) for sentence in proof.hall_word)


def _hall(proof: "Proof", halls: "Mapping[str, str]") -> str:
    from moothall.identity.seals import key_id

    if proof.hall is None:
        return "none signed it"
    known = halls.get(key_id(proof.hall), "unknown to you; if you trust it, name it with --hall")
    return f"{proof.hall.raw.hex()} signed all of it ({known})"
