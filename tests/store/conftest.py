"""Every store test runs on both engines, for real: a test that asks for `place` gets each in turn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moothall.store.files import DataDirectory
from tests.store.server import Server
from tests.store.support import Log, Place


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def sqlite(tmp_path: Path) -> Place:
    return Place(DataDirectory(tmp_path / "data"), "", Log())


@pytest.fixture
def postgres(tmp_path: Path, server: Server) -> Place:
    return Place(DataDirectory(tmp_path / "data"), server.new_database(), Log())


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    chosen: Place = request.getfixturevalue(request.param)
    return chosen
