"""The journal of new keys: what is written survives, and half a line spoils no other."""

import os
import stat
from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.store import journal
from moothall.store.files import DataDirectory, read_entries
from moothall.store.journal import JOURNAL_FILE, KeyJournal
from tests.store.support import Place

KEYS = [bytes([number]) * 32 for number in range(5)]


def entries(path: Path) -> list[tuple[str, bytes]]:
    return list(read_entries((path / JOURNAL_FILE).read_bytes()))


def test_a_line_is_there_when_it_was_written(tmp_path: Path) -> None:
    book = KeyJournal(DataDirectory(tmp_path))
    book.write("aaaaaaaa", KEYS[0])
    book.write("bbbbbbbb", KEYS[1])
    assert entries(tmp_path) == [("aaaaaaaa", KEYS[0]), ("bbbbbbbb", KEYS[1])]
    assert stat.S_IMODE((tmp_path / JOURNAL_FILE).stat().st_mode) == 0o600
    book.keep_only(())
    assert (tmp_path / JOURNAL_FILE).read_bytes() == b""
    book.write("cccccccc", KEYS[2])
    assert entries(tmp_path) == [("cccccccc", KEYS[2])]
    book.close()


def test_a_journal_that_has_grown_is_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "TIDY_BYTES", 200)
    book = KeyJournal(DataDirectory(tmp_path))
    for number in range(3):
        book.write(f"0000000{number}", KEYS[number])
        book.keep_only([(f"0000000{number}", KEYS[number])])
    assert entries(tmp_path) == [("00000002", KEYS[2])]
    book.write("00000003", KEYS[3])
    assert entries(tmp_path) == [("00000002", KEYS[2]), ("00000003", KEYS[3])]
    book.close()


def test_a_full_disk_is_told_and_spoils_no_other_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = KeyJournal(DataDirectory(tmp_path))
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:20]))
    with pytest.raises(OSError, match="space"):
        book.write("aaaaaaaa", KEYS[0])
    monkeypatch.undo()
    book.write("bbbbbbbb", KEYS[1])
    assert entries(tmp_path) == [("bbbbbbbb", KEYS[1])]
    book.close()


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / JOURNAL_FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match=JOURNAL_FILE):
        KeyJournal(DataDirectory(tmp_path))
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_what_a_killed_hall_left_is_brought_in_and_removed(place: Place) -> None:
    book = KeyJournal(place.directory)
    book.write("aaaaaaaa", KEYS[0])
    book.close()
    with place.books() as books:
        assert books.owners(["aaaaaaaa"]) == {"aaaaaaaa": KEYS[0]}
    assert not (place.directory.path / JOURNAL_FILE).exists()
    assert place.log.events == []
