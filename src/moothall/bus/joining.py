"""A hall joins the other nodes on its bus when it opens, and leaves them when it closes."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from moothall.bus.opening import build_bus, name_node
from moothall.hall.cluster.cluster import Cluster
from moothall.hall.cluster.post import Soon
from moothall.hall.hall import Hall

if TYPE_CHECKING:
    from moothall.bus.nats_bus import NatsBus

# For the other nodes to tell of their agents. One that is dead is given up by then
JOINING_SECONDS: Final = 5.0
LEAVING_SECONDS: Final = 2.0


async def join(hall: Hall, fingerprint: str, soon: Soon) -> "NatsBus":
    """Returns when the hall knows the agents of all nodes. `fingerprint` is that of the hall's key.

    Raises UsageError if the bus cannot be reached.
    """
    settings, ready = hall.settings, asyncio.Event()
    node = name_node(settings)
    bus = build_bus(settings, fingerprint, node, hall.log)
    cluster = Cluster(hall, bus, node, soon, settings.public_url)
    cluster.open(ready.set)
    await bus.open()
    with suppress(TimeoutError):
        async with asyncio.timeout(JOINING_SECONDS):
            await ready.wait()
    hall.log.info("node_on_bus", node=node, hall=fingerprint, nodes=1 + len(cluster.nodes.live))
    return bus


async def leave(hall: Hall, bus: "NatsBus") -> None:
    """The other nodes see at once that this one has ended."""
    if hall.cluster is not None:
        left = asyncio.Event()
        hall.cluster.close(left.set)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await left.wait()
    await bus.close()
