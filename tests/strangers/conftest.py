"""Peers of others, each in the same small network as the test that meets it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from moothall.network.rules import Rules
from moothall.p2p.multiaddr import Multiaddr
from tests.strangers.js_peer import JsPeer, StartJs, js_peer
from tests.strangers.node_program import NOWHERE
from tests.strangers.our_node import OurNode, StartOurs
from tests.strangers.ours import Ours, StartHost, our_host
from tests.strangers.reference import PROGRAM, Clock, Reference, StartReference
from tests.strangers.sandbox import only_loopback
from tests.support import npm
from tests.support.npm import Packages

PINNED: Final = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(PINNED):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def packages() -> Packages:
    return npm.installed(PINNED)


@pytest.fixture(scope="module", autouse=True)
def _network(packages: Packages) -> Iterator[None]:
    """Packages are installed before: they come from another network."""
    with only_loopback():
        yield


@pytest.fixture
async def js(packages: Packages, tmp_path: Path) -> AsyncIterator[StartJs]:
    """Starts peers on js-libp2p. They end with the test."""
    async with AsyncExitStack() as stack:

        async def start(name: str) -> JsPeer:
            state = tmp_path / name
            state.mkdir(exist_ok=True)
            return await stack.enter_async_context(js_peer(packages, state, name))

        yield start


@pytest.fixture
async def host() -> AsyncIterator[StartHost]:
    """Starts hosts of ours. They close with the test."""
    async with AsyncExitStack() as stack:

        async def start(name: str = "ours", rules: Rules | None = None, seed: bytes | None = None) -> Ours:
            return await stack.enter_async_context(our_host(name, rules, seed))

        yield start


@pytest.fixture
async def reference(packages: Packages, tmp_path: Path) -> AsyncIterator[StartReference]:
    """Starts reference nodes. They end with the test."""
    if not (packages.folder / PROGRAM).exists():
        pytest.skip("not run: there is no reference node for this machine")
    async with AsyncExitStack() as stack:

        async def start(
            name: str, seed: bytes, *bootstrap: Multiaddr, clock: Clock | None = None, rpc: str = NOWHERE
        ) -> Reference:
            node = Reference(seed, tmp_path / name, packages, bootstrap, clock, rpc)
            stack.push_async_callback(node.stop)
            await node.start()
            return node

        yield start


@pytest.fixture
async def our_node(tmp_path: Path) -> AsyncIterator[StartOurs]:
    """Starts nodes of ours, each in its own process. They end with the test."""
    async with AsyncExitStack() as stack:

        async def start(name: str, seed: bytes, *bootstrap: Multiaddr) -> OurNode:
            node = OurNode(seed, tmp_path / name, bootstrap)
            stack.push_async_callback(node.stop)
            await node.start()
            return node

        yield start
