"""Folders that an agent has filled with what it likes are deleted, and nothing else is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moothall.worker.crew.deleting import delete

pytestmark = pytest.mark.slow

DEEPER = 3000  # folders in each other: more than Python's calls, and than most processes may open

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "agents" / "one"
    made.mkdir(parents=True)
    return made


def test_links_pipes_and_strange_names_go_and_their_targets_stay(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("kept")
    (folder / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "file")
    (folder / "inner" / "more").mkdir(parents=True)
    (folder / "inner" / "more" / "up").symlink_to("../../../..")
    (folder / "inner" / "more" / "-rf").mkdir()
    os.mkfifo(folder / "inner" / "pipe")
    (folder / "inner" / "a\nb").write_bytes(b"")
    os.link(outside / "file", folder / "inner" / "hard")
    delete(folder)
    assert not folder.exists()
    assert (outside / "file").read_text() == "kept"
    delete(folder)  # what is gone is no error


def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path: Path, folder: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder.rmdir()
    folder.symlink_to(outside)
    with pytest.raises(OSError, match="Not a directory"):
        delete(folder)
    assert outside.exists()


def test_folders_nested_without_end(folder: Path) -> None:
    # In a process of its own, because it changes its current directory.
    script = f"import os\nfor _ in range({DEEPER}):\n os.mkdir('d'); os.mkdir('e'); os.chdir('d')"
    subprocess.run([sys.executable, "-c", script], cwd=folder, check=True)
    delete(folder)
    assert not folder.exists()


def test_folders_that_are_closed_to_their_owner(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("not run: it needs root, to act as another user")
    inner = tmp_path / "one" / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    for each in (tmp_path, *tmp_path.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    inner.chmod(0)
    inner.parent.chmod(0)
    child = os.fork()
    if not child:
        os.chdir(tmp_path)
        os.setuid(NOBODY)
        try:
            delete(Path("one"))
        finally:
            os._exit(0 if not Path("one").exists() else 1)
    assert os.waitpid(child, 0)[1] == 0
