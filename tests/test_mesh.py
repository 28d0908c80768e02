"""The mesh in a whole hall: where it is served, and what operators see of it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from moothall.app import App
from moothall.hall.mesh.frames import SUBPROTOCOL
from moothall.market.behaviour import ANOMALY_BOUNDS, Risk
from moothall.mesh import MeshAgent
from moothall.settings import Settings
from tests.store.support import Log
from tests.support.sockets import Peer, head

pytestmark = pytest.mark.slow


@asynccontextmanager
async def opened(tmp_path: Path, **settings: Any) -> AsyncIterator[App]:
    async with App(Settings(data_dir=tmp_path / "data", port=0, keep=False, **settings), Log()) as app:
        yield app


async def fetch(app: App, path: str) -> str:
    async with await Peer.connect(app.port) as peer:
        await peer.say(head(base={"Host": "127.0.0.1"}, target=path))
        assert (await peer.read_head()).split()[1] == "200"
        return (await peer.read_to_end()).decode()


async def test_a_client_may_name_the_subprotocol(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        async with connect(f"{app.url}/mesh", subprotocols=[SUBPROTOCOL]) as client:  # type: ignore[list-item]
            assert client.subprotocol == SUBPROTOCOL
        async with connect(f"{app.url}/mesh") as client:
            await client.send('{"type": "balance", "ref": "1"}')
            assert json.loads(await client.recv())["ref"] == "1"


async def test_without_the_mesh_its_path_is_refused_and_nothing_is_counted(tmp_path: Path) -> None:
    async with opened(tmp_path, mesh=False) as app:
        with pytest.raises(InvalidStatus) as refused:
            await connect(f"{app.url}/mesh")
        assert refused.value.response.status_code == 404
        assert "moothall_mesh" not in await fetch(app, "/metrics")
        assert "conversations" not in json.loads(await fetch(app, "/health"))


@pytest.mark.parametrize("inbox", ["off", "memory", "store"])
async def test_operators_see_the_mesh(tmp_path: Path, inbox: str) -> None:
    async with opened(tmp_path, mesh_inbox=inbox) as app:
        assert app.mesh is not None
        buckets = (1,) * len(ANOMALY_BOUNDS)
        app.mesh.epochs.latest = Risk(epoch=1, agents=4, flagged=1, total=1.5, buckets=buckets)
        async with MeshAgent("alice", url=app.url) as alice, MeshAgent("bob", url=app.url) as bob:
            await alice.propose(bob.id, "work")
            shown = await fetch(app, "/metrics")
            assert "moothall_mesh_agents 2.0" in shown
            assert 'moothall_mesh_envelopes_total{type="PROPOSE"} 1.0' in shown
            assert "moothall_mesh_systemic_risk 0.25" in shown
            assert 'moothall_mesh_anomaly_bucket{le="+Inf"} 4.0' in shown
            report = json.loads(await fetch(app, "/health"))
            assert report["agents"]["connected"] == 2
            assert set(report["conversations"]) == {"total", "byState"}
