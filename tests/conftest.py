"""How much hypothesis tries: `HYPOTHESIS_PROFILE=ci` for more, and the same every time. And where agents remember
the halls that they met: not in the home folder, and not beyond a test."""

import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from moothall.known_halls import PATH_VARIABLE

# The machine may be busy with something else; time is no part of any property here.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=500, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

_numbers = count()


@pytest.fixture(scope="session")
def _memories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("known-halls")


@pytest.fixture(autouse=True)
def _no_hall_is_known(_memories: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATH_VARIABLE, str(_memories / f"{next(_numbers)}.json"))
