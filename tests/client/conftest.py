"""Halls for agents to meet in: in this process, with a loop they share, so that every test is quick."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moothall.app import App
from moothall.identity import PublicKey
from moothall.settings import Settings


class Quiet:
    def info(self, event: str, **facts: object) -> None:
        pass

    def warning(self, event: str, **facts: object) -> None:
        pass


OpenHall = Callable[..., AbstractAsyncContextManager[App]]


@pytest.fixture(autouse=True)
def _no_settings_of_the_developers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AGENTCHAT_URL", "AGENTCHAT_CSMA_MIN_MS", "AGENTCHAT_CSMA_MAX_MS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def open_hall(tmp_path: Path) -> OpenHall:
    """A hall without limits, unless its settings say otherwise."""

    @asynccontextmanager
    async def open_one(**settings: Any) -> AsyncIterator[App]:
        chosen: dict[str, Any] = {
            "port": 0,
            "keep_port": 0,
            "data_dir": tmp_path / "hall",
            "no_limits": True,
            **settings,
        }
        async with App(Settings(**chosen), Quiet()) as app:
            yield app

    return open_one


@pytest.fixture
async def hall(open_hall: OpenHall) -> AsyncIterator[App]:
    async with open_hall() as app:
        yield app


@pytest.fixture
def url(hall: App) -> str:
    return hall.url


@pytest.fixture
def hall_key(hall: App) -> PublicKey:
    """What it signs receipts and cases with."""
    return PublicKey(bytes.fromhex(hall.hall.public_key))
