"""A place for sessions, which ends with all their processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.workers import Workplace, workplace


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Workplace]:
    with workplace(tmp_path) as found:
        yield found
