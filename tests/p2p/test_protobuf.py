"""Fields of protobuf messages, with protobuf itself as a second opinion."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given
from hypothesis import strategies as st

from moothall.p2p import protobuf
from moothall.p2p.faults import MalformedMessage

MOST = 50
numbers = st.integers(0, (1 << 64) - 1)
fields = st.tuples(st.integers(1, (1 << 29) - 1), numbers | st.binary(max_size=300))


def written(field: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return protobuf.number_field(field, value)
    return protobuf.bytes_field(field, value)


@given(st.lists(fields, max_size=20))
def test_what_is_written_is_read(message: list[protobuf.Field]) -> None:
    data = b"".join(written(*field) for field in message)
    assert list(protobuf.fields(data, most=MOST)) == message


@given(st.lists(fields, max_size=20))
def test_protobuf_reads_the_same(message: list[protobuf.Field]) -> None:
    unknown = [(field % 1000 + 20_000, value) for field, value in message]
    other = FileDescriptorProto()
    other.ParseFromString(b"".join(written(*field) for field in unknown))
    assert [(found.field_number, found.data) for found in UnknownFieldSet(other)] == unknown  # type: ignore[attr-defined]


@given(st.binary(max_size=200))
def test_what_is_read_here_protobuf_reads_too(data: bytes) -> None:
    try:
        found = list(protobuf.fields(data, most=MOST))
    except MalformedMessage:
        return
    if all(field > 15 for field, _ in found):  # others have a type in that message
        try:
            FileDescriptorProto().ParseFromString(data)
        except DecodeError:
            pytest.fail("protobuf refuses it")


def test_fields_of_fixed_width_are_skipped() -> None:
    data = b"\x0d" + bytes(4) + b"\x11" + bytes(8) + protobuf.number_field(3, 7)
    assert list(protobuf.fields(data, most=MOST)) == [(3, 7)]


@pytest.mark.parametrize(
    "form",
    [
        "0a",
        "0a05",
        "0a0541",
        "08",
        "0880",
        "00",
        "0b",
        "0c",
        "0d000000",
        "11",
        "0e",
        "f8ffffffff01",
        "0a" + "ff" * 9 + "01",
    ],
)
def test_what_is_no_protobuf_is_refused(form: str) -> None:
    with pytest.raises(MalformedMessage):
        list(protobuf.fields(bytes.fromhex(form), most=MOST))


def test_a_reader_takes_so_many_fields() -> None:
    data = protobuf.number_field(1, 0) * MOST
    assert len(list(protobuf.fields(data, most=MOST))) == MOST
    with pytest.raises(MalformedMessage, match="more than 50"):
        list(protobuf.fields(data + protobuf.number_field(1, 0), most=MOST))


@pytest.mark.parametrize("form", ["0a0541", "0d000000"])
def test_the_last_field_may_not_be_cut_off_either(form: str) -> None:
    with pytest.raises(MalformedMessage, match="cut off"):
        list(protobuf.fields(bytes.fromhex(form), most=1))


def test_values_of_the_wrong_kind_are_refused() -> None:
    assert (protobuf.as_bytes(b"a"), protobuf.as_number(1), protobuf.as_text("ü".encode())) == (b"a", 1, "ü")
    with pytest.raises(MalformedMessage):
        protobuf.as_bytes(1)
    with pytest.raises(MalformedMessage):
        protobuf.as_number(b"")
    with pytest.raises(MalformedMessage):
        protobuf.as_text(b"\xff")
