"""Writes docs/api.md from the docstrings of what users import: `make docs`.

What is in the page is said in the sources alone, so `help()` and the page cannot differ.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import keep.client
import moothall
import moothall.mesh
from moothall.client.admin import Admin
from moothall.errors import MoothallError
from moothall.keep.aio import AsyncKeepClient

PAGE: Final = Path(__file__).parents[1] / "docs" / "api.md"

INTRO: Final = """# API reference

Generated from the docstrings by `make docs`. [Your first agent](first-agent.md) shows how the parts fit together.

Everything on this page can be imported from `moothall`, unless its heading names another module. Times are seconds,
moments are `datetime` objects with a time zone, ids of agents begin with `@`.

"""
GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "The agent": ("Agent", "SyncAgent", "FloorPolicy", "Backoff", "Budget", "ApiToken"),
    "What it hears": (
        "Message",
        "Welcome",
        "Gap",
        "MissedIn",
        "Member",
        "Answering",
        "FloorChange",
        "Arrival",
        "Departure",
        "PresenceChange",
        "NickChange",
        "Typing",
        "ChannelInfo",
        "SyncMessage",
    ),
    "Delivery receipts": ("Delivery", "DeliveryReceipt", "SyncDelivery"),
    "Deals": (
        "Proposal",
        "DealChange",
        "RatingChange",
        "SkillOffer",
        "Rating",
        "SkillRating",
        "MeshReputation",
        "RatingPoint",
        "RankedAgent",
        "Receipt",
        "SyncProposal",
    ),
    "Files": (
        "FileOffer",
        "OfferedFile",
        "ReceivedFiles",
        "SavedFile",
        "Skipped",
        "FileTransfer",
        "Progress",
        "SyncFileOffer",
        "SyncFileTransfer",
    ),
    "The court": (
        "Dispute",
        "Assignment",
        "Case",
        "Evidence",
        "EvidenceItem",
        "Ruling",
        "Vote",
        "ArbiterResult",
        "SyncDispute",
    ),
    "Keys and proofs": ("Identity", "PrivateKey", "PublicKey", "Proof", "verify_receipt", "verify_case"),
}
_MESH: Final = (
    "MeshAgent",
    "Conversation",
    "Message",
    "Sent",
    "Found",
    "Change",
    "Assigned",
    "Away",
    "Missed",
)
OTHERS: Final = {
    "moothall.client.admin.Admin": Admin,
    "keep.client.KeepClient": keep.client.KeepClient,
    "moothall.keep.AsyncKeepClient": AsyncKeepClient,
    **{f"moothall.mesh.{name}": getattr(moothall.mesh, name) for name in _MESH},
}
MADE_BY_USERS: Final = frozenset(
    (
        "Agent",
        "SyncAgent",
        "keep.client.KeepClient",
        "moothall.keep.AsyncKeepClient",
        "moothall.mesh.MeshAgent",
    )
)
# Classes for code without `await`, and what they stand for.
TWINS: Final[dict[str, type]] = {
    "SyncAgent": moothall.Agent,
    "SyncMessage": moothall.Message,
    "SyncDelivery": moothall.Delivery,
    "SyncProposal": moothall.Proposal,
    "SyncDispute": moothall.Dispute,
    "SyncFileOffer": moothall.FileOffer,
    "SyncFileTransfer": moothall.FileTransfer,
}
# What is public for other modules of ours, not for users.
INTERNAL: Final = frozenset(
    (
        "FloorPolicy.delay",
        "FloorPolicy.from_environment",
        "Backoff.delay",
        "Member.from_entry",
        *(f"{name}.{part}" for name in ("Message", "SyncMessage") for part in ("frame", "size", "ts_ms")),
        "Message.asked",
        "Message.got",
        "Delivery.apply",
        "Delivery.end",
        "SyncMessage.asked",
        "Proposal.facts",
        "SyncProposal.facts",
        "Dispute.docket",
        "SyncDispute.docket",
        *(f"{name}.facts" for name in ("FileOffer", "SyncFileOffer", "FileTransfer", "SyncFileTransfer")),
        *(f"MeshAgent.{part}" for part in ("conversation_of", "find", "refresh", "remember")),
        *(f"Conversation.{part}" for part in ("record", "turn", "performed", "notify")),
        "Proof.claim",
        "Proof.signed",
        "Proof.vouch",
    )
)


class Part(NamedTuple):
    """A method or property of a class."""

    name: str
    function: Any
    is_property: bool
    doc: str


def names() -> set[str]:
    """What this page has of `moothall`, its errors aside."""
    return {name for group in GROUPS.values() for name in group}


def public_parts(owner: type) -> list[Part]:
    """In the order in which they were written, those of base classes last."""
    found: dict[str, Part] = {}
    for base in owner.__mro__[:-1]:
        for name, held in vars(base).items():
            if name.startswith("_") or name in found or f"{owner.__name__}.{name}" in INTERNAL:
                continue
            doc = inspect.getdoc(held) or ""
            if isinstance(held, property):
                found[name] = Part(name, held.fget, True, doc)
            elif isinstance(held, cached_property):
                found[name] = Part(name, held.func, True, doc)
            elif isinstance(held, classmethod | staticmethod):
                found[name] = Part(name, held.__func__, False, doc)
            elif inspect.isfunction(held):
                found[name] = Part(name, held, False, doc)
    return list(found.values())


def doc_of(found: Any) -> str:
    """Its docstring; nothing for the one that `dataclass` makes up."""
    text = inspect.getdoc(found) or ""
    is_made_up = is_dataclass(found) and text.startswith(f"{getattr(found, '__name__', '')}(")
    return "" if is_made_up else text


def page() -> str:
    parts = [INTRO]
    for title, group in GROUPS.items():
        parts.append(f"## {title}\n\n")
        parts += [_entry(name, getattr(moothall, name)) for name in group]
    parts.append("## Elsewhere\n\n")
    parts += [_entry(name, found) for name, found in OTHERS.items()]
    parts.append(_errors())
    return "".join(parts).rstrip("\n") + "\n"


def _entry(name: str, found: Any) -> str:
    head = f"### {name}\n\n"
    if inspect.isfunction(found):
        return f"{head}{_code(name, found)}{_prose(doc_of(found))}"
    made = _code(found.__name__, found) if name in MADE_BY_USERS else ""
    known = {part.name: part.doc for part in public_parts(TWINS[name])} if name in TWINS else {}
    own = [part for part in public_parts(found) if known.get(part.name) != part.doc]
    alike = [f"`{part.name}`" for part in public_parts(found) if part not in own]
    rest = f"As in {TWINS[name].__name__}, without `await`: {', '.join(alike)}.\n\n" if alike else ""
    return f"{head}{made}{_prose(doc_of(found))}{_fields(found)}{''.join(map(_part, own))}{rest}"


def _part(part: Part) -> str:
    if part.is_property:
        returned = _annotation(inspect.signature(part.function).return_annotation)
        return f"#### {part.name}: {returned}\n\n{_prose(part.doc)}"
    prefix = "await " if inspect.iscoroutinefunction(part.function) else ""
    return f"#### {part.name}\n\n{_code(prefix + part.name, part.function)}{_prose(part.doc)}"


def _code(name: str, found: Any) -> str:
    return f"```text\n{name}{_signature(found)}\n```\n\n"


def _signature(found: Any) -> str:
    signature = inspect.signature(found)
    shown = [p for p in signature.parameters.values() if p.name not in ("self", "cls")]
    texts: list[str] = []
    starred = False
    for parameter in shown:
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            texts.append("*")
            starred = True
        texts.append(_parameter(parameter))
    returned = signature.return_annotation
    arrow = "" if returned in (inspect.Signature.empty, None) else f" -> {_annotation(returned)}"
    line = f"({', '.join(texts)}){arrow}"
    return line if len(line) < 90 else "(\n    " + ",\n    ".join(texts) + f",\n){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL)
    known = parameter.annotation is not parameter.empty
    text = f"{stars}{parameter.name}: {_annotation(parameter.annotation)}" if known else parameter.name
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {_default(parameter.default)}"


def _default(value: object) -> str:
    """A default that is an object of ours is shown by its class: its fields are in its own section."""
    return f"{type(value).__name__}()" if is_dataclass(value) else repr(value)


def _annotation(annotation: Any) -> str:
    """Without the modules that names come from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z])|~", "", text)


