"""Chunks leave at least 200 ms apart, whatever transfer they belong to."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from moothall.client.chunk_lane import ChunkLane
from moothall.client.requests import Request
from moothall.wire.agentchat import client


class SlowClock:
    """A loop's clock on which only sleeping takes time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        real = asyncio.sleep

        async def sleep(seconds: float) -> None:
            self.now += max(0.0, seconds)
            await real(0)

        monkeypatch.setattr(asyncio, "sleep", sleep)
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now, raising=False)


class Hall:
    def __init__(self, clock: SlowClock) -> None:
        self.sent: list[tuple[str, float]] = []
        self._clock = clock

    async def request(self, request: Request, patience: float) -> None:
        assert isinstance(request.message, client.FileChunk)
        self.sent.append((request.message.content, self._clock.now))


async def test_chunks_of_all_transfers_leave_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SlowClock(monkeypatch)
    hall: Any = Hall(clock)
    lane = ChunkLane(hall)

    async def transfer(name: str) -> None:
        for _ in range(3):
            await lane.send("@bob", name)

    await asyncio.gather(transfer("a"), transfer("b"))
    assert [name for name, _ in hall.sent] == ["a", "b", "a", "b", "a", "b"]
    times = [when for _, when in hall.sent]
    assert all(later - earlier > 0.199 for earlier, later in pairwise(times))
