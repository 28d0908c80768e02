"""A workplace for each test, which ends with all its processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.worker import sealing
from tests.support.workers import Workplace, workplace


@pytest.fixture(autouse=True)
def _stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of the tests, in which some of them take a secret, can be looked at afterwards."""
    monkeypatch.setattr(sealing, "seal", lambda: None)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with workplace(tmp_path) as found:
        yield found
