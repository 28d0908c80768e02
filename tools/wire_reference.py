"""Keeps docs/wire-to-hall.md and docs/wire-from-hall.md true: `make docs`.

People write these pages: what a message is for, what its fields mean, an example. This program writes what the code
knows better: the sentence under each heading, which comes from the command table, and the columns of each table of
fields, which come from the structs of the wire. It keeps everything else. A message that has no section yet gets
one at the end of its page, with empty cells to be filled in; one that is no longer there loses its section.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, get_args

from msgspec import Struct

from moothall.hall.commands import Row
from moothall.hall.session import Tier
from moothall.wire.agentchat import court, market, server
from moothall.wire.agentchat.requests import AnyClientMessage
from moothall.wire.agentchat.server import ServerMessage
from tests.support.world import World
from tools.wire_types import Field, fields_of, parts_of

DOCS: Final = Path(__file__).parents[1] / "docs"
TO_HALL: Final = DOCS / "wire-to-hall.md"
FROM_HALL: Final = DOCS / "wire-from-hall.md"

SENDERS: Final = {
    Tier.STRANGER: "Any connection may send it, also before IDENTIFY.",
    Tier.ANONYMOUS: "Agents may send it, with a key or without.",
    Tier.VERIFIED: "Agents with a proven key may send it.",
}
HEAD: Final = "| field | required | value | meaning |\n|---|---|---|---|\n"

_HEADING: Final = re.compile(r"^### (\w+)$", re.MULTILINE)
_ROW: Final = re.compile(r"^\| `(\w+)` \|.*\| (.*) \|$", re.MULTILINE)
_TABLE: Final = re.compile(r"^\| field \|.*\n(?:\|.*\n)+", re.MULTILINE)
_FACTS: Final = re.compile(rf"^(?:{'|'.join(map(re.escape, SENDERS.values()))}).*\n", re.MULTILINE)


class Entry(NamedTuple):
    """What the code says about one section."""

    name: str
    facts: str
    fields: list[Field]


def requests() -> list[Entry]:
    rows = {row.message: row for row in command_rows()}
    return [
        Entry(rows[message].name, facts(rows[message]), fields_of(message))
        for message in get_args(AnyClientMessage)
    ]


def notices() -> list[Entry]:
    """Messages of the hall by their type, and then the objects inside of messages by the name of their struct."""
    messages = list(server_messages())
    parts: list[type[Struct]] = [server.MemberEntry, server.Budget]
    parts += [part for message in (*messages, *get_args(AnyClientMessage)) for part in parts_of(message)]
    return [
        *(Entry(type_of(message), "", fields_of(message)) for message in messages),
        *(Entry(part.__name__, "", fields_of(part)) for part in dict.fromkeys(parts)),
    ]


def command_rows() -> tuple[Row, ...]:
    return tuple(World().hall.commands)


def server_messages() -> Iterator[type[ServerMessage]]:
    """Those with a `type` of their own, in the order of the modules."""
    for module in (server, market, court):
        for found in vars(module).values():
            is_message = isinstance(found, type) and issubclass(found, ServerMessage)
            if is_message and found.__module__ == module.__name__ and type_of(found).isupper():
                yield found


def type_of(message: type[Struct]) -> str:
    return str(message.__struct_config__.tag)


def facts(row: Row) -> str:
    told = [SENDERS[row.tier]]
    if not row.lurkers:
        told.append("Lurkers may not.")
    if row.rate is not None:
        told.append(f"Its rate is the setting `{row.rate.setting}`.")
    if row.silent:
        told.append("From any other sender it is dropped in silence.")
    return " ".join(told)


def renew(page: str, entries: list[Entry]) -> str:
    """The page with what the code says now."""
    wanted = {entry.name: entry for entry in entries}
    intro, *sections = re.split(r"^(?=### \w+$)", page, flags=re.MULTILINE)
    parts, seen = [intro], set[str]()
    for section in sections:
        heading = _HEADING.match(section)
        assert heading is not None  # noqa: S101  # that is where the page was cut
        name = heading[1]
        if name in wanted:
            seen.add(name)
            parts.append(_section(wanted[name], section[heading.end() :]))
        else:
            parts += re.findall(r"^## .*", section, re.DOTALL | re.MULTILINE)  # the next chapter began in it
    missing = [_section(entry, "\n\n") for entry in entries if entry.name not in seen]
    return re.sub(r"\n{3,}", "\n\n", "".join([*parts, *missing])).rstrip("\n") + "\n"


def _section(entry: Entry, body: str) -> str:
    """What people wrote above the table, the sentence from the command table, the table, what they wrote below."""
    table = _TABLE.search(body)
    above, rows, below = (body[: table.start()], table[0], body[table.end() :]) if table else (body, "", "")
    parts = (_FACTS.sub("", above), entry.facts, _table(entry.fields, dict(_ROW.findall(rows))), below)
    return (
        "\n\n".join([f"### {entry.name}", *(part.strip("\n") for part in parts if part.strip("\n"))]) + "\n\n"
    )


def _table(fields: list[Field], meanings: Mapping[str, str]) -> str:
    rows = [
        f"| `{field.name}` | {field.presence} | {field.type} | {meanings.get(field.name, '')} |"
        for field in fields
    ]
    return HEAD + "\n".join(rows) if rows else ""


def pages() -> dict[Path, list[Entry]]:
    return {TO_HALL: requests(), FROM_HALL: notices()}


def main() -> None:
    for path, entries in pages().items():
        path.write_text(renew(path.read_text(encoding="utf-8"), entries), encoding="utf-8")


if __name__ == "__main__":
    main()
