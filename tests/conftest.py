"""What hypothesis tries: `HYPOTHESIS_PROFILE=ci` for the same each time, `thorough` for more. Where agents remember
the halls that they met, and commands their contexts: not in the home folder, and not beyond a test. Variables of
the developer choose no hall, key file or name. How the suite is spread over processors. Which build it tests."""

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

import moothall
from moothall.cli import _chosen, _context_file
from moothall.compiled import COMPILED, PURE, build
from moothall.known_halls import PATH_VARIABLE
from moothall.wire.authority import URL_VARIABLES
from tests.support.replacing import Replacing

# The machine may be busy with something else; time is no part of any property here.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Under `nohup`, or in the background of a script, the programs that tests start would ignore these signals as well.
# They do not inherit a handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_numbers = count()
_SOURCES = Path(__file__).parents[1] / "src"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--build",
        choices=(COMPILED, PURE),
        help="fail unless this build is under test; `compiled` is that of an installed wheel",
    )


def pytest_sessionstart(session: pytest.Session) -> None:
    wanted = session.config.getoption("--build")
    place = Path(moothall.__file__)
    if wanted is not None and wanted != build():
        raise pytest.UsageError(f"--build {wanted}: {place} is the {build()} build")
    if wanted == COMPILED and place.is_relative_to(_SOURCES):
        raise pytest.UsageError(f"--build {wanted}: {place} is the source, not an installed wheel")


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Three workers for two processors: tests that start programs wait for about half of their time."""
    processors = yield
    return (processors * 3 + 1) // 2


@pytest.hookimpl(trylast=True)  # strangers/conftest.py marks its tests before
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Workers begin with the files that have slow tests, and go on with those that have many.

    Each file is run by one worker. At the end of the suite the others would wait for a slow file that came last.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        tests = Counter(item.path for item in items)
        items.sort(key=lambda item: (item.path not in slow, -tests[item.path]))


def pytest_collection_finish() -> None:
    """The collected tests stay to the end. Each full collection would take half a second to look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def monkeypatch() -> Iterator[pytest.MonkeyPatch]:
    replacing = Replacing()
    yield replacing
    replacing.undo()


@pytest.fixture(scope="session")
def _memories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known-halls")


@pytest.fixture(scope="module", autouse=True)
def _no_hall_is_known_to_the_module(_memories: Path) -> Iterator[None]:
    """For what its fixtures do before the first test."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        forget(_memories, monkeypatch)
        yield


@pytest.fixture(autouse=True)
def _no_hall_is_known(_memories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(_memories, monkeypatch)


def forget(memories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = next(_numbers)
    monkeypatch.setenv(PATH_VARIABLE, str(memories / f"{number}.json"))
    monkeypatch.setenv(_context_file.PATH_VARIABLE, str(memories / f"contexts-{number}.json"))
    for variable in (
        _context_file.NAME_VARIABLE,
        *URL_VARIABLES,
        _chosen.IDENTITY_VARIABLE,
        _chosen.NAME_VARIABLE,
    ):
        monkeypatch.delenv(variable, raising=False)
