"""Random operations of many agents at three nodes, while a node and NATS are killed. `python -m benchmarks.cluster
--faults` does more of it."""

import random
from pathlib import Path

from tests.store.server import Server
from tests.support.nats_server import NatsServer
from tests.support.real_cluster import RealCluster
from tests.support.storm import Storm, wounds_of

OPERATIONS = 400


async def test_no_promise_is_broken(
    cluster: RealCluster, nats: NatsServer, server: Server, tmp_path: Path
) -> None:
    storm = Storm(cluster, random.Random("a storm"), agents=8, dealers=4)  # noqa: S311
    kill_a_node, kill_nats, *_ = wounds_of(storm, cluster, nats, server)
    await storm.run([kill_a_node, kill_nats], OPERATIONS)
    await storm.go()
    cluster.kill()
    storm.check(tmp_path / "data")
    assert storm.deals
