"""The last lines of a file that an agent writes, cuts and replaces."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moothall.worker.crew import tail
from moothall.worker.crew.tail import Tail


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "transcript.log"


def add(file: Path, content: bytes) -> None:
    with file.open("ab") as opened:
        opened.write(content)


def test_the_last_lines_and_then_what_is_added(file: Path) -> None:
    add(file, b"one\ntwo\nthree\nhal")
    found = Tail(file)
    assert found.last(2) == ["two", "three"]
    assert found.more() == []
    add(file, b"f\nnext\n")
    assert found.more() == ["half", "next"]
    assert Tail(file).last(0) == []


def test_a_file_that_comes_later_is_cut_or_replaced_is_read_from_its_beginning(file: Path) -> None:
    found = Tail(file)
    assert found.last(5) == []
    assert found.more() == []
    add(file, b"first\n")
    assert found.more() == ["first"]
    os.truncate(file, 0)
    add(file, b"a\n")
    assert found.more() == ["a"]
    other = file.with_name("other")
    add(other, b"a new session\n")
    other.replace(file)
    assert found.more() == ["a new session"]


def test_what_is_not_a_file_is_not_read(file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("key\n")
    file.symlink_to(secret)
    assert Tail(file).last(5) == []
    file.unlink()
    os.mkfifo(file)
    assert Tail(file).last(5) == []
    assert Tail(file).more() == []


def test_a_line_without_an_end_is_bounded(file: Path) -> None:
    found = Tail(file)
    add(file, b"x" * (tail.BLOCK + 1))
    assert found.more() == []
    assert [len(line) for line in found.more()] == [tail.BLOCK + 1]


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_no_line_is_lost_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    file = tmp_path_factory.mktemp("tail") / "log"
    file.touch()
    found, lines = Tail(file), list[str]()
    for piece in pieces:
        add(file, piece)
        lines += found.more()
    whole = b"".join(pieces).split(b"\n")[:-1]
    assert lines == [line.decode(errors="replace") for line in whole] == Tail(file).last(1000)
