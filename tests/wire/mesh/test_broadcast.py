"""BROADCAST: its limits, and arrays of another shape."""

from typing import Any

import cbor2
import pytest
from msgspec import structs

from moothall.wire.mesh.broadcast import Broadcast
from moothall.wire.mesh.faults import PayloadParseError

MESSAGE = Broadcast(topic="news", title="Hello")
ITEMS: list[Any] = list(structs.astuple(MESSAGE))
LIMITS: list[tuple[str, Any, Any]] = [
    ("topic", "x" * 128, "x" * 129),
    ("topic", "é" * 64, "é" * 65),
    ("title", "x" * 256, "x" * 257),
    ("tags", ("x",) * 32, ("x",) * 33),
    ("format", "audio", "video"),
]


@pytest.mark.parametrize(("field", "most", "more"), LIMITS)
def test_limits_hold_for_what_is_written_and_read(field: str, most: Any, more: Any) -> None:
    fits = structs.replace(MESSAGE, **{field: most})
    assert Broadcast.decode(fits.encode()) == fits
    too_much = structs.replace(MESSAGE, **{field: more})
    with pytest.raises(ValueError, match=r"at most|one of"):
        too_much.encode()
    with pytest.raises(PayloadParseError):
        Broadcast.decode(cbor2.dumps(list(structs.astuple(too_much))))


@pytest.mark.parametrize("place", range(11))
@pytest.mark.parametrize("item", [-1, 1.5, [1], {}, 1 << 64])
def test_items_have_their_type(place: int, item: Any) -> None:
    with pytest.raises(PayloadParseError):
        Broadcast.decode(cbor2.dumps([*ITEMS[:place], item, *ITEMS[place + 1 :]]))


@pytest.mark.parametrize("place", [6, 7, 8])
def test_chunks_and_durations_have_32_bits(place: int) -> None:
    Broadcast.decode(cbor2.dumps([*ITEMS[:place], (1 << 32) - 1, *ITEMS[place + 1 :]]))
    with pytest.raises(PayloadParseError):
        Broadcast.decode(cbor2.dumps([*ITEMS[:place], 1 << 32, *ITEMS[place + 1 :]]))


@pytest.mark.parametrize("items", [ITEMS[:10], [*ITEMS, None], {}, b"text"])
def test_other_shapes_do_not_parse(items: Any) -> None:
    with pytest.raises(PayloadParseError):
        Broadcast.decode(cbor2.dumps(items))
