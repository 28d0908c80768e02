from collections.abc import Iterator

import pytest

from tests.support.nats_server import NatsServer


@pytest.fixture(scope="package")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """One for all tests that leave it as it is."""
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server
