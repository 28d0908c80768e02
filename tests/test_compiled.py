"""Which build of moothall runs, and how to have the sources of a compiled one."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from moothall.compiled import COMPILED, PURE, PURE_VARIABLE, SourceFinder, build, is_pure_wanted
from tests.support.server import environment, run_moothall, running_hall

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
# What a process imports of us: the modules of the hot path among others.
LOADED = """
import json, sys
import moothall.app
print(json.dumps([getattr(sys.modules[name], "__file__", None) for name in sys.modules if "moothall" in name]))
"""


def files_of_a_process(**variables: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", LOADED],
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=True,
    )
    files: list[str] = json.loads(ended.stdout)
    return files


def test_another_process_runs_the_build_of_this_one() -> None:
    compiled = [file for file in files_of_a_process() if file.endswith(SUFFIX)]
    assert bool(compiled) == (build() == COMPILED)


def test_the_environment_forces_pure_python() -> None:
    files = files_of_a_process(**{PURE_VARIABLE: "1"})
    assert [file for file in files if not file.endswith(".py")] == []
    assert len(files) > 100


@pytest.mark.parametrize(
    ("value", "wanted"),
    [("1", True), ("true", True), ("yes", True), ("", False), ("0", False), ("False", False)],
)
def test_values_of_the_variable(monkeypatch: pytest.MonkeyPatch, value: str, wanted: bool) -> None:
    monkeypatch.setenv(PURE_VARIABLE, value)
    assert is_pure_wanted() is wanted


def test_the_program_says_which_build_it_is(tmp_path: Path) -> None:
    shown = run_moothall(tmp_path, "--version", "-v").stdout
    assert f"build   {build()}\n" in shown
    assert "build   pure\n" in run_moothall(tmp_path, "--version", "-v", environ={PURE_VARIABLE: "1"}).stdout


async def test_a_pure_hall_says_so(tmp_path: Path) -> None:
    with running_hall(tmp_path, "--no-keep", environment={PURE_VARIABLE: "1"}) as hall:
        assert json.loads((await hall.get("/health"))[2])["build"] == PURE
        settings = run_moothall(tmp_path, "config", "show", environ={PURE_VARIABLE: "1"})
    assert PURE_VARIABLE not in settings.stderr  # it is no unknown setting


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """With a module in both forms, one that is compiled only, and a package in it."""
    folder = tmp_path / "house"
    (folder / "room").mkdir(parents=True)
    for name in (
        "__init__.py",
        "both.py",
        f"both{SUFFIX}",
        f"compiled_only{SUFFIX}",
        "room/__init__.py",
        "room/table.py",
    ):
        (folder / name).touch()
    return folder


def test_sources_are_found_beside_extension_modules(package: Path) -> None:
    finder, path = SourceFinder("house"), [str(package)]
    spec = finder.find_spec("house.both", path)
    assert spec is not None
    assert spec.origin == str(package / "both.py")
    room = finder.find_spec("house.room", path)
    assert room is not None
    assert room.submodule_search_locations == [str(package / "room")]
    assert finder.find_spec("house.room.table", [str(package / "room")]) is not None


def test_others_look_for_what_is_not_ours(package: Path) -> None:
    finder, path = SourceFinder("house"), [str(package)]
    assert finder.find_spec("house", None) is None
    assert finder.find_spec("housekeeping.both", path) is None
    assert finder.find_spec("house.compiled_only", path) is None


def test_a_source_that_is_added_is_found(package: Path) -> None:
    finder, path = SourceFinder("house"), [str(package)]
    assert finder.find_spec("house.new", path) is None
    before = package.stat().st_mtime_ns
    (package / "new.py").touch()
    os.utime(package, ns=(before, before))  # within the resolution of the clock of the file system
    assert finder.find_spec("house.new", path) is None
    finder.invalidate_caches()
    assert finder.find_spec("house.new", path) is not None
