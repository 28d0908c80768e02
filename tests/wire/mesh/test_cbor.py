"""Canonical CBOR: another library writes the same, and what it would also read is refused."""

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.wire.mesh.cbor import UINT64_MAX, MalformedCbor, Reader, Value, encode

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-1 - UINT64_MAX, UINT64_MAX)
    | st.binary(max_size=300)
    | st.text(max_size=100)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner)
)


@given(values)
def test_another_library_writes_the_same(value: Value) -> None:
    assert encode(value) == cbor2.dumps(value)


@pytest.mark.parametrize("number", [1 << 64, -(1 << 64) - 1])
def test_numbers_beyond_64_bits_cannot_be_written(number: int) -> None:
    with pytest.raises(ValueError, match="64 bits"):
        encode(number)


def test_a_lone_surrogate_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        encode("\ud800")


def test_a_map_keeps_its_order() -> None:
    assert encode({"b": 1, "a": 2}).hex() == "a2616201616102"


@given(st.integers(-1 - UINT64_MAX, UINT64_MAX))
def test_numbers_come_back(number: int) -> None:
    reader = Reader(encode(number))
    assert reader.integer() == number
    reader.end()


@given(st.lists(st.binary(max_size=300), max_size=30), st.text(max_size=300), st.booleans())
def test_items_come_back_in_their_order(blobs: list[bytes], text: str, truth: bool) -> None:
    reader = Reader(encode([blobs, text, truth, None]))
    reader.array_of(4)
    assert [reader.bytes_() for _ in range(reader.array(30))] == blobs
    assert (reader.null(), reader.text(), reader.boolean(), reader.null()) == (False, text, truth, True)
    reader.end()


LONGER = {
    "1 in two bytes": "1801",
    "23 in two bytes": "1817",
    "255 in three bytes": "1900ff",
    "65535 in five bytes": "1a0000ffff",
    "2**32 - 1 in nine bytes": "1b00000000ffffffff",
    "a bignum": "c24101",
    "a tag": "d81c01",
    "a reference": "d81d00",
    "a reserved length": "1c",
    "an indefinite length": "1f",
    "a float": "f93c00",
    "undefined": "f7",
    "a truth value": "f5",
    "nothing": "",
    "half a number": "19ff",
}


@pytest.mark.parametrize("encoding", LONGER.values(), ids=LONGER)
def test_a_number_has_one_form(encoding: str) -> None:
    with pytest.raises(MalformedCbor):
        Reader(bytes.fromhex(encoding)).integer()
    with pytest.raises(MalformedCbor):
        Reader(bytes.fromhex(encoding)).uint(UINT64_MAX)


@pytest.mark.parametrize("encoding", ["580161", "5f4161ff", "42ff", "6161", "5bffffffffffffffff"])
def test_a_byte_string_has_one_form(encoding: str) -> None:
    with pytest.raises(MalformedCbor):
        Reader(bytes.fromhex(encoding)).bytes_()


@pytest.mark.parametrize("encoding", ["61ff", "63eda080", "7f6161ff", "780161", "4161"])
def test_a_text_has_one_form_and_is_utf_8(encoding: str) -> None:
    with pytest.raises(MalformedCbor):
        Reader(bytes.fromhex(encoding)).text()


@pytest.mark.parametrize("encoding", ["9f01ff", "980101", "01", "8101"])
def test_an_array_has_one_form_and_its_length(encoding: str) -> None:
    with pytest.raises(MalformedCbor):
        Reader(bytes.fromhex(encoding)).array_of(2)


def test_lengths_and_numbers_are_bounded() -> None:
    assert Reader(encode([1, 2])).array(2) == 2
    assert Reader(encode(255)).uint(255) == 255
    for read in (
        lambda: Reader(encode([1, 2, 3])).array(2),
        lambda: Reader(encode(256)).uint(255),
        lambda: Reader(encode(-1)).uint(255),
        lambda: Reader(encode(b"123")).bytes_of(4),
    ):
        with pytest.raises(MalformedCbor):
            read()


def test_nothing_follows_the_last_item() -> None:
    reader = Reader(b"\x01\x00")
    assert reader.integer() == 1
    with pytest.raises(MalformedCbor, match="follow"):
        reader.end()


@given(st.binary(max_size=100))
def test_what_is_read_is_written_the_same(data: bytes) -> None:
    for read in (Reader.integer, Reader.bytes_, Reader.text, Reader.boolean):
        reader = Reader(data)
        try:
            value = read(reader)
            reader.end()
        except MalformedCbor:
            continue
        assert encode(value) == data
