"""Transcripts: written as output comes, kept for the next session, bounded."""

from pathlib import Path

import pytest

from moothall.daemon.folder import Folder
from moothall.worker.runner import transcript
from moothall.worker.runner.transcript import Transcript


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_each_piece_is_in_the_file_at_once(folder: Folder) -> None:
    written = Transcript(folder, "=== heading ===")
    path = folder.path / "transcript.log"
    assert path.read_bytes() == b""
    for piece, content in ((b"ha", "ha"), (b"lf\nof it", "half\nof it")):
        written.write(piece)
        assert path.read_text() == f"=== heading ===\n{content}"
    written.close()


def test_the_last_transcript_becomes_the_previous_one(folder: Folder) -> None:
    (folder.path / "transcript.log").write_text("a\nb\n")
    transcript.set_aside(folder)
    assert transcript.previous(folder) == ["a\n", "b\n"]
    assert not (folder.path / "transcript.log").exists()


def test_an_empty_one_does_not(folder: Folder) -> None:
    (folder.path / "transcript.prev.log").write_text("a\n")
    (folder.path / "transcript.log").touch()
    transcript.set_aside(folder)
    assert transcript.previous(folder) == ["a\n"]


def test_without_a_transcript_there_is_no_history(folder: Folder) -> None:
    transcript.set_aside(folder)
    assert transcript.previous(folder) == []


def test_the_tail_has_the_line_that_a_kill_has_torn(folder: Folder) -> None:
    path = folder.path / "transcript.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(300)) + b"to\xc3")
    tail = transcript.tail(path, 200)
    assert (len(tail), tail[0], tail[-1]) == (200, "line 101\n", "to\N{REPLACEMENT CHARACTER}")
    assert transcript.tail(path, 0) == []


def test_the_tail_is_bounded_in_bytes(folder: Folder) -> None:
    path = folder.path / "transcript.log"
    path.write_text("".join(f"{number} {'x' * 10_000}\n" for number in range(10)))
    assert [line.split()[0] for line in transcript.tail(path, 200)] == ["6", "7", "8", "9"]
    path.write_text("x" * 1_000_000)
    assert [len(line) for line in transcript.tail(path, 200)] == [transcript.MAX_TAIL]


def test_a_long_session_keeps_its_last_part(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_BYTES", 100_000)
    written = Transcript(folder, "=== heading ===")
    path = folder.path / "transcript.log"
    for number in range(10_000):
        written.write(f"line {number} {'x' * 50}\n".encode())
        assert path.stat().st_size < 101_000
    written.close()
    lines = path.read_text().splitlines()
    assert lines[0] == "[what came before was cut off]"
    assert lines[-1].startswith("line 9999 ")
