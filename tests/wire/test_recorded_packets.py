"""Rolling upgrade: packets that nodes of an earlier version sent are read by nodes of this one."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import msgspec
import pytest

import moothall.hall.cluster
from moothall.wire.bus import OLDEST, BusMessage, Kinds
from tests.support.recorded_peer import read

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
        understood = [message.KIND for message in messages]
        assert understood == [kind for kind, _ in contents], f"{packet.subject} of {origin.node}"
        seen.update(understood)
    assert len(seen) > 10, f"the recording has only {sorted(seen)}"
