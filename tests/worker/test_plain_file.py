"""What an agent can put in the place of a file: none of it is followed, waited for or left open."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from moothall.daemon.folder import Folder
from moothall.worker import state_file
from moothall.worker.agent_folder import TRANSCRIPT
from moothall.worker.crew.tail import Tail
from moothall.worker.guard.abort_file import AbortFile
from moothall.worker.log_lines import LogFile
from moothall.worker.plain_file import open_plain
from moothall.worker.runner.transcript import Transcript, previous, set_aside, tail

TRAPS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "link to a file": lambda path: path.symlink_to("/etc/passwd"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


pytestmark = pytest.mark.parametrize("trap", TRAPS)


@pytest.fixture
def path(tmp_path: Path, trap: str) -> Path:
    made = tmp_path / "file"
    TRAPS[trap](made)
    return made


def test_it_is_refused_and_nothing_stays_open(path: Path) -> None:
    before = open_files()
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
        with pytest.raises(OSError, match=r".+"):
            open_plain(path, flags)
    assert open_files() == before


def test_it_says_nothing_to_those_who_read(path: Path) -> None:
    before = open_files()
    assert state_file.object_of_agent(path) == {}
    assert tail(path, 10) == []
    assert Tail(path).last(10) == Tail(path).more() == []
    abort = AbortFile(path, 1)
    assert abort.exists()
    assert abort.words() == ("", "")
    abort.close()
    assert open_files() == before


def test_a_session_after_it_has_a_transcript(path: Path) -> None:
    path.rename(path.with_name(TRANSCRIPT))
    folder = Folder(path.parent)
    set_aside(folder)
    written = Transcript(folder, "heading")
    written.write(b"words\n")
    written.close()
    assert tail(path.with_name(TRANSCRIPT), 10) == ["heading\n", "words\n"]
    assert previous(folder) == []


def test_a_log_loses_its_lines_and_goes_on(path: Path) -> None:
    LogFile(path).say("a line")
    assert not path.is_file() or b"a line" not in path.read_bytes()[:4096]


def test_beside_a_state_file_it_is_removed(path: Path, trap: str) -> None:
    state = path.with_name("state.json")
    path.rename(path.with_name(".state.json.new"))
    if trap == "folder":  # which is not removed, as it may have anything in it: the writer is told
        with pytest.raises(OSError, match=r".+"):
            state_file.write_object(state, {"a": 1})
    else:
        state_file.write_object(state, {"a": 1})
        assert state_file.read_object(state) == {"a": 1}
