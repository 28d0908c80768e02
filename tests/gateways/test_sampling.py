"""Samples of a hall that is at work."""

import json

import pytest

from moothall.gateways import sampling as sampling_module
from moothall.gateways.lag import LagMeter
from moothall.gateways.sampling import Sampling
from moothall.hall.gallery import Gallery
from tests.support.echo import running
from tests.support.sockets import Peer, on_uvloop, turn
from tests.support.world import FakeLink, World


@on_uvloop
async def test_a_sample_says_what_is_there_and_what_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_module, "PERIOD", 0.01)
    world = World()
    gallery = Gallery(world.hall)
    gallery.connect(FakeLink(), "192.0.2.1")
    async with running() as port:
        sampling = Sampling(world.hall, port, LagMeter(), None, gallery)
        alice = world.agent("alice", join="#general")
        world.send_raw(alice, json.dumps({"type": "JOIN", "channel": "#nowhere"}).encode())
        async with await Peer.upgraded(port):
            sampling.start()
            while not len(sampling.history):
                await turn()
        sampling.stop()
    first = next(iter(sampling.history))
    assert (first.connections, first.agents, first.watchers) == (1, 1, 1)
    assert first.messages == 3  # IDENTIFY and JOIN twice
    assert first.refusals == {"CHANNEL_NOT_FOUND": 1}
    assert (first.outbox_bytes, first.slow_readers, first.overflows) == (0, 0, 0)


async def test_the_lag_of_the_last_seconds() -> None:
    meter = LagMeter()
    assert meter.worst_of(5) == 0
    meter._lags.extend([0.5, *[0.01] * 9, 0.02])
    assert meter.worst_of(5) == 0.02
    assert meter.worst_of(60) == 0.5
