"""The pages about the wire say what the code does: fields, senders, limits, examples, errors, signed texts."""

import json
import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from moothall.errors import Refusal
from moothall.hall.session import Tier
from moothall.settings import Settings
from moothall.wire.agentchat import signing
from moothall.wire.agentchat.codec import decode
from moothall.wire.agentchat.requests import AnyClientMessage
from tests.support.world import World
from tools.wire_reference import (
    DOCS,
    FROM_HALL,
    TO_HALL,
    Entry,
    command_rows,
    pages,
    renew,
    requests,
    server_messages,
    type_of,
)
from tools.wire_types import fields_of, parts_of

WIRE = (DOCS / "wire.md").read_text()
ENTRIES = [
    pytest.param(page.read_text(), entry, id=f"{page.stem}-{entry.name}")
    for page, entries in pages().items()
    for entry in entries
]
# What `message` of an INVALID_PROPOSAL can be, and codes that other servers send or the SDK makes up.
WORDS = {"PROPOSAL_NOT_PENDING", "PROPOSAL_NOT_ACCEPTED", "PROPOSAL_FROZEN"}
NOT_OURS = {"UNKNOWN", "INSUFFICIENT_ARBITERS"}


def section(page: str, name: str) -> str:
    found = re.search(rf"^### {name}\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE)
    assert found is not None, name
    return found[1]


def examples(page: str, name: str) -> list[dict[str, Any]]:
    found = re.findall(r"^```json\n(.*?)^```$", section(page, name), re.DOTALL | re.MULTILINE)
    return [json.loads(each) for each in found]


@pytest.mark.parametrize(("page", "entry"), ENTRIES)
def test_a_section_says_what_it_is_about(page: str, entry: Entry) -> None:
    """A message that is new gets a section with empty cells from `make docs`; fill them in."""
    text = section(page, entry.name)
    purpose = text.strip().splitlines()[0]
    assert purpose.endswith("."), f"say what {entry.name} is for, above its table"
    assert purpose != entry.facts
    for field in entry.fields:
        (meaning,) = re.findall(rf"^\| `{field.name}` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
        assert meaning.strip(), f"say what `{field.name}` of {entry.name} means"


@pytest.mark.parametrize("message", get_args(AnyClientMessage), ids=type_of)
def test_an_example_is_a_request_that_the_hall_can_read(message: type[msgspec.Struct]) -> None:
    (example,) = examples(TO_HALL.read_text(), type_of(message))
    assert type(decode(json.dumps(example).encode())) is message
    assert set(example) <= {"type", "ref", *(field.name for field in fields_of(message))}


@pytest.mark.parametrize("message", list(server_messages()), ids=type_of)
def test_an_example_is_what_the_hall_sends(message: type[msgspec.Struct]) -> None:
    (example,) = examples(FROM_HALL.read_text(), type_of(message))
    assert example.pop("type") == type_of(message)
    assert isinstance(example.pop("ts"), int)
    example.pop("ref", None)
    _assert_fits(example, message)


def _assert_fits(example: dict[str, Any], struct: type[msgspec.Struct]) -> None:
    """It has what a struct has to have and nothing else; so have the objects in it."""
    known = fields_of(struct)
    assert {field.name for field in known if field.presence == "yes"} <= set(example), struct
    assert set(example) <= {field.name for field in known}, struct
    parts = {part.__name__: part for part in parts_of(struct)}
    for field in known:
        for name in re.findall(r"\[(\w+)\]", field.type):
            for value in _objects_in(example.get(field.name), stakes=name == "EscrowResult"):
                _assert_fits(value, parts[name])


def _objects_in(value: Any, *, stakes: bool) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from value
    elif isinstance(value, dict) and "_escrow" in value:
        yield from ([value["_escrow"]] if stakes else [v for k, v in value.items() if k != "_escrow"])
    elif isinstance(value, dict) and all(isinstance(each, dict) for each in value.values()):
        yield from value.values()
    elif isinstance(value, dict):
        yield value


def test_errors_that_are_named_exist() -> None:
    named = re.findall(r"^Errors.*$", TO_HALL.read_text(), re.MULTILINE)
    codes = {code for line in named for code in re.findall(r"`([A-Z_]{5,})`", line)} - WORDS
    assert codes <= {*Refusal.by_code, *(type_of(message) for message in server_messages())}


def test_every_error_is_named() -> None:
    page = TO_HALL.read_text()
    assert [code for code in sorted({*Refusal.by_code} - NOT_OURS) if f"`{code}`" not in page] == []


@pytest.mark.parametrize("row", command_rows(), ids=lambda row: row.name)
def test_who_may_send_it_is_true(row: Any) -> None:
    """The example of each message, from a connection of each tier."""
    (example,) = examples(TO_HALL.read_text(), row.name)
    world = World()
    for tier, guest in (
        (Tier.STRANGER, world.connect()),
        (Tier.ANONYMOUS, world.agent("anonymous", join="#general")),
    ):
        guest.read()
        world.send_raw(guest, json.dumps(example).encode())
        codes = [answer.get("code") for answer in guest.read()]
        wanted = "AUTH_REQUIRED" if tier is Tier.STRANGER else "VERIFICATION_REQUIRED"
        expected = tier < row.tier and not row.silent
        if not (row.name.startswith("ADMIN_") and tier is Tier.STRANGER):
            assert (wanted in codes) == expected, (tier, codes)


def test_the_texts_that_are_signed() -> None:
    rows = dict(re.findall(r"^\| ([A-Z_]+) \| `(.*)` \|$", WIRE, re.MULTILINE))
    signed = {row.name for row in command_rows() if {"sig", "signature"} & {*row.message.__struct_fields__}}
    assert {*rows} == signed - {"MSG"}
    for kind, bars in signing.BARS.items():
        assert rows[kind].count("\\|") == bars, kind


@pytest.mark.parametrize("name", re.findall(r"^\| .* \| `(\w+)` \| \d+/\d+ \|$", WIRE, re.MULTILINE))
def test_the_limits_are_those_of_the_settings(name: str) -> None:
    (default,) = re.findall(rf"^\| .* \| `{name}` \| (\d+/\d+) \|$", WIRE, re.MULTILINE)
    assert str(getattr(Settings(), name)) == default


def test_there_are_limits() -> None:
    rates = [row.rate for row in command_rows() if row.rate]
    assert all(rate.of(Settings()) == getattr(Settings(), rate.setting) for rate in rates)
    documented = re.findall(r"^\| .* \| `(\w+)` \| \d+/\d+ \|$", WIRE, re.MULTILINE)
    assert {rate.setting for rate in rates} <= {*documented}


def test_what_people_wrote_is_kept_and_what_is_gone_is_removed() -> None:
    page = (
        "# Page\n\n## One\n\n### OLD\n\nGone.\n\n## Two\n\n### PING\n\nAsks.\n\n"
        "| field | required | value | meaning |\n|---|---|---|---|\n| `a` | no | x | the first |\n\nErrors: none.\n"
    )
    entries = [
        Entry("PING", "Agents may send it, with a key or without.", list(requests()[0].fields[:1])),
        Entry("PONG", "", []),
    ]
    field = entries[0].fields[0]
    assert renew(page, entries) == (
        "# Page\n\n## One\n\n## Two\n\n### PING\n\nAsks.\n\nAgents may send it, with a key or without.\n\n"
        "| field | required | value | meaning |\n|---|---|---|---|\n"
        f"| `{field.name}` | yes | {field.type} |  |\n\nErrors: none.\n\n### PONG\n"
    )
