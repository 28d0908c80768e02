"""The MCP server of a worker tells the hall what its guard has counted."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moothall import Agent, Budget, Identity, PresenceChange, PrivateKey
from moothall.app import App
from moothall.daemon import inotify
from moothall.settings import Settings
from moothall.tools import budget_reports
from moothall.tools.budget_reports import reporting
from moothall.tools.options import Options
from moothall.tools.session import Session
from moothall.worker import state_file
from tests.client.conftest import Quiet
from tests.client.meeting import PATIENCE, Heard

WORKER = PrivateKey(b"w" * 32)
ADMIN_KEY = "open sesame"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(budget_reports, "PERIOD", 0.05)


@asynccontextmanager
async def open_hall(tmp_path: Path, port: int = 0) -> AsyncIterator[App]:
    settings = Settings(
        port=port, keep=False, data_dir=tmp_path / "hall", no_limits=True, admin_key=ADMIN_KEY, mesh=False
    )
    async with App(settings, Quiet()) as app:
        yield app


def write(tmp_path: Path, spent: int, session: str = "s1", name: str = "state.json") -> None:
    """As the guard does it."""
    state_file.write_object(tmp_path / name, {"session": session, "tokensTotal": spent, "budget": 1000})


@asynccontextmanager
async def server(tmp_path: Path, url: str) -> AsyncIterator[Session]:
    """What `stdio.serve` and `http.serve` do, without a host."""
    file = tmp_path / "state.json"
    options = Options(url, Identity(WORKER), "worker", channels=("#general",), budget_file=file)
    session = Session(options)
    try:
        async with reporting(session):
            yield session
    finally:
        await session.close()


class Watcher:
    """An agent that sees what the worker reports."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.admin = agent.admin(ADMIN_KEY)
        self.presences: Heard[PresenceChange] = Heard()
        agent.on_presence(self.presences)

    async def sees(self, spent: int) -> None:
        await self.presences.until(lambda change: change.budget == Budget(1000, spent))

    async def counted(self) -> int:
        return (await self.admin.budgets()).spent


@asynccontextmanager
async def watcher(url: str) -> AsyncIterator[Watcher]:
    async with Agent("watcher", channels=["#general"]).connected(url) as agent:
        yield Watcher(agent)


async def until(is_so: Callable[[], object]) -> None:
    """For files and logs, which tell nothing by themselves."""
    async with asyncio.timeout(PATIENCE):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_changes_are_reported_without_a_tool_call(tmp_path: Path) -> None:
    write(tmp_path, 0)
    async with open_hall(tmp_path) as app, watcher(app.url) as others:
        async with server(tmp_path, app.url):
            await others.sees(0)
            write(tmp_path, 70)
            await others.sees(70)
            (tmp_path / "unrelated").touch()
            write(tmp_path, 90)
            await others.sees(90)
        assert await others.counted() == 90


async def test_reports_have_their_distance_and_the_last_counts_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_reports, "PERIOD", 1.0)
    async with open_hall(tmp_path) as app, watcher(app.url) as others, server(tmp_path, app.url):
        now = asyncio.get_running_loop().time
        began = now()
        write(tmp_path, 1)
        await others.sees(1)
        for spent in range(2, 30):
            write(tmp_path, spent)
            await others.agent.ping()
        await others.sees(29)
        assert app.hall.spending.outcomes["counted"] <= 2 + (now() - began)


async def test_a_session_begins_at_0_and_brings_what_the_one_before_did_not_report(tmp_path: Path) -> None:
    write(tmp_path, 70)
    async with open_hall(tmp_path) as app, watcher(app.url) as others:
        async with server(tmp_path, app.url):
            await others.sees(70)
        write(tmp_path, 100)  # the guard's last word, when the server had ended
        (tmp_path / "state.json").rename(tmp_path / "state.prev.json")
        write(tmp_path, 120, "s2")  # more than the session before
        async with server(tmp_path, app.url):
            await others.sees(120)
            assert not (tmp_path / "state.prev.json").exists()
        async with server(tmp_path, app.url):  # the host has started it again
            await others.sees(120)
        assert await others.counted() == 100 + 120


async def test_a_count_that_cannot_be_removed_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path.name == "state.prev.json":
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    write(tmp_path, 100, name="state.prev.json")
    write(tmp_path, 120, "s2")
    async with open_hall(tmp_path) as app, watcher(app.url) as others:
        async with server(tmp_path, app.url):
            await others.sees(120)
            write(tmp_path, 130, "s2")
            await others.sees(130)
        assert await others.counted() == 100 + 130
    assert "state.prev.json cannot be removed" in caplog.text


async def test_beyond_a_cap_the_session_is_ended(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, 50)
    async with open_hall(tmp_path) as app, watcher(app.url) as others:
        await others.admin.set_budget(WORKER.public, 60)
        async with server(tmp_path, app.url):
            await others.sees(50)
            assert not (tmp_path / "abort").exists()
            with caplog.at_level(logging.WARNING):
                write(tmp_path, 61)
                await until((tmp_path / "abort").exists)
        word, reason, _ = (tmp_path / "abort").read_text().split("\n")
        assert word == "budget"
        assert reason.startswith("This key has spent 61 of 60 tokens today.")
        assert "61 of 60" in caplog.text
        assert await others.counted() == 61
        (tmp_path / "abort").unlink()
        write(tmp_path, 0, "s2")
        async with server(
            tmp_path, app.url
        ):  # a worker that starts anew is stopped before it has spent anything
            await until((tmp_path / "abort").exists)


async def test_a_hall_that_was_away_is_told_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budget_reports, "RETRY", 0.1)
    write(tmp_path, 10)
    async with open_hall(tmp_path) as app:
        url, port = app.url, app.port.address[1]
        async with server(tmp_path, url), watcher(url) as others:
            await others.sees(10)
    async with server(tmp_path, url):
        write(tmp_path, 40)
        async with open_hall(tmp_path, port), watcher(url) as others:
            await others.sees(40)
            assert await others.counted() == 40


async def test_a_worker_stays_in_the_hall_between_calls(tmp_path: Path) -> None:
    write(tmp_path, 10)
    async with open_hall(tmp_path) as app, watcher(app.url) as others, server(tmp_path, app.url) as session:
        await others.sees(10)
        await session._leave_quietly()  # what happens after a while without calls
        assert session.connected is not None


async def test_where_the_kernel_does_not_tell_it_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inotify, "watch", lambda path, interest: None)
    async with open_hall(tmp_path) as app, watcher(app.url) as others, server(tmp_path, app.url):
        write(tmp_path, 10)
        await others.sees(10)
        write(tmp_path, 20)
        await others.sees(20)


async def test_without_a_file_nothing_is_reported(tmp_path: Path) -> None:
    session = Session(Options(url="ws://127.0.0.1:1"))
    async with reporting(session):
        assert session.watchers == []
    await session.close()


async def test_an_order_that_cannot_be_written_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, 5)
    (tmp_path / "abort").mkdir()
    async with open_hall(tmp_path) as app, watcher(app.url) as others:
        await others.admin.set_budget(None, 0)
        async with server(tmp_path, app.url):
            await until(lambda: "the session cannot be ended" in caplog.text)
