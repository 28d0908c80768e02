"""Files that are whole in their old or in their new form."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moothall.worker import state_file
from tests.support.server import PATIENCE
from tests.support.workers import until

WRITER = """
import sys
from pathlib import Path
from moothall.worker import state_file
number = 0
while True:
    number += 1
    state_file.write_object(Path(sys.argv[1]), {"number": number, "text": "x" * 100_000})
"""


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert state_file.read_object(path) is None
    state_file.write_object(path, {"a": 1})
    state_file.write_object(path, {"a": 2})
    assert state_file.read_object(path) == {"a": 2}
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\xff"])
def test_anything_else_is_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    assert state_file.read_object(path) is None


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("{}")
    path = tmp_path / "state.json"
    path.symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        state_file.read_object(path)
    state_file.write_object(path, {"a": 1})
    assert (tmp_path / "other").read_text() == "{}"


def test_a_writer_that_is_killed_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"

    def number() -> int:
        found = state_file.read_object(path)
        assert found is not None or not path.exists(), "half a file"
        assert found is None or len(found["text"]) == 100_000
        return 0 if found is None else int(found["number"])

    for _ in range(3):
        path.unlink(missing_ok=True)
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        try:
            until(lambda: number() >= 3, "some writes")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)
        assert number() >= 3
    assert {each.name for each in tmp_path.iterdir()} <= {"state.json", ".state.json.new"}
