from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.bus import parts
from moothall.bus.parts import HEADER, Assembly, TooLarge, split


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5), st.integers(1, 50), st.randoms())
def test_messages_of_several_nodes_are_put_together(messages: list[bytes], size: int, random: Random) -> None:
    """Their parts come mixed, but each message's own in order."""
    refused: list[None] = []
    assembly = Assembly(lambda: refused.append(None))
    lines = [list(split(f"m{number}", message, size)) for number, message in enumerate(messages)]
    got = []
    while any(lines):
        headers, part = random.choice([line for line in lines if line]).pop(0)
        if (message := assembly.add(headers[HEADER], part)) is not None:
            got.append(message)
    assert sorted(got) == sorted(messages)
    assert refused == []
    assert assembly._bytes == 0


@given(st.binary(min_size=3, max_size=100), st.integers(1, 20), st.data())
def test_a_message_without_one_of_its_parts_is_dropped_and_counted_once(
    message: bytes, size: int, data: st.DataObject
) -> None:
    refused: list[None] = []
    assembly = Assembly(lambda: refused.append(None))
    sent = list(split("m", message, size))
    missing = data.draw(st.integers(0, len(sent) - 1))
    for number, (headers, part) in enumerate(sent):
        if number != missing:
            assert assembly.add(headers[HEADER], part) is None
    assert len(refused) == (missing != len(sent) - 1)  # without its last part, it may still be on the way
    assembly.clear()
    assert assembly._bytes == 0
    for headers, part in sent[:-1]:
        assert assembly.add(headers[HEADER], part) is None
    assert assembly.add(sent[-1][0][HEADER], sent[-1][1]) == message


@pytest.mark.parametrize(
    "header",
    ["", "m", "m 0", "m x 2", "m 0 x", "m -1 2", "m 0 0", "m 2 2", "m 0 " + "9" * 5000, "m 0 \u0662"],
)
def test_a_header_that_is_none_is_refused(header: str) -> None:
    refused: list[None] = []
    assembly = Assembly(lambda: refused.append(None))
    assert assembly.add(header, b"part") is None
    assert len(refused) == 1
    assert not assembly._incomplete


def test_a_part_without_content_is_refused() -> None:
    """It would take a place that no limit of bytes counts."""
    refused: list[None] = []
    assembly = Assembly(lambda: refused.append(None))
    assert assembly.add("m 0 2", b"") is None
    assert (len(refused), assembly._incomplete) == (1, {})


def test_incomplete_messages_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MOST_BYTES", 100)
    assembly = Assembly(lambda: None)
    for number in range(10):
        assembly.add(f"m{number} 0 2", bytes(30))
    assert assembly._bytes == 90
    assert assembly.add("m9 1 2", b"end") == bytes(30) + b"end"
    assert assembly.add("m0 1 2", b"end") is None
    with pytest.raises(TooLarge):
        list(split("m", bytes(101), 10))
