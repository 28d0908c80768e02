"""Two nodes that know each other, for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.support.node_process import NodeProcess, two_nodes


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    with two_nodes(tmp_path_factory.mktemp("nodes")) as pair:
        yield pair


@pytest.fixture
def alice(nodes: tuple[NodeProcess, NodeProcess]) -> NodeProcess:
    return nodes[0]


@pytest.fixture
def bob(nodes: tuple[NodeProcess, NodeProcess]) -> NodeProcess:
    return nodes[1]
