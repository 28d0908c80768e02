"""The logs of a supervisor and of a runner."""

import os
import re
from pathlib import Path

import pytest

from moothall.worker import log_lines
from moothall.worker.log_lines import LogFile, utc


def test_a_line_has_its_time(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "runner.log")
    log.say("begins")
    log.say("ends")
    lines = log.path.read_text().splitlines()
    assert [line.partition(" ")[2] for line in lines] == ["begins", "ends"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ .*", line) for line in lines)
    assert log.path.stat().st_mode & 0o777 == 0o600


def test_a_moment_is_shown_in_utc() -> None:
    assert utc(0) == "1970-01-01T00:00:00Z"
    assert utc(86_399.9) == "1970-01-01T23:59:59Z"


def test_a_lone_surrogate_is_written_as_an_escape(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "runner.log")
    log.say("half \ud800")
    assert log.path.read_text().endswith(" half \\ud800\n")


def test_a_long_log_makes_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_lines, "MAX_BYTES", 40)
    log = LogFile(tmp_path / "runner.log")
    for number in range(10):
        log.say(f"line {number}")
    kept = (tmp_path / "runner.log.1").read_text() + log.path.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runner.log", "runner.log.1"]
    assert kept.splitlines()[-1].endswith("line 9")
    assert 2 <= len(kept.splitlines()) < 10


def test_a_child_appends_to_it(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "runner.log")
    descriptor = log.open()
    log.say("ours")
    os.write(descriptor, b"of a child\n")
    os.close(descriptor)
    assert log.path.read_text().endswith(" ours\nof a child\n")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("kept\n")
    log = LogFile(tmp_path / "runner.log")
    log.path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        log.open()
    log.say("lost")
    assert (tmp_path / "other").read_text() == "kept\n"
