"""Three nodes of one hall, with a NATS of their own for each test."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.store.server import Server
from tests.support.nats_server import NatsServer
from tests.support.notes import Record
from tests.support.real_cluster import RealCluster


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[NatsServer]:
    nats = NatsServer(tmp_path / "nats")
    nats.start()
    yield nats
    nats.kill()


@pytest.fixture
async def cluster(tmp_path: Path, server: Server, nats: NatsServer) -> AsyncIterator[RealCluster]:
    cluster = RealCluster(tmp_path, server.new_database(), nats.url)
    try:
        cluster.start()
        await cluster.together()
        yield cluster
    finally:
        cluster.kill()


@pytest.fixture
def record() -> Record:
    return Record()