def _fields(found: type) -> str:
    if not is_dataclass(found):
        return ""
    notes = dict(_notes(found))
    rows = [
        f"| `{each.name}` | {_annotation(each.type).replace('|', chr(92) + '|')} | {notes.get(each.name, '')} |\n"
        for each in fields(found)
        if not each.name.startswith("_")
    ]
    return "".join(["| field | type | |\n|---|---|---|\n", *rows, "\n"])


def _notes(found: type) -> Iterator[tuple[str, str]]:
    """The comments behind its fields."""
    source = textwrap.dedent(inspect.getsource(found))
    lines = source.splitlines()
    for node in ast.parse(source).body[0].body:  # type: ignore[attr-defined]  # it is a class
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.end_lineno:
            _, mark, comment = lines[node.end_lineno - 1].partition("  # ")
            if mark:
                yield node.target.id, comment


def _prose(text: str) -> str:
    """Docstrings are Markdown but for examples, which are indented in them."""
    return f"{text}\n\n" if text else ""


def _errors() -> str:
    rows = [
        f"| `{name}` | {(inspect.getdoc(found) or '').splitlines()[0]} |\n"
        for name in moothall.__all__
        if inspect.isclass(found := getattr(moothall, name)) and issubclass(found, MoothallError)
    ]
    intro = "All are a `MoothallError`. The codes behind them are in [errors](errors.md)."
    return "".join([f"## Errors\n\n{intro}\n\n| class | |\n|---|---|\n", *rows])


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
