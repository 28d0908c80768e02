"""Personality: two optional files."""

from pathlib import Path

import pytest

from moothall.worker.runner import personality


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ""),
        ({"_base.md": "base\n"}, "base"),
        ({"alice.md": "alice\n", "bob.md": "bob"}, "alice"),
        ({"_base.md": "base", "alice.md": "alice"}, "base\n\n---\n\nalice"),
        ({"_base.md": "  \n", "alice.md": "alice"}, "alice"),
    ],
)
def test_what_is_there_is_read(tmp_path: Path, files: dict[str, str], expected: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert personality.load(tmp_path, "alice") == expected


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    assert personality.load(tmp_path / "nowhere", "alice") == ""


def test_a_file_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "alice.md").write_text("x" * 1_000_000)
    assert len(personality.load(tmp_path, "alice")) == personality.MAX_BYTES
