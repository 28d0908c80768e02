"""The message types: the three tables of the specification, and the vectors."""

import re
from pathlib import Path
from typing import Any

import pytest

from moothall.wire.mesh.msg_types import (
    BILATERAL,
    BROADCAST_TOPIC,
    MSG_TYPES,
    NAMED_TOPIC,
    NOTARY_TOPIC,
    REPUTATION_TOPIC,
    TOPICS,
    MsgType,
)
from tests.support.mesh import VECTORS

TO_ALL = [("ADVERTISE", 0x01), ("DISCOVER", 0x02), ("BEACON", 0x0D)]
FROM_AGENT_TO_AGENT = [
    ("PROPOSE", 0x03),
    ("COUNTER", 0x04),
    ("ACCEPT", 0x05),
    ("REJECT", 0x06),
    ("DELIVER", 0x07),
    ("NOTARIZE_ASSIGN", 0x09),
    ("VERDICT", 0x0A),
    ("DISPUTE", 0x0C),
]
TO_A_TOPIC = [("NOTARIZE_BID", 0x08, NOTARY_TOPIC), ("FEEDBACK", 0x0B, REPUTATION_TOPIC)]


@pytest.mark.parametrize(("name", "code"), TO_ALL)
def test_messages_to_all_go_to_the_broadcast_topic(name: str, code: int) -> None:
    assert MSG_TYPES[code].name == name
    assert TOPICS[MSG_TYPES[code]] == BROADCAST_TOPIC


@pytest.mark.parametrize(("name", "code"), FROM_AGENT_TO_AGENT)
def test_bilateral_messages_have_no_topic(name: str, code: int) -> None:
    assert MSG_TYPES[code].name == name
    assert MSG_TYPES[code] in BILATERAL
    assert MSG_TYPES[code] not in TOPICS


@pytest.mark.parametrize(("name", "code", "topic"), TO_A_TOPIC)
def test_messages_to_a_topic(name: str, code: int, topic: str) -> None:
    assert MSG_TYPES[code].name == name
    assert TOPICS[MSG_TYPES[code]] == topic


def test_two_types_were_added_later() -> None:
    named = {code for _, code, *_ in [*TO_ALL, *FROM_AGENT_TO_AGENT, *TO_A_TOPIC]}
    assert len(named) == 13
    assert set(MsgType) - named == {MsgType.BROADCAST, MsgType.BOUNTY}


@pytest.mark.parametrize("vector", VECTORS["envelopes"], ids=lambda vector: vector["name"])
def test_the_vectors_take_the_same_way(vector: dict[str, Any]) -> None:
    msg_type = MsgType[vector["name"]]
    assert msg_type == vector["msg_type"]
    if msg_type is MsgType.BROADCAST:
        assert vector["topic"].startswith(NAMED_TOPIC)
    else:
        assert TOPICS.get(msg_type) == vector["topic"]
    assert (msg_type in BILATERAL) == (vector["route"] == "bilateral")


def test_the_docs_have_every_type_and_its_way() -> None:
    page = (Path(__file__).parents[3] / "docs" / "wire-mesh.md").read_text()
    rows = re.findall(r"^\| 0x(\w\w) \| (\w+) \| (.+?) \|", page, re.MULTILINE)
    ways = dict.fromkeys(BILATERAL, "an agent") | {each: f"`{topic}`" for each, topic in TOPICS.items()}
    ways[MsgType.BROADCAST] = f"`{NAMED_TOPIC}` and a name"
    assert rows == [(f"{each:02X}", each.name, ways[each]) for each in MsgType]
