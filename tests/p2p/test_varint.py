"""Unsigned varints: one number, one form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p import varint
from moothall.p2p.faults import MalformedMessage


# The table of the unsigned-varint specification.
@pytest.mark.parametrize(
    ("number", "form"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (255, "ff01"), (300, "ac02"), (16384, "808001")],
)
def test_the_examples_of_the_specification(number: int, form: str) -> None:
    assert varint.encode(number).hex() == form
    assert varint.read(bytes.fromhex(form)) == (number, len(form) // 2)


@given(st.integers(0, (1 << 63) - 1), st.binary(max_size=5), st.binary(max_size=5))
def test_what_is_written_is_read(number: int, before: bytes, after: bytes) -> None:
    form = varint.encode(number)
    assert varint.read(before + form + after, len(before)) == (number, len(before) + len(form))


@given(st.integers(0, (1 << 63) - 1))
def test_a_number_that_is_cut_off_is_waited_for(number: int) -> None:
    form = varint.encode(number)
    assert all(varint.read(form[:size]) is None for size in range(len(form)))


@given(st.binary(max_size=12))
def test_a_number_has_one_form(data: bytes) -> None:
    try:
        found = varint.read(data, widest=varint.WIDEST_PROTOBUF)
    except MalformedMessage:
        return
    if found is not None:
        number, position = found
        assert varint.encode(number) == data[:position]


@pytest.mark.parametrize("form", ["8000", "ff00", "8080808080808080808001", "ff" * 9, "ff" * 20])
def test_long_forms_are_refused(form: str) -> None:
    with pytest.raises(MalformedMessage):
        varint.read(bytes.fromhex(form))


def test_ten_bytes_hold_no_more_than_64_bits() -> None:
    most = varint.encode((1 << 64) - 1)
    assert varint.read(most, widest=varint.WIDEST_PROTOBUF) == ((1 << 64) - 1, 10)
    with pytest.raises(MalformedMessage, match="64 bits"):
        varint.read(bytes(9 * [0xFF]) + b"\x02", widest=varint.WIDEST_PROTOBUF)


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_what_has_no_form_cannot_be_written(number: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        varint.encode(number)
