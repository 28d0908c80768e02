"""DELIVER and FEEDBACK: their ranges, and arrays of another shape."""

from typing import Any

import cbor2
import pytest

from moothall.wire.mesh.faults import PayloadParseError
from moothall.wire.mesh.outcomes import MAX_INLINE, Deliver, Feedback, Outcome

TALK, TARGET = bytes(range(16)), b"t" * 32
FEEDBACK: list[Any] = [TALK, TARGET, 80, 2, False, 0]
DELIVER: list[Any] = [TALK, "text/plain", b"work", None, None]


def changed(items: list[Any], place: int, item: Any) -> bytes:
    return cbor2.dumps([*items[:place], item, *items[place + 1 :]])


def test_the_arrays_parse_as_they_are() -> None:
    assert Feedback.decode(cbor2.dumps(FEEDBACK)).score == 80
    assert Deliver.decode(cbor2.dumps(DELIVER)).inline == b"work"


@pytest.mark.parametrize(
    ("place", "item"),
    [
        (0, TALK[1:]),
        (1, TARGET[1:]),
        (1, "t" * 32),
        (2, 101),
        (2, -101),
        (2, 1 << 63),
        (2, 80.0),
        (3, 3),
        (3, -1),
        (4, 0),
        (4, None),
        (5, 2),
    ],
)
def test_feedback_out_of_range_does_not_parse(place: int, item: Any) -> None:
    with pytest.raises(PayloadParseError):
        Feedback.decode(changed(FEEDBACK, place, item))


@pytest.mark.parametrize("score", [-100, 0, 100])
def test_scores_within_the_range_parse(score: int) -> None:
    assert Feedback.decode(changed(FEEDBACK, 2, score)).score == score


@pytest.mark.parametrize("score", [-101, 101])
def test_scores_out_of_range_are_not_written(score: int) -> None:
    with pytest.raises(ValueError, match="from -100 to 100"):
        Feedback(conversation_id=TALK, target_agent=TARGET, score=score, outcome=Outcome.NEUTRAL).encode()


@pytest.mark.parametrize("items", [FEEDBACK[:5], [*FEEDBACK, 0], {}, "text", DELIVER])
def test_other_shapes_are_no_feedback(items: Any) -> None:
    with pytest.raises(PayloadParseError):
        Feedback.decode(cbor2.dumps(items))


def test_bytes_after_the_array_are_no_feedback() -> None:
    with pytest.raises(PayloadParseError):
        Feedback.decode(cbor2.dumps(FEEDBACK) + b"\0")


@pytest.mark.parametrize(
    ("place", "item"),
    [(0, b""), (1, 1), (1, b"text"), (2, "work"), (2, None), (3, b"uri"), (4, -1), (4, "1")],
)
def test_other_arrays_are_no_delivery(place: int, item: Any) -> None:
    with pytest.raises(PayloadParseError):
        Deliver.decode(changed(DELIVER, place, item))


def test_work_that_is_not_wrapped_is_no_delivery() -> None:
    """The receiver hands it over as it is."""
    with pytest.raises(PayloadParseError):
        Deliver.decode(b"Hola, mundo")


def test_a_delivery_has_work_in_it_or_an_address() -> None:
    with pytest.raises(ValueError, match="where it is"):
        Deliver(conversation_id=TALK).encode()
    assert Deliver.decode(Deliver(conversation_id=TALK, inline=b"").encode()).inline == b""


def test_large_work_goes_by_reference() -> None:
    Deliver(conversation_id=TALK, inline=bytes(MAX_INLINE)).encode()
    with pytest.raises(ValueError, match="49,152"):
        Deliver(conversation_id=TALK, inline=bytes(MAX_INLINE + 1)).encode()
    received = Deliver.decode(cbor2.dumps([TALK, None, bytes(MAX_INLINE + 1), None, None]))
    assert received.inline is not None
    assert len(received.inline) == MAX_INLINE + 1
