"""Which crew a command is about."""

from pathlib import Path

import pytest

from moothall.errors import UsageError
from moothall.worker.crew import plan, record
from moothall.worker.crew.finding import find
from moothall.worker.crew.places import places_of
from moothall.worker.crew.record import Record

TABLES = {"agents": {"one": {"mission": "Work."}}}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    folder.mkdir()
    (folder / "crew.toml").write_text('[agents.one]\nmission = "Work."\n')
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"MOOTHALL_CREWS": str(tmp_path / "crews")}


@pytest.fixture
def known(here: Path, environment: dict[str, str]) -> Path:
    """The folder of a crew that was up."""
    file = here / "crew.toml"
    places = places_of("demo", environment)
    places.make()
    Record(plan.parse(TABLES, file), TABLES, record.PROCESS).write(places.record)
    return places.root


def test_a_crew_by_its_folder_its_file_or_its_name(
    here: Path, known: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    assert find(None, here, environment).root == known
    for given in ("demo/crew.toml", "demo/", str(here), "demo"):
        assert find(given, tmp_path, environment).root == known


def test_a_file_that_was_broken_meanwhile_does_not_hide_its_crew(
    here: Path, known: Path, environment: dict[str, str]
) -> None:
    (here / "crew.toml").write_text("[[[")
    assert find(None, here, environment).root == known


@pytest.mark.usefixtures("known")
def test_no_crew_here_and_how_to_name_one(tmp_path: Path, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"no crew.toml in this folder: .* --crew \(demo\)"):
        find(None, tmp_path, environment)
    with pytest.raises(UsageError, match="no crew 'dem', perhaps you mean demo"):
        find("dem", tmp_path, environment)
    with pytest.raises(UsageError, match="no crew 'zzz': there are demo"):
        find("zzz", tmp_path, environment)
    with pytest.raises(UsageError, match="there is no file"):
        find("x/crew.toml", tmp_path, environment)


def test_a_crew_that_was_never_up(here: Path, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="the crew demo was never up: run `moothall worker up`"):
        find(None, here, environment)


def test_a_folder_that_others_can_change_is_refused(
    here: Path, known: Path, environment: dict[str, str]
) -> None:
    known.chmod(0o777)
    for given in (None, "demo"):
        with pytest.raises(UsageError, match="can be changed by other users"):
            find(given, here, environment)
