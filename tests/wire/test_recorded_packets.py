"""Rolling upgrade: packets that nodes of an earlier version sent are read by nodes of this one."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import msgspec
import pytest

import moothall.hall.cluster
from moothall.hall.cluster import events
from moothall.hall.cluster.log import Follow, Happened, Snapshot, Submit
from moothall.wire.bus import OLDEST, BadPacket, BusMessage, Kinds
from tests.support.recorded_peer import ALICE, BOB, read

RECORDINGS = sorted((Path(__file__).parent.parent / "vectors").glob("bus_*.json"))


def kinds_of(parent: type[BusMessage]) -> Iterator[type[BusMessage]]:
    for child in parent.__subclasses__():
        if child.__module__.startswith("moothall."):
            yield child
        yield from kinds_of(child)


@pytest.fixture(scope="module")
def kinds() -> Kinds:
    """All that the rooms of a cluster understand."""
    for module in iter_modules(moothall.hall.cluster.__path__):
        import_module(f"moothall.hall.cluster.{module.name}")
    kinds = Kinds()
    for kind in kinds_of(BusMessage):
        kinds.add(kind)
    return kinds


def test_there_is_a_recording_of_the_oldest_version_that_is_read() -> None:
    assert f"bus_{OLDEST}.json" in [path.name for path in RECORDINGS]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_every_message_of_a_recording_is_understood(recording: Path, kinds: Kinds) -> None:
    seen: set[str] = set()
    for packet in read(recording):
        _, _, contents = msgspec.msgpack.decode(packet.payload[1:])
        origin, messages = kinds.unpack(packet.payload)
        understood = [message.KIND for message in messages if not isinstance(message, BadPacket)]
        assert understood == [kind for kind, _ in contents], f"{packet.subject} of {origin.node}"
        seen.update(understood)
    assert len(seen) > 10, f"the recording has only {sorted(seen)}"


def contents_of(message: BusMessage) -> list[Any]:
    """What a room reads in the bytes that the log of a channel carries for it."""
    match message:
        case Submit():
            return [events.decode_submission(message.body)]
        case Happened():
            return events.decode_events(message.record.body)
        case Snapshot():
            return [events.decode_state(message.state)]
        case Follow():
            return [events.decode_own(message.own)]
        case _:
            return []


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_what_the_logs_of_a_recording_carry_is_understood(recording: Path, kinds: Kinds) -> None:
    contents = [
        content
        for packet in read(recording)
        for message in kinds.unpack(packet.payload)[1]
        if not isinstance(message, BadPacket)
        for content in contents_of(message)
    ]
    by_type = {type(content).__name__ for content in contents}
    submitted, happened = (
        {"Ordered", "Say", "Depart"},
        {"Entered", "Shown", "Said", "Told", "Claimed", "Left"},
    )
    assert by_type >= {"State", "Own", *submitted, *happened}
    entered = [content.agent for content in contents if isinstance(content, events.Entered)]
    assert {(agent.node, agent.id, agent.key) for agent in entered} == {
        ("n1", BOB.public.agent_id(), BOB.public.raw)
    }
    said = [json.loads(content.text) for content in contents if isinstance(content, events.Said)]
    assert [line["from"] for line in said] == [f"@{key.public.agent_id()}" for key in (ALICE, BOB)]
