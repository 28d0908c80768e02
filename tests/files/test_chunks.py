"""Cutting: every frame stays just under the limit, and nothing is lost."""

import json
from io import BytesIO
from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from moothall.client.incoming import encode
from moothall.files import chunks, control
from moothall.files.chunks import ROOM, cut, escaped_size, fitting
from moothall.wire.agentchat.client import MAX_FRAME, FileChunk

_texts = st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from('\n\r\t\0\x1f"\\é😀')))


@given(_texts)
def test_what_a_text_takes_in_a_frame(text: str) -> None:
    inner = json.dumps({"data": text}, ensure_ascii=False)
    outer = msgspec.json.encode(msgspec.json.encode({"data": text}).decode())
    empty = msgspec.json.encode(msgspec.json.encode({"data": ""}).decode())
    assert json.loads(inner)["data"] == text
    assert escaped_size(text.encode()) == len(outer) - len(empty)


@given(_texts, st.integers(7, 40))
def test_pieces_fit_and_join(text: str, room: int) -> None:
    whole = text.encode()
    offsets = cut(BytesIO(whole), room)
    pieces = [whole[start:end] for start, end in pairwise(offsets)]
    assert b"".join(pieces) == whole
    for piece, following in pairwise([*pieces, b""]):
        piece.decode()  # no character was cut
        assert piece
        assert escaped_size(piece) <= room
        if following:  # it is as long as it can be
            first = following.decode()[0].encode()
            assert escaped_size(piece + first) > room


def test_frames_are_just_under_256_kib() -> None:
    for text in (b"x", b'"', b"\n", b"\x01", "😀".encode(), b"A" * 76 + b"\n"):
        data = (text * MAX_FRAME)[: fitting(text * MAX_FRAME)].decode()
        content = control.encode(control.Chunk("f" * 64, control.MAX_CHUNKS, control.MAX_CHUNKS, data))
        frame = encode(FileChunk(to="@" + "f" * 16, content=content, ref="9" * 20))
        assert MAX_FRAME - 1024 < len(frame) < MAX_FRAME
    assert ROOM < MAX_FRAME
    assert chunks.cut(BytesIO(b"")) == [0]
