"""The folder of a demo: what is removed, and what is not."""

from pathlib import Path

import pytest

from moothall.demo.folder import own_folder, remove_stale


@pytest.fixture(autouse=True)
def nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def stale(place: Path) -> Path:
    place.mkdir()
    (place / "lock").touch()
    (place / "data").write_text("of a demo that was killed")
    return place


def test_a_folder_whose_lock_is_free_is_settled_and_removed(tmp_path: Path) -> None:
    folder = stale(tmp_path / "moothall-demo-dead")
    settled: list[str] = []
    remove_stale(lambda found: settled.append((found / "data").read_text()))
    assert settled == ["of a demo that was killed"]
    assert not folder.exists()


def test_the_folder_of_a_demo_that_runs_or_starts_stays(tmp_path: Path) -> None:
    starting = tmp_path / "moothall-demo-starting"
    starting.mkdir()
    with own_folder() as running:
        remove_stale(lambda found: pytest.fail(f"{found}"))
        assert running.is_dir()
    assert not running.exists()
    assert starting.is_dir()


def test_what_only_has_such_a_name_stays(tmp_path: Path) -> None:
    other = stale(tmp_path / "other")
    (tmp_path / "moothall-demo-link").symlink_to(other)
    (tmp_path / "moothall-demo-file").touch()
    trap = tmp_path / "moothall-demo-trap"
    trap.mkdir()
    (trap / "lock").symlink_to(other / "lock")
    remove_stale(lambda found: pytest.fail(f"{found}"))
    assert (other / "data").exists()
    assert trap.is_dir()
