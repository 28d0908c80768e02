"""Which files a model may send, and where it may save some."""

from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.tools import folders
from moothall.tools.folders import project_folder, save_folder, sendable


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = (tmp_path / "project").resolve()
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "page.md").write_text("page")
    (tmp_path / "secret").write_text("secret")
    return folder


def test_files_of_the_project_are_sent(project: Path) -> None:
    assert sendable("docs/page.md", project) == project / "docs" / "page.md"
    assert sendable(str(project / "docs"), project) == project / "docs"


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "docs/../../secret", "~/.ssh/id_rsa", "docs/link"]
)
def test_files_outside_are_not(project: Path, path: str) -> None:
    (project / "docs" / "link").symlink_to(project.parent / "secret")
    with pytest.raises(UsageError, match="outside"):
        sendable(path, project)


@pytest.mark.parametrize("path", [".env", "docs/.git/config", "docs"])
def test_hidden_files_are_not_sent(project: Path, path: str) -> None:
    (project / ".env").write_text("KEY=1")
    (project / "docs" / ".git").mkdir()
    (project / "docs" / ".git" / "config").write_text("x")
    with pytest.raises(UsageError, match="hidden"):
        sendable(path, project)


def test_a_file_that_is_not_there_is_named(project: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing\.md"):
        sendable("nothing.md", project)


@pytest.mark.parametrize(
    ("place", "is_open"), [("/", False), ("/home", False), ("/home/alice", False), ("/home/alice/work", True)]
)
def test_a_folder_near_the_root_is_not_open(place: str, is_open: bool) -> None:
    assert (project_folder(Path(place)) is not None) == is_open
    if not is_open:
        with pytest.raises(UsageError, match="--files"):
            sendable("x", project_folder(Path(place)))


def test_files_are_saved_in_the_project_or_a_temporary_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "gettempdir", lambda: str(tmp_path))
    assert save_folder("in", project, "ab12") == project / "in"
    assert save_folder(None, None, "ab12") == tmp_path / "agentchat-files" / "ab12"
    odd = save_folder(None, None, "../../etc")
    assert odd.parent == tmp_path / "agentchat-files"
    with pytest.raises(UsageError, match="outside"):
        save_folder("/etc", project, "ab12")


def test_a_temporary_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "agentchat-files").mkdir(mode=0o777)
    (tmp_path / "agentchat-files").chmod(0o777)
    with pytest.raises(UsageError, match="other users"):
        save_folder(None, None, "ab12")
