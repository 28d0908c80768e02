"""Chunks on disk: in any order, with halves of characters, and never more than was offered."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moothall.files.control import Offer, OfferedFile
from moothall.files.spool import Spool, TooMuch, most_bytes
from moothall.wire.agentchat.jstext import utf8


def offer(chunks: int, size: int = 10_000, files: int = 0) -> Offer:
    return Offer("x", [OfferedFile("a", 1)] * files, size, "0" * 64, chunks)


_text = st.text(st.one_of(st.characters(), st.sampled_from("😀\ud83d\ude00é")), max_size=30)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_text, st.data())
def test_chunks_are_joined_as_javascript_joins_them(tmp_path: Path, text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    size = 2 * data.draw(st.integers(1, 10))
    pieces = [units[at : at + size].decode("utf-16-le", "surrogatepass") for at in range(0, len(units), size)]
    order = data.draw(st.permutations(range(len(pieces))))
    with Spool(tmp_path, offer(max(1, len(pieces)))) as spool:
        for idx in order:
            spool.put(idx, pieces[idx])
        assert b"".join(spool.read()) == utf8(text)
    assert list(tmp_path.iterdir()) == []


def test_more_than_was_offered(tmp_path: Path) -> None:
    small = offer(3, size=1)
    assert most_bytes(small) < 70_000
    with Spool(tmp_path, small) as spool:
        spool.put(0, "x" * 60_000)
        with pytest.raises(TooMuch):
            spool.put(1, "x" * 60_000)
        spool.put(2, "y")
        assert b"".join(spool.read()) == b"x" * 60_000 + b"y"


def test_a_lie_about_the_number_of_files_is_bounded() -> None:
    assert most_bytes(Offer("x", [], 0, "0" * 64, 1, more=2**53)) < 50 * 1024 * 1024
